-- published: a shared breaker as it is often published, with the faults that come along.
--
-- KEYS     1 breaker
-- ARGV     1 now_ms, by the caller's clock · 2 'check', 'success' or 'failure' · 3 failures that open it · 4 reset_ms
-- Returns  the state
local now, event = tonumber(ARGV[1]), ARGV[2]
local stored = redis.call('HMGET', KEYS[1], 'state', 'failures', 'opened_ms')
local state = stored[1] or 'closed'
local failures, opened = tonumber(stored[2] or '0'), tonumber(stored[3] or '0')

if event == 'check' then
  if state == 'open' and now - opened >= tonumber(ARGV[4]) then
    state = 'half_open'
  end
elseif event == 'success' then
  if state ~= 'open' then
    state, failures = 'closed', 0
  end
else
  failures = failures + 1
  if state == 'half_open' or failures >= tonumber(ARGV[3]) then
    state, opened = 'open', now
  end
end

redis.call('HSET', KEYS[1], 'state', state, 'failures', failures, 'opened_ms', string.format('%.0f', opened))
return state

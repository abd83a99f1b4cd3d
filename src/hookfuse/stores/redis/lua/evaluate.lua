-- evaluate: judge a sample.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 breaker
-- ARGV     1 policy · 2 draw in [0, 1) · 3-7 ok, failed, slow, timed, latency_ms (none: the breaker's own counts)
-- Returns  {transitions, news}
--#include now text policy window bell breaker machine

local made, tally = {}, nil
if ARGV[3] then
  tally = {
    ok = tonumber(ARGV[3]), failed = tonumber(ARGV[4]), slow = tonumber(ARGV[5]), timed = tonumber(ARGV[6]),
    latency = tonumber(ARGV[7]),
  }
end
evaluate(load(KEYS[4]), read_policy(ARGV[1]), tally, -1, tonumber(ARGV[2]), made)
commit()
return { made, news(load(KEYS[4])) }

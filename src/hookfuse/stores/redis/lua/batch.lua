-- batch: many reports and questions for breakers of one shard, done in their order at one instant.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4... breakers
-- ARGV     1 commands one after the other, as a JSON array · 2... policies
--          Each command names its breaker by its place in KEYS, and its policy by its place in ARGV:
--          'admit', key, policy, token
--          'record', key, policy, kind, generation, token, latency_ms, slow, hold_ms, failure, draw
--          'oks', key, policy, generation, how many, latency_ms of all of them (-1 none), draw
--          'release', key, token
-- Returns  a reply for each command, as in admit.lua and record.lua
--#include now text policy window bell breaker machine report

local words, replies = cjson.decode(ARGV[1]), {}
local at = 1
while at <= #words do
  local verb, key, made = words[at], KEYS[words[at + 1]], {}
  if verb == 'admit' then
    local answer_ = admit(load(key), read_policy(ARGV[words[at + 2]]), words[at + 3], made)
    replies[#replies + 1] = { made, news(load(key)), answer_ }
    at = at + 4
  elseif verb == 'record' then
    apply_report(key, read_policy(ARGV[words[at + 2]]), words, at + 3, made)
    replies[#replies + 1] = { made, news(load(key)) }
    at = at + 11
  elseif verb == 'oks' then
    local breaker, policy = load(key), read_policy(ARGV[words[at + 2]])
    local generation, times, latency = words[at + 3], words[at + 4], words[at + 5]
    if not record_quickly(breaker, policy, times, generation, latency) then
      local each, left = -1, -1
      if latency >= 0 then
        each = math.floor(latency / times)
        left = latency - each * (times - 1)
      end
      for nth = 1, times do
        local took = nth == times and left or each
        record(breaker, policy, {
          kind = 'ok', generation = generation, token = '', latency = took, slow = took >= policy.slow_ms and 1 or 0,
          hold_ms = 0, failure = '', draw = words[at + 6],
        }, made)
      end
    end
    replies[#replies + 1] = { made, news(breaker) }
    at = at + 7
  else
    release(load(key), words[at + 2])
    replies[#replies + 1] = { {}, '' }
    at = at + 3
  end
end
commit()
return replies

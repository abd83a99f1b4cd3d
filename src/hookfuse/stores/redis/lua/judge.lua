-- judge: evaluate breakers of one shard by samples, for whoever leads. An older fence than the highest changes nothing.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 fence · 5... breakers
-- ARGV     1 fence · 2 floor: generations are above it from now on · then for each sample: its breaker's place in KEYS,
--          policy, draw in [0, 1), generation (-1: whatever it is), ok, failed, slow, timed, latency_ms
-- Returns  {accepted: 1 or 0, the shard's newest generation, replies as in evaluate.lua}
--#include now text policy window bell breaker machine

local fence, known = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[4]) or '0')
if fence < known then
  return { '0', whole(sequence), {} }
end
sequence = math.max(sequence, tonumber(ARGV[2]))
local replies = {}
for at = 3, #ARGV, 9 do
  local breaker, made = load(KEYS[tonumber(ARGV[at])]), {}
  local tally = {
    ok = tonumber(ARGV[at + 4]), failed = tonumber(ARGV[at + 5]), slow = tonumber(ARGV[at + 6]),
    timed = tonumber(ARGV[at + 7]), latency = tonumber(ARGV[at + 8]),
  }
  evaluate(breaker, read_policy(ARGV[at + 1]), tally, tonumber(ARGV[at + 3]), tonumber(ARGV[at + 2]), made)
  replies[#replies + 1] = { made, news(breaker) }
end
if fence > known then
  redis.call('SET', KEYS[4], ARGV[1])
end
commit()
return { '1', whole(sequence), replies }

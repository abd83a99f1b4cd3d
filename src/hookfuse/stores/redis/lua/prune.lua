-- prune: take breakers that are past their time out of the shard's index. Nothing happens to a breaker when its time is
-- over, so nobody else does.
--
-- KEYS     1 index · 2... breakers that it lists
-- ARGV     none
-- Returns  the breakers that were taken out
--#include now

local now, base = clock_ms(), string.sub(KEYS[1], 1, -6)
local gone = {}
for at = 2, #KEYS do
  if tonumber(redis.call('HGET', KEYS[at], 'expires_ms') or '0') <= now then
    gone[#gone + 1] = string.sub(KEYS[at], #base + 3)
  end
end
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
end
return gone

-- list: breakers of one shard as they are stored, and what time it is. Writes nothing.
--
-- KEYS     1... breakers
-- ARGV     none
-- Returns  {now_ms, HGETALL of the first, ...}
--#include now text

local found = { whole(clock_ms()) }
for at, key in ipairs(KEYS) do
  found[at + 1] = redis.call('HGETALL', key)
end
return found

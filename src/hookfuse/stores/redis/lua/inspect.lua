-- inspect: a breaker as it is stored, and what time it is. Writes nothing.
--
-- KEYS     1 breaker
-- ARGV     none
-- Returns  {now_ms, HGETALL}
--#include now text

return { whole(clock_ms()), redis.call('HGETALL', KEYS[1]) }

-- pulse: what time it is on this server, and which life of the data this is ('' after a flush). Writes nothing.
--
-- KEYS     1 meta
-- ARGV     none
-- Returns  {now_ms, life}
--#include now text

return { whole(clock_ms()), redis.call('HGET', KEYS[1], 'life') or '' }

-- release: no call was made; a probe's slot is free at once.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 breaker
-- ARGV     1 token of the lease
-- Returns  {transitions, news}, both empty
--#include now text policy window bell breaker machine

release(load(KEYS[4]), ARGV[1])
commit()
return { {}, '' }

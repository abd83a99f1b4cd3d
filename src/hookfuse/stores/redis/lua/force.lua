-- force: do what an operator says.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 breaker
-- ARGV     1 policy · 2 order: force_open, force_closed, unforce, probe, disable, enable, reset · 3 reason
--          · 4 until_ms (-1 for good) · 5 actor
-- Returns  {transitions, news, refused}; refused: nothing, or {now_ms} if it should end in the past
--#include now text policy window bell breaker machine

local made = {}
local obeyed = force(load(KEYS[4]), read_policy(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], made)
commit()
return { made, news(load(KEYS[4])), obeyed and {} or { whole(now) } }

-- admit: may this caller call? Writes nothing unless a probe is granted.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 breaker
-- ARGV     1 policy (policy.lua) · 2 token of the lease, should a probe be granted
-- Returns  {transitions, news, answer}; news: '' or what the index says now, 'plain' if nothing; answer: allowed, probe, reason, state, generation, share, would_deny, now_ms,
--          wait_ms ('' unknown), why, numbers; a transition: key, generation, before, after, at_ms, reason, numbers,
--          actor, override
--#include now text policy window bell breaker machine

local made = {}
local breaker = load(KEYS[4])
local reply = admit(breaker, read_policy(ARGV[1]), ARGV[2], made)
commit()
return { made, news(breaker), reply }

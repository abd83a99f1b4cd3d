-- record: report the outcome of one call.
--
-- KEYS     1 sequence · 2 stream · 3 index · 4 breaker
-- ARGV     1 policy · 2 kind: ok, failure, throttled, ignored · 3 generation · 4 token ('' none) · 5 latency_ms (-1
--          none) · 6 slow: 0 or 1 · 7 hold_ms · 8 failure as JSON · 9 draw in [0, 1)
-- Returns  {transitions, news}
--#include now text policy window bell breaker machine report

local made = {}
apply_report(KEYS[4], read_policy(ARGV[1]), ARGV, 2, made)
commit()
return { made, news(load(KEYS[4])) }

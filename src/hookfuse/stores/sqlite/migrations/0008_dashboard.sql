-- What a list of sick endpoints looks for first: few are stopped, flagged, or share a breaker.

CREATE INDEX endpoints_marked ON endpoints (id) WHERE stop <> 0 OR flag <> '';
CREATE INDEX endpoints_shared ON endpoints (breaker_key) WHERE breaker_key IS NOT NULL;

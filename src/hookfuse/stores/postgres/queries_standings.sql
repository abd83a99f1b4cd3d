-- name: standings
SELECT key, override, until_ms, disabled, reason, generation FROM hookfuse.standings;

-- name: keep_standings
INSERT INTO hookfuse.standings AS s (key, override, until_ms, disabled, reason, generation)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::boolean[], $5::text[], $6::bigint[]) ORDER BY 1
ON CONFLICT (key) DO UPDATE SET
    override = excluded.override, until_ms = excluded.until_ms, disabled = excluded.disabled,
    reason = excluded.reason, generation = excluded.generation
WHERE s.generation <= excluded.generation;

-- name: forget_standings
DELETE FROM hookfuse.standings AS s USING unnest($1::text[], $2::bigint[]) AS g (key, generation)
WHERE s.key = g.key AND s.generation <= g.generation;

-- name: breaker_memory
SELECT life, generation FROM hookfuse.breaker_memory;

-- name: keep_breaker_memory
UPDATE hookfuse.breaker_memory SET life = $1, generation = greatest(generation, $2);

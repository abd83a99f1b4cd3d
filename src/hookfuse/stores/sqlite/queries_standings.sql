-- name: standings
SELECT key, override, until_ms, disabled, reason, generation FROM standings;

-- name: keep_standing
INSERT INTO standings AS s (key, override, until_ms, disabled, reason, generation) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    override = excluded.override, until_ms = excluded.until_ms, disabled = excluded.disabled,
    reason = excluded.reason, generation = excluded.generation
WHERE s.generation <= excluded.generation;

-- name: forget_standing
DELETE FROM standings WHERE key = ? AND generation <= ?;

-- name: breaker_memory
SELECT life, generation FROM breaker_memory;

-- name: keep_breaker_memory
UPDATE breaker_memory SET life = ?, generation = max(generation, ?);

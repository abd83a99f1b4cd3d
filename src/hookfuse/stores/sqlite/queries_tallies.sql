-- name: add_tallies
INSERT INTO tallies AS t (slot_ms, endpoint_id, ok, failed, slow, latency_ms)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
ON CONFLICT (slot_ms, endpoint_id) DO UPDATE SET
    ok = t.ok + excluded.ok, failed = t.failed + excluded.failed, slow = t.slow + excluded.slow,
    latency_ms = t.latency_ms + excluded.latency_ms;

-- name: seen
-- :others is an object of endpoints, and how far back to look at them.
WITH others AS MATERIALIZED (SELECT key AS id, value AS back_ms FROM json_each(:others))
SELECT t.endpoint_id, e.version, sum(t.ok), sum(t.failed), sum(t.slow), sum(t.latency_ms)
FROM tallies AS t JOIN endpoints AS e ON e.id = t.endpoint_id AND e.stop & 8 = 0
LEFT JOIN others AS o ON o.id = t.endpoint_id
WHERE t.slot_ms >= :now - :furthest AND t.slot_ms >= :now - coalesce(o.back_ms, :back)
GROUP BY t.endpoint_id;

-- name: seen_of
SELECT t.endpoint_id, e.version, sum(t.ok), sum(t.failed), sum(t.slow), sum(t.latency_ms)
FROM json_each(:backs) AS b
JOIN tallies AS t ON t.endpoint_id = b.key AND t.slot_ms >= :now - b.value
JOIN endpoints AS e ON e.id = t.endpoint_id AND e.stop & 8 = 0
WHERE t.slot_ms >= :now - :furthest
GROUP BY t.endpoint_id;

-- name: guarded
SELECT e.id, e.version, e.app_id || '/' || coalesce(e.breaker_key, e.id), coalesce(e.policy, a.policy)
FROM json_each(?) AS i JOIN endpoints AS e ON e.id = i.value JOIN applications AS a ON a.id = e.app_id
WHERE e.stop & 8 = 0;

-- name: guarded_by
SELECT e.id, e.version, e.app_id || '/' || coalesce(e.breaker_key, e.id), coalesce(e.policy, a.policy)
FROM endpoints AS e JOIN applications AS a ON a.id = e.app_id
WHERE e.app_id = :app AND e.stop & 8 = 0 AND coalesce(e.breaker_key, e.id) = :name;

-- name: unguarded
-- A key is the application's id and the endpoint's own, or the key that endpoints share.
SELECT k.key
FROM (
    SELECT value AS key, substr(value, 1, instr(value, '/') - 1) AS app, substr(value, instr(value, '/') + 1) AS name
    FROM json_each(?)
) AS k
WHERE EXISTS (SELECT 1 FROM applications AS a WHERE a.id = k.app)
  AND NOT EXISTS (
    SELECT 1 FROM endpoints AS e
    WHERE e.id = k.name AND e.app_id = k.app AND e.breaker_key IS NULL AND e.stop & 8 = 0
  )
  AND NOT EXISTS (
    SELECT 1 FROM endpoints AS e WHERE e.breaker_key = k.name AND e.app_id = k.app AND e.stop & 8 = 0
  );

-- name: stored_policies
SELECT policy FROM endpoints WHERE policy IS NOT NULL AND stop & 8 = 0
UNION SELECT policy FROM applications WHERE policy IS NOT NULL AND deleted_ms IS NULL
UNION SELECT value FROM presets WHERE name = 'policy' AND value IS NOT NULL;

-- name: prune_tallies
DELETE FROM tallies WHERE slot_ms < ?;

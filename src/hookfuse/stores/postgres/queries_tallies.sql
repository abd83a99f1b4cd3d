-- name: seen
-- $1 how far back, $2 and $3 endpoints and how far back to look at them instead, $4 the furthest of all.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
counted AS MATERIALIZED (
    SELECT t.endpoint_id, sum(t.ok) AS ok, sum(t.failed) AS failed, sum(t.slow) AS slow, sum(t.latency_ms) AS latency_ms
    FROM hookfuse.tallies AS t
    LEFT JOIN unnest($2::text[], $3::bigint[]) AS o (id, back_ms) ON o.id = t.endpoint_id
    WHERE t.slot_ms >= (SELECT now FROM moment) - $4
      AND t.slot_ms >= (SELECT now FROM moment) - coalesce(o.back_ms, $1)
    GROUP BY t.endpoint_id
)
SELECT c.endpoint_id, e.version, c.ok, c.failed, c.slow, c.latency_ms::bigint
FROM counted AS c JOIN hookfuse.endpoints AS e ON e.id = c.endpoint_id AND e.stop & 8 = 0;

-- name: seen_of
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now)
SELECT b.id, e.version, sum(t.ok), sum(t.failed), sum(t.slow), sum(t.latency_ms)::bigint
FROM unnest($1::text[], $2::bigint[]) AS b (id, back_ms)
JOIN hookfuse.tallies AS t ON t.endpoint_id = b.id AND t.slot_ms >= (SELECT now FROM moment) - b.back_ms
JOIN hookfuse.endpoints AS e ON e.id = b.id AND e.stop & 8 = 0
WHERE t.slot_ms >= (SELECT now FROM moment) - $3
GROUP BY b.id, e.version;

-- name: guarded
SELECT e.id, e.version, e.app_id || '/' || coalesce(e.breaker_key, e.id) AS key,
       coalesce(e.policy, a.policy)::text AS policy
FROM unnest($1::text[]) AS i (id)
JOIN hookfuse.endpoints AS e ON e.id = i.id JOIN hookfuse.applications AS a ON a.id = e.app_id
WHERE e.stop & 8 = 0;

-- name: guarded_by
SELECT e.id, e.version, e.app_id || '/' || coalesce(e.breaker_key, e.id) AS key,
       coalesce(e.policy, a.policy)::text AS policy
FROM hookfuse.endpoints AS e JOIN hookfuse.applications AS a ON a.id = e.app_id
WHERE e.app_id = $1 AND e.stop & 8 = 0 AND coalesce(e.breaker_key, e.id) = $2;

-- name: unguarded
-- A key is the application's id and the endpoint's own, or the key that endpoints share.
SELECT k.key
FROM (
    SELECT key, split_part(key, '/', 1) AS app, substr(key, strpos(key, '/') + 1) AS name
    FROM unnest($1::text[]) AS asked (key)
) AS k
WHERE EXISTS (SELECT 1 FROM hookfuse.applications AS a WHERE a.id = k.app)
  AND NOT EXISTS (
    SELECT 1 FROM hookfuse.endpoints AS e
    WHERE e.id = k.name AND e.app_id = k.app AND e.breaker_key IS NULL AND e.stop & 8 = 0
  )
  AND NOT EXISTS (
    SELECT 1 FROM hookfuse.endpoints AS e WHERE e.breaker_key = k.name AND e.app_id = k.app AND e.stop & 8 = 0
  );

-- name: stored_policies
SELECT policy::text FROM hookfuse.endpoints WHERE policy IS NOT NULL AND stop & 8 = 0
UNION SELECT policy::text FROM hookfuse.applications WHERE policy IS NOT NULL AND deleted_ms IS NULL
UNION SELECT value::text FROM hookfuse.presets WHERE name = 'policy' AND value IS NOT NULL;

-- name: prune_tallies
DELETE FROM hookfuse.tallies WHERE slot_ms < (SELECT hookfuse.now_ms()) - $1;

-- Endpoints over all applications: the sick ones by what marks them, all others by id.

-- name: sick_endpoints
WITH sick AS (
    SELECT unnest($1::text[]) COLLATE "C" AS id
    UNION
    SELECT id FROM hookfuse.endpoints WHERE breaker_key IS NOT NULL AND breaker_key = ANY ($1)
    UNION
    SELECT id FROM hookfuse.endpoints WHERE stop <> 0 OR flag <> ''
    UNION
    SELECT endpoint_id FROM hookfuse.lanes WHERE failing
)
SELECT e.id, e.app_id, a.name AS app_name, e.url, e.description, e.uid, e.breaker_key, e.stop, e.disabled_reason, e.flag,
       l.failing
FROM sick JOIN hookfuse.endpoints AS e ON e.id = sick.id
JOIN hookfuse.applications AS a ON a.id = e.app_id JOIN hookfuse.lanes AS l ON l.endpoint_id = e.id
WHERE e.stop & 8 = 0 AND ($2::text IS NULL OR e.app_id = $2)
  AND ($3 = '' OR position(
    $3 IN lower(concat_ws(E'\n', e.url, e.description, e.id, e.uid, a.name) COLLATE "C")
  ) > 0)
ORDER BY e.id;

-- name: other_endpoints, both ways
SELECT e.id, e.app_id, a.name AS app_name, e.url, e.description, e.uid, e.breaker_key, e.stop, e.disabled_reason, e.flag,
       l.failing
FROM hookfuse.endpoints AS e
JOIN hookfuse.applications AS a ON a.id = e.app_id JOIN hookfuse.lanes AS l ON l.endpoint_id = e.id
WHERE e.id > $1 AND e.id < $2 AND ($5::text IS NULL OR e.app_id = $5)
  AND e.stop & 8 = 0 AND e.id <> ALL ($4::text[])
  AND ($6 = '' OR position(
    $6 IN lower(concat_ws(E'\n', e.url, e.description, e.id, e.uid, a.name) COLLATE "C")
  ) > 0)
ORDER BY e.id ASC LIMIT $3;

-- name: recent
-- By slot and endpoint, as the index is ordered: what other endpoints did is not read.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() / $2 * $2 AS last)
SELECT t.slot_ms, t.endpoint_id, t.ok, t.failed, t.slow, t.latency_ms
FROM moment CROSS JOIN generate_series(moment.last - $2 * ($3 - 1), moment.last, $2) AS s (slot_ms)
CROSS JOIN unnest($1::text[]) AS e (id)
JOIN hookfuse.tallies AS t ON t.slot_ms = s.slot_ms AND t.endpoint_id = e.id;

-- name: census
SELECT (SELECT count(*) FROM hookfuse.endpoints WHERE stop & 8 = 0),
       (SELECT min(least(fresh_ms, late_ms)) FROM hookfuse.lanes WHERE stop & 8 = 0);

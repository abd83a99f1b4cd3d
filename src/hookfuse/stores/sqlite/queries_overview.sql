-- Endpoints over all applications: the sick ones by what marks them, all others by id.

-- name: sick_endpoints
WITH sick (id) AS (
    SELECT value FROM json_each(:names)
    UNION
    SELECT e.id FROM json_each(:names) AS n CROSS JOIN endpoints AS e INDEXED BY endpoints_shared ON e.breaker_key = n.value
    UNION
    SELECT id FROM endpoints INDEXED BY endpoints_marked WHERE stop <> 0 OR flag <> ''
    UNION
    SELECT endpoint_id FROM lanes INDEXED BY lanes_failing WHERE failing
)
SELECT e.id, e.app_id, a.name, e.url, e.description, e.uid, e.breaker_key, e.stop, e.disabled_reason, e.flag, l.failing
FROM sick CROSS JOIN endpoints AS e ON e.id = sick.id
JOIN applications AS a ON a.id = e.app_id JOIN lanes AS l ON l.endpoint_id = e.id
WHERE e.stop & 8 = 0 AND (:app IS NULL OR e.app_id = :app)
  AND (:text = '' OR instr(
    lower(e.url || char(10) || e.description || char(10) || e.id || char(10) || coalesce(e.uid, '') || char(10) || a.name),
    :text
  ) > 0)
ORDER BY e.id;

-- name: other_endpoints, both ways
SELECT e.id, e.app_id, a.name, e.url, e.description, e.uid, e.breaker_key, e.stop, e.disabled_reason, e.flag, l.failing
FROM endpoints AS e JOIN applications AS a ON a.id = e.app_id JOIN lanes AS l ON l.endpoint_id = e.id
WHERE e.id > :after_id AND e.id < :before_id AND (:app IS NULL OR e.app_id = :app)
  AND e.stop & 8 = 0 AND e.id NOT IN (SELECT value FROM json_each(:names))
  AND (:text = '' OR instr(
    lower(e.url || char(10) || e.description || char(10) || e.id || char(10) || coalesce(e.uid, '') || char(10) || a.name),
    :text
  ) > 0)
ORDER BY e.id ASC LIMIT :limit;

-- name: recent
-- By slot and endpoint, as the table is ordered: what other endpoints did is not read.
WITH RECURSIVE slots (slot_ms) AS (
    SELECT :last UNION ALL SELECT slot_ms - :width FROM slots WHERE slot_ms > :last - :width * (:slots - 1)
)
SELECT t.slot_ms, t.endpoint_id, t.ok, t.failed, t.slow, t.latency_ms
FROM slots CROSS JOIN json_each(:endpoints) AS e CROSS JOIN tallies AS t
  ON t.slot_ms = slots.slot_ms AND t.endpoint_id = e.value;

-- name: census
SELECT (SELECT count(*) FROM endpoints INDEXED BY endpoints_app WHERE stop & 8 = 0),
       (SELECT min(min(coalesce(fresh_ms, late_ms), coalesce(late_ms, fresh_ms))) FROM lanes WHERE stop & 8 = 0);

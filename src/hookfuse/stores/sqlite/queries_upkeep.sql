-- name: backlog_lanes
SELECT coalesce(sum(in_flight), 0),
       min(CASE WHEN stop = 0 AND in_flight < width AND fresh_at <= :now THEN fresh_at END),
       min(CASE WHEN stop = 0 AND in_flight < width AND late_at <= :now THEN late_at END)
FROM lanes;

-- name: backlog_waiting
-- The queue's index has nothing of what has ended.
SELECT count(*), coalesce(sum(l.stop <> 0 OR l.blocked_ms > :now), 0), min(d.first_ms)
FROM deliveries AS d INDEXED BY deliveries_queue JOIN lanes AS l ON l.endpoint_id = d.endpoint_id
WHERE d.queue IN (0, 1);

-- name: sealed_page
SELECT id, secret, headers FROM endpoints WHERE id > :after ORDER BY id LIMIT :limit;

-- name: reseal
UPDATE endpoints SET secret = ?, headers = ? WHERE id = ? AND secret = ? AND headers = ?;

-- name: applied_migrations
SELECT number, name, applied_ms FROM migrations ORDER BY number;

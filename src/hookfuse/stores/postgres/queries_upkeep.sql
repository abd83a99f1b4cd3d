-- name: backlog
-- The queue's index has nothing of what has ended. A bell is for deliveries that their lanes do not know of yet.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
waiting AS (
    SELECT count(*) AS total, count(*) FILTER (WHERE l.stop <> 0 OR l.blocked_ms > moment.now) AS held,
           min(d.first_ms) AS oldest
    FROM moment CROSS JOIN hookfuse.deliveries AS d JOIN hookfuse.lanes AS l ON l.endpoint_id = d.endpoint_id
    WHERE d.queue IN (0, 1) AND d.token IS NULL
),
due AS (
    SELECT min(fresh_at) FILTER (WHERE fresh_ms IS NOT NULL AND fresh_at <= moment.now) AS fresh,
           min(late_at) FILTER (WHERE late_ms IS NOT NULL AND late_at <= moment.now) AS late
    FROM hookfuse.lanes CROSS JOIN moment WHERE stop = 0 AND room
)
SELECT waiting.total, waiting.held, (SELECT coalesce(sum(in_flight), 0) FROM hookfuse.lanes WHERE in_flight > 0),
       least(due.fresh, due.late, (SELECT min(due_ms) FROM hookfuse.bells WHERE due_ms <= moment.now)), moment.now,
       waiting.oldest
FROM waiting, due, moment;

-- name: sealed_page
SELECT id, secret, headers FROM hookfuse.endpoints WHERE id > $1 ORDER BY id LIMIT $2;

-- name: reseal
UPDATE hookfuse.endpoints SET secret = $4, headers = $5 WHERE id = $1 AND secret = $2 AND headers = $3 RETURNING id;

-- name: applied_migrations
SELECT number, name, applied_ms FROM hookfuse.migrations ORDER BY number;

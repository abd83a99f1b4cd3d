-- name: delivery_counts
-- What was sent is found by its attempts. An attempt's clock may be a little behind that of the acceptance.
SELECT state, count(*) AS count FROM hookfuse.deliveries
WHERE endpoint_id = $2 AND queue IS NOT NULL AND queue IN (0, 1) AND created_ms >= $3 AND created_ms < $4
GROUP BY state
UNION ALL
SELECT state, count(*) FROM hookfuse.deliveries
WHERE app_id = $1 AND lost AND endpoint_id = $2 AND created_ms >= $3 AND created_ms < $4
GROUP BY state
UNION ALL
SELECT 'sent', count(DISTINCT a.message_id)
FROM hookfuse.attempts AS a
JOIN hookfuse.deliveries AS d ON d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id
WHERE a.endpoint_id = $2 AND a.at_ms >= $3 - 60000 AND d.state = 'sent' AND d.created_ms >= $3 AND d.created_ms < $4;

-- name: attempt_counts
SELECT count(*) FILTER (WHERE status BETWEEN 200 AND 299) AS succeeded, count(*) AS made
FROM hookfuse.attempts WHERE endpoint_id = $1 AND at_ms >= $2 AND at_ms < $3;

-- name: waiting
SELECT e.id, h.count
FROM unnest($1::text[]) AS e (id)
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT 1 FROM hookfuse.deliveries AS d
        WHERE d.endpoint_id = e.id AND d.queue IS NOT NULL AND d.queue IN (0, 1) AND d.token IS NULL LIMIT 10000
    ) AS waiting
) AS h
WHERE h.count > 0;

-- name: accept_for
-- Like accept, it touches no lane and leaves a bell.
WITH open AS (
    SELECT endpoint_id, hookfuse.now_ms() AS now FROM hookfuse.lanes
    WHERE endpoint_id = $7 AND app_id = $2 AND stop & 8 = 0
),
stored AS (
    INSERT INTO hookfuse.messages (id, app_id, event_type, channels, deliver_ms, created_ms, payload)
    SELECT $1::text, $2::text, $3::text, $4::text[], $5::bigint, open.now, $6::bytea FROM open
),
delivery AS (
    INSERT INTO hookfuse.deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
    SELECT $1::text, endpoint_id, $2::text, 0, now, now, now, now FROM open
),
bell AS (
    INSERT INTO hookfuse.bells (due_ms, endpoint_ids) SELECT now, ARRAY[endpoint_id] FROM open
)
SELECT now FROM open;

-- name: add_deliveries
-- Held, so that the content of a message is not expunged before its delivery is there.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
held AS MATERIALIZED (
    SELECT m.id, m.app_id, m.created_ms FROM hookfuse.messages AS m
    WHERE m.id = ANY ($2::text[]) AND m.payload IS NOT NULL
    ORDER BY m.id FOR SHARE
),
added AS (
    INSERT INTO hookfuse.deliveries (
        message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms, asked
    )
    SELECT h.id, l.endpoint_id, h.app_id, 0, moment.now, moment.now, moment.now, h.created_ms, true
    FROM held AS h JOIN hookfuse.lanes AS l ON l.endpoint_id = $1 AND l.app_id = h.app_id AND l.stop & 8 = 0
    CROSS JOIN moment
    ON CONFLICT (message_id, endpoint_id) DO NOTHING
    RETURNING endpoint_id, due_ms
),
bell AS (
    INSERT INTO hookfuse.bells (due_ms, endpoint_ids) SELECT DISTINCT due_ms, ARRAY[endpoint_id] FROM added
)
SELECT count(*) FROM added;

-- name: add_event_type
INSERT INTO hookfuse.event_types AS e (
    name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
)
VALUES ($1, $2, $3, $4, $5::jsonb, $6, $7::text[], hookfuse.now_ms(), hookfuse.now_ms())
ON CONFLICT (name) DO UPDATE
SET description = excluded.description, archived = excluded.archived, deprecated = excluded.deprecated,
    schemas = excluded.schemas, group_name = excluded.group_name, feature_flags = excluded.feature_flags,
    updated_ms = excluded.updated_ms
WHERE e.archived
RETURNING name;

-- name: event_type
SELECT name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
FROM hookfuse.event_types WHERE name = $1;

-- name: hold_event_type
SELECT name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
FROM hookfuse.event_types WHERE name = $1 FOR UPDATE;

-- name: change_event_type
UPDATE hookfuse.event_types
SET description = $2, archived = $3, deprecated = $4, schemas = $5::jsonb, group_name = $6, feature_flags = $7::text[],
    updated_ms = hookfuse.now_ms()
WHERE name = $1;

-- name: delete_event_type
DELETE FROM hookfuse.event_types WHERE name = $1 RETURNING true;

-- name: add_key
INSERT INTO hookfuse.api_keys (id, role, name, hash, app_id, created_ms)
VALUES ($1, $2, $3, $4, $5, hookfuse.now_ms()) RETURNING created_ms;

-- name: hold_keys
LOCK TABLE hookfuse.api_keys IN SHARE ROW EXCLUSIVE MODE;

-- name: has_keys
SELECT EXISTS (SELECT 1 FROM hookfuse.api_keys);

-- name: key_by_hash
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms FROM hookfuse.api_keys WHERE hash = $1;

-- name: key
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms FROM hookfuse.api_keys WHERE id = $1;

-- name: revoke_key
UPDATE hookfuse.api_keys SET revoked_ms = hookfuse.now_ms() WHERE id = $1 AND revoked_ms IS NULL RETURNING true;

-- name: touch_keys
UPDATE hookfuse.api_keys SET used_ms = hookfuse.now_ms() WHERE id = ANY ($1::text[]);

-- name: add_audit
INSERT INTO hookfuse.audit_log (id, actor, action, subject, app_id, detail, at_ms)
VALUES ($1, $2, $3, $4, $5, $6, hookfuse.now_ms());

-- name: add_task
INSERT INTO hookfuse.tasks (id, kind, app_id, subject, status, total, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, hookfuse.now_ms(), hookfuse.now_ms()) RETURNING created_ms;

-- name: task
SELECT id, kind, app_id, subject, status, total, seen, changed, created_ms, updated_ms
FROM hookfuse.tasks WHERE id = $1;

-- name: advance_task
UPDATE hookfuse.tasks SET status = $2, seen = $3, changed = $4, updated_ms = hookfuse.now_ms()
WHERE id = $1 AND status = 'running' RETURNING true;

-- name: cancel_task
UPDATE hookfuse.tasks SET status = 'cancelled', updated_ms = hookfuse.now_ms()
WHERE id = $1 AND status = 'running' RETURNING true;

-- name: default_policy
SELECT value FROM hookfuse.presets WHERE name = 'policy';

-- name: change_default_policy
INSERT INTO hookfuse.presets (name, value) VALUES ('policy', $1::jsonb)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: renew_all_endpoints
UPDATE hookfuse.endpoints SET version = version + 1 WHERE stop & 8 = 0;

-- name: delivery_counts
-- What was sent is found by its attempts. An attempt's clock may be a little behind that of the acceptance.
SELECT state, count(*) FROM deliveries
WHERE endpoint_id = :endpoint AND queue IS NOT NULL AND queue IN (0, 1, 2)
  AND created_ms >= :since AND created_ms < :until
GROUP BY state
UNION ALL
SELECT state, count(*) FROM deliveries
WHERE app_id = :app AND state IN ('failed', 'cancelled') AND endpoint_id = :endpoint
  AND created_ms >= :since AND created_ms < :until
GROUP BY state
UNION ALL
SELECT 'sent', count(*) FROM (
    SELECT DISTINCT a.message_id
    FROM attempts AS a CROSS JOIN deliveries AS d ON d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id
    WHERE a.endpoint_id = :endpoint AND a.at_ms >= :since - 60000
      AND d.state = 'sent' AND d.created_ms >= :since AND d.created_ms < :until
);

-- name: attempt_counts
SELECT coalesce(sum(status BETWEEN 200 AND 299), 0), count(*)
FROM attempts WHERE endpoint_id = :endpoint AND at_ms >= :since AND at_ms < :until;

-- name: waiting
SELECT e.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM deliveries AS d
        WHERE d.endpoint_id = e.value AND d.queue IS NOT NULL AND d.queue IN (0, 1) LIMIT 10000
    )
)
FROM json_each(:endpoints) AS e;

-- name: lane_is_open
SELECT 1 FROM lanes WHERE endpoint_id = :endpoint AND app_id = :app AND stop & 8 = 0;

-- name: add_deliveries
INSERT INTO deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms, asked)
SELECT m.id, l.endpoint_id, m.app_id, 0, :now, :now, :now, m.created_ms, 1
FROM lanes AS l JOIN messages AS m ON m.app_id = l.app_id
WHERE l.endpoint_id = :endpoint AND l.stop & 8 = 0
  AND m.id IN (SELECT value FROM json_each(:messages)) AND m.payload IS NOT NULL
ON CONFLICT (message_id, endpoint_id) DO NOTHING;

-- name: add_event_type
INSERT INTO event_types (
    name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
) VALUES (
    :name, :description, :archived, :deprecated, :schemas, :group_name, :feature_flags, :now, :now
)
ON CONFLICT (name) DO UPDATE
SET description = excluded.description, archived = excluded.archived, deprecated = excluded.deprecated,
    schemas = excluded.schemas, group_name = excluded.group_name, feature_flags = excluded.feature_flags,
    updated_ms = excluded.updated_ms
WHERE event_types.archived
RETURNING name;

-- name: event_type
SELECT name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
FROM event_types WHERE name = :name;

-- name: change_event_type
UPDATE event_types
SET description = :description, archived = :archived, deprecated = :deprecated, schemas = :schemas,
    group_name = :group_name, feature_flags = :feature_flags, updated_ms = :now
WHERE name = :name;

-- name: delete_event_type
DELETE FROM event_types WHERE name = :name;

-- name: add_key
INSERT INTO api_keys (id, role, name, hash, app_id, created_ms) VALUES (:id, :role, :name, :hash, :app, :now);

-- name: has_keys
SELECT EXISTS (SELECT 1 FROM api_keys);

-- name: key_by_hash
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms FROM api_keys WHERE hash = :hash;

-- name: key
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms FROM api_keys WHERE id = :id;

-- name: revoke_key
UPDATE api_keys SET revoked_ms = :now WHERE id = :id AND revoked_ms IS NULL;

-- name: touch_keys
UPDATE api_keys SET used_ms = :now WHERE id IN (SELECT value FROM json_each(:ids));

-- name: add_audit
INSERT INTO audit_log (id, actor, action, subject, app_id, detail, at_ms)
VALUES (:id, :actor, :action, :subject, :app, :detail, :now);

-- name: add_task
INSERT INTO tasks (id, kind, app_id, subject, status, total, created_ms, updated_ms)
VALUES (:id, :kind, :app, :subject, :status, :total, :now, :now);

-- name: task
SELECT id, kind, app_id, subject, status, total, seen, changed, created_ms, updated_ms FROM tasks WHERE id = :id;

-- name: advance_task
UPDATE tasks SET status = :status, seen = :seen, changed = :changed, updated_ms = :now
WHERE id = :id AND status = 'running';

-- name: cancel_task
UPDATE tasks SET status = 'cancelled', updated_ms = :now WHERE id = :id AND status = 'running';

-- name: default_policy
SELECT value FROM presets WHERE name = 'policy';

-- name: change_default_policy
INSERT INTO presets (name, value) VALUES ('policy', :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: renew_all_endpoints
UPDATE endpoints SET version = version + 1 WHERE stop & 8 = 0;

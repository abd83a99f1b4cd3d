-- Lists in pages, between two marks. Both bounds are always there, so that every page is one range of an index.

-- name: applications_page, both ways
SELECT id, name, uid, metadata, policy, retry, paused_ms, created_ms, updated_ms
FROM applications
WHERE id > :after_id AND id < :before_id AND deleted_ms IS NULL
ORDER BY id ASC LIMIT :limit;

-- name: endpoints_page, both ways
SELECT id, app_id, url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response,
       breaker_key, cap, rate_limit, timeout_ms, fifo, stop, disabled_ms, disabled_reason, flag, offer, version,
       created_ms, updated_ms
FROM endpoints
WHERE app_id = :app AND id > :after_id AND id < :before_id AND stop & 8 = 0
ORDER BY id ASC LIMIT :limit;

-- name: messages_page, both ways
SELECT m.id, m.app_id, m.event_type, NULL, m.uid, m.channels, m.deliver_ms, m.created_ms
FROM messages AS m
WHERE m.app_id = :app
  AND (m.created_ms, m.id) > (:after_ms, :after_id) AND (m.created_ms, m.id) < (:before_ms, :before_id)
  AND (:types IS NULL OR m.event_type IN (SELECT value FROM json_each(:types)))
  AND (:channel IS NULL OR EXISTS (SELECT 1 FROM json_each(m.channels) WHERE value = :channel))
ORDER BY m.created_ms ASC, m.id ASC LIMIT :limit;

-- name: messages_by_id
SELECT id, app_id, event_type, NULL, uid, channels, deliver_ms, created_ms
FROM messages WHERE id IN (SELECT value FROM json_each(:ids));

-- name: payloads
SELECT id, payload FROM messages WHERE id IN (SELECT value FROM json_each(:ids)) AND payload IS NOT NULL;

-- name: missing_page, both ways
SELECT m.id, m.app_id, m.event_type, NULL, m.uid, m.channels, m.deliver_ms, m.created_ms
FROM endpoints AS e CROSS JOIN messages AS m
WHERE e.id = :endpoint AND m.app_id = :app AND m.payload IS NOT NULL
  AND (m.created_ms, m.id) > (:after_ms, :after_id) AND (m.created_ms, m.id) < (:before_ms, :before_id)
  AND (e.event_types IS NULL OR m.event_type IN (SELECT value FROM json_each(e.event_types)))
  AND (e.channels IS NULL OR EXISTS (
    SELECT 1 FROM json_each(e.channels) AS wanted JOIN json_each(m.channels) AS given ON given.value = wanted.value
  ))
  AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.id AND d.endpoint_id = :endpoint)
ORDER BY m.created_ms ASC, m.id ASC LIMIT :limit;

-- name: attempts_of_endpoint_page, both ways
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual
FROM attempts AS a
WHERE a.endpoint_id = :endpoint AND a.app_id = :app AND :message IS NULL
  AND (a.at_ms, a.id) > (:after_ms, :after_id) AND (a.at_ms, a.id) < (:before_ms, :before_id)
  AND (:succeeded IS NULL OR coalesce(a.status BETWEEN 200 AND 299, 0) = :succeeded)
  AND (:class IS NULL OR coalesce(a.status, 0) / 100 * 100 = :class)
  AND (:types IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.id = a.message_id AND m.event_type IN (SELECT value FROM json_each(:types))
  ))
  AND (:channel IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m JOIN json_each(m.channels) AS c WHERE m.id = a.message_id AND c.value = :channel
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT :limit;

-- name: attempts_of_message_page, both ways
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual
FROM attempts AS a
WHERE a.message_id = :message AND a.app_id = :app AND (:endpoint IS NULL OR a.endpoint_id = :endpoint)
  AND (a.at_ms, a.id) > (:after_ms, :after_id) AND (a.at_ms, a.id) < (:before_ms, :before_id)
  AND (:succeeded IS NULL OR coalesce(a.status BETWEEN 200 AND 299, 0) = :succeeded)
  AND (:class IS NULL OR coalesce(a.status, 0) / 100 * 100 = :class)
  AND (:types IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.id = a.message_id AND m.event_type IN (SELECT value FROM json_each(:types))
  ))
  AND (:channel IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m JOIN json_each(m.channels) AS c WHERE m.id = a.message_id AND c.value = :channel
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT :limit;

-- name: attempted_page, both ways
-- Of each delivery the last attempt stands for it: no index of deliveries by endpoint is needed, which every send would pay.
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual,
       d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM attempts AS a CROSS JOIN deliveries AS d ON d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id
WHERE a.endpoint_id = :endpoint AND a.app_id = :app
  AND (a.at_ms, a.id) > (:after_ms, :after_id) AND (a.at_ms, a.id) < (:before_ms, :before_id)
  AND NOT EXISTS (
    SELECT 1 FROM attempts AS later
    WHERE later.message_id = a.message_id AND later.endpoint_id = a.endpoint_id
      AND (later.at_ms, later.id) > (a.at_ms, a.id)
  )
  AND (:state IS NULL OR d.state = :state)
  AND (:types IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.id = a.message_id AND m.event_type IN (SELECT value FROM json_each(:types))
  ))
  AND (:channel IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m JOIN json_each(m.channels) AS c WHERE m.id = a.message_id AND c.value = :channel
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT :limit;

-- name: attempt
SELECT id, message_id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, response, detail, manual
FROM attempts WHERE message_id = :message AND id = :id;

-- name: destinations_page, both ways
SELECT message_id, endpoint_id, app_id, state, attempts, spent, deaths, due_ms, reason, created_ms, ended_ms
FROM deliveries
WHERE message_id = :message AND endpoint_id > :after_id AND endpoint_id < :before_id
ORDER BY endpoint_id ASC LIMIT :limit;

-- name: open_deliveries_page, both ways
-- What waits, lane by lane: the index of the queues alone says which come first.
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM (
    SELECT q.message_id, q.endpoint_id
    FROM endpoints AS e CROSS JOIN deliveries AS q ON q.endpoint_id = e.id
    WHERE e.app_id = :app AND e.stop & 8 = 0 AND (:endpoint IS NULL OR e.id = :endpoint)
      AND q.queue IS NOT NULL AND q.queue IN (SELECT value FROM json_each(:queues))
      AND (q.message_id, q.endpoint_id) > (:after_id, :after_part)
      AND (q.message_id, q.endpoint_id) < (:before_id, :before_part)
      AND (:since IS NULL OR q.created_ms >= :since) AND (:until IS NULL OR q.created_ms < :until)
      AND (:types IS NULL OR EXISTS (
        SELECT 1 FROM messages AS m
        WHERE m.id = q.message_id AND m.event_type IN (SELECT value FROM json_each(:types))
      ))
    ORDER BY q.message_id ASC, q.endpoint_id ASC LIMIT :limit
) AS p CROSS JOIN deliveries AS d ON d.message_id = p.message_id AND d.endpoint_id = p.endpoint_id
ORDER BY d.message_id ASC, d.endpoint_id ASC;

-- name: lost_deliveries_page, both ways
-- Failed and cancelled, which have an index of their own.
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM deliveries AS d
WHERE d.app_id = :app AND d.state IN ('failed', 'cancelled')
  AND d.state IN (SELECT value FROM json_each(:states))
  AND (:endpoint IS NULL OR d.endpoint_id = :endpoint)
  AND (d.message_id, d.endpoint_id) > (:after_id, :after_part)
  AND (d.message_id, d.endpoint_id) < (:before_id, :before_part)
  AND (:since IS NULL OR d.created_ms >= :since) AND (:until IS NULL OR d.created_ms < :until)
  AND (:types IS NULL OR EXISTS (
    SELECT 1 FROM messages AS m
    WHERE m.id = d.message_id AND m.event_type IN (SELECT value FROM json_each(:types))
  ))
ORDER BY d.message_id ASC, d.endpoint_id ASC LIMIT :limit;

-- name: all_deliveries_page, both ways
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM messages AS m CROSS JOIN deliveries AS d ON d.message_id = m.id
WHERE m.app_id = :app
  AND m.created_ms >= max(coalesce((SELECT created_ms FROM messages WHERE id = :after_id), -1), coalesce(:since, -1))
  AND m.created_ms <= min(
    coalesce((SELECT created_ms FROM messages WHERE id = :before_id), 1 << 62), coalesce(:until - 1, 1 << 62)
  )
  AND (m.created_ms, d.message_id, d.endpoint_id)
    > (coalesce((SELECT created_ms FROM messages WHERE id = :after_id), -1), :after_id, :after_part)
  AND (m.created_ms, d.message_id, d.endpoint_id)
    < (coalesce((SELECT created_ms FROM messages WHERE id = :before_id), 1 << 62), :before_id, :before_part)
  AND (:states IS NULL OR d.state IN (SELECT value FROM json_each(:states)))
  AND (:endpoint IS NULL OR d.endpoint_id = :endpoint)
  AND (:types IS NULL OR m.event_type IN (SELECT value FROM json_each(:types)))
ORDER BY m.created_ms ASC, m.id ASC, d.endpoint_id ASC LIMIT :limit;

-- name: event_types_page, both ways
SELECT name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
FROM event_types
WHERE name > :after_id AND name < :before_id AND archived <= :archived
ORDER BY name ASC LIMIT :limit;

-- name: keys_page, both ways
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms
FROM api_keys
WHERE id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

-- name: keys_of_application_page, both ways
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms
FROM api_keys
WHERE app_id = :app AND id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

-- name: audit_page, both ways
SELECT id, actor, action, subject, app_id, detail, at_ms
FROM audit_log
WHERE id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

-- name: audit_of_application_page, both ways
SELECT id, actor, action, subject, app_id, detail, at_ms
FROM audit_log
WHERE app_id = :app AND id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

-- name: tasks_page, both ways
SELECT id, kind, app_id, subject, status, total, seen, changed, created_ms, updated_ms
FROM tasks
WHERE id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

-- name: tasks_of_application_page, both ways
SELECT id, kind, app_id, subject, status, total, seen, changed, created_ms, updated_ms
FROM tasks
WHERE app_id = :app AND id > :after_id AND id < :before_id
ORDER BY id ASC LIMIT :limit;

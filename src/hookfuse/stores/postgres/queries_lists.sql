-- Lists in pages, between two marks. Both bounds are always there, so that every page is one range of an index.
-- Lists by id take $1 after, $2 before, $3 limit; those by time $1 and $2 after, $3 and $4 before, $5 limit; those by place
-- the same with message and endpoint.

-- name: applications_page, both ways
SELECT id, name, uid, metadata, policy, retry, paused_ms, created_ms, updated_ms
FROM hookfuse.applications
WHERE id > $1 AND id < $2 AND deleted_ms IS NULL
ORDER BY id ASC LIMIT $3;

-- name: endpoints_page, both ways
SELECT id, app_id, url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response,
       breaker_key, cap, rate_limit, timeout_ms, fifo, stop, disabled_ms, disabled_reason, flag, offer, version,
       created_ms, updated_ms
FROM hookfuse.endpoints
WHERE app_id = $4 AND id > $1 AND id < $2 AND stop & 8 = 0
ORDER BY id ASC LIMIT $3;

-- name: messages_page, both ways
SELECT m.id, m.app_id, m.event_type, NULL AS payload, m.uid, m.channels, m.deliver_ms, m.created_ms
FROM hookfuse.messages AS m
WHERE m.app_id = $6 AND (m.created_ms, m.id) > ($1, $2) AND (m.created_ms, m.id) < ($3, $4)
  AND ($7::text[] IS NULL OR m.event_type = ANY ($7))
  AND ($8::text IS NULL OR $8 = ANY (m.channels))
ORDER BY m.created_ms ASC, m.id ASC LIMIT $5;

-- name: messages_by_id
SELECT id, app_id, event_type, NULL AS payload, uid, channels, deliver_ms, created_ms
FROM hookfuse.messages WHERE id = ANY ($1::text[]);

-- name: payloads
SELECT id, payload FROM hookfuse.messages WHERE id = ANY ($1::text[]) AND payload IS NOT NULL;

-- name: missing_page, both ways
SELECT m.id, m.app_id, m.event_type, NULL AS payload, m.uid, m.channels, m.deliver_ms, m.created_ms
FROM hookfuse.messages AS m
WHERE m.app_id = $6 AND m.payload IS NOT NULL AND (m.created_ms, m.id) > ($1, $2) AND (m.created_ms, m.id) < ($3, $4)
  AND EXISTS (
    SELECT 1 FROM hookfuse.endpoints AS e
    WHERE e.id = $7 AND (e.event_types IS NULL OR m.event_type = ANY (e.event_types))
      AND (e.channels IS NULL OR e.channels && m.channels)
  )
  AND NOT EXISTS (SELECT 1 FROM hookfuse.deliveries AS d WHERE d.message_id = m.id AND d.endpoint_id = $7)
ORDER BY m.created_ms ASC, m.id ASC LIMIT $5;

-- name: attempts_of_endpoint_page, both ways
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual
FROM hookfuse.attempts AS a
WHERE a.app_id = $6 AND a.endpoint_id = $7 AND (a.at_ms, a.id) > ($1, $2) AND (a.at_ms, a.id) < ($3, $4)
  AND ($8::boolean IS NULL OR coalesce(a.status BETWEEN 200 AND 299, false) = $8)
  AND ($9::integer IS NULL OR coalesce(a.status, 0) / 100 * 100 = $9)
  AND (($10::text[] IS NULL AND $11::text IS NULL) OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m
    WHERE m.id = a.message_id AND ($10::text[] IS NULL OR m.event_type = ANY ($10))
      AND ($11::text IS NULL OR $11 = ANY (m.channels))
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT $5;

-- name: attempts_of_message_page, both ways
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual
FROM hookfuse.attempts AS a
WHERE a.app_id = $6 AND ($7::text IS NULL OR a.endpoint_id = $7) AND a.message_id = $12
  AND (a.at_ms, a.id) > ($1, $2) AND (a.at_ms, a.id) < ($3, $4)
  AND ($8::boolean IS NULL OR coalesce(a.status BETWEEN 200 AND 299, false) = $8)
  AND ($9::integer IS NULL OR coalesce(a.status, 0) / 100 * 100 = $9)
  AND (($10::text[] IS NULL AND $11::text IS NULL) OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m
    WHERE m.id = a.message_id AND ($10::text[] IS NULL OR m.event_type = ANY ($10))
      AND ($11::text IS NULL OR $11 = ANY (m.channels))
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT $5;

-- name: attempted_page, both ways
-- Of each delivery the last attempt stands for it: no index of deliveries by endpoint is needed, which every send would pay.
SELECT a.id, a.message_id, a.endpoint_id, a.app_id, a.number, a.at_ms, a.status, a.trouble, a.latency_ms, a.response,
       a.detail, a.manual, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms, d.ended_ms
FROM hookfuse.attempts AS a
JOIN hookfuse.deliveries AS d ON d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id
WHERE a.app_id = $6 AND a.endpoint_id = $7 AND (a.at_ms, a.id) > ($1, $2) AND (a.at_ms, a.id) < ($3, $4)
  AND NOT EXISTS (
    SELECT 1 FROM hookfuse.attempts AS later
    WHERE later.message_id = a.message_id AND later.endpoint_id = a.endpoint_id
      AND (later.at_ms, later.id) > (a.at_ms, a.id)
  )
  AND ($8::text IS NULL OR d.state = $8)
  AND (($9::text[] IS NULL AND $10::text IS NULL) OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m
    WHERE m.id = a.message_id AND ($9::text[] IS NULL OR m.event_type = ANY ($9))
      AND ($10::text IS NULL OR $10 = ANY (m.channels))
  ))
ORDER BY a.at_ms ASC, a.id ASC LIMIT $5;

-- name: attempt
SELECT id, message_id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, response, detail, manual
FROM hookfuse.attempts WHERE message_id = $1 AND id = $2;

-- name: destinations_page, both ways
SELECT message_id, endpoint_id, app_id, state, attempts, spent, deaths, due_ms, reason, created_ms, ended_ms
FROM hookfuse.deliveries
WHERE message_id = $4 AND endpoint_id > $1 AND endpoint_id < $2
ORDER BY endpoint_id ASC LIMIT $3;

-- name: open_deliveries_page, both ways
-- What waits, lane by lane: the index of the queues alone says which come first.
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM (
    SELECT q.message_id, q.endpoint_id
    FROM hookfuse.endpoints AS e JOIN hookfuse.deliveries AS q ON q.endpoint_id = e.id
    WHERE e.app_id = $6 AND e.stop & 8 = 0 AND ($7::text IS NULL OR e.id = $7)
      AND q.queue IS NOT NULL AND q.queue IN (0, 1) AND q.state = ANY ($11::text[])
      AND (q.message_id, q.endpoint_id) > ($1, $2) AND (q.message_id, q.endpoint_id) < ($3, $4)
      AND ($8::text[] IS NULL OR EXISTS (
        SELECT 1 FROM hookfuse.messages AS m WHERE m.id = q.message_id AND m.event_type = ANY ($8)
      ))
      AND ($9::bigint IS NULL OR q.created_ms >= $9) AND ($10::bigint IS NULL OR q.created_ms < $10)
    ORDER BY q.message_id ASC, q.endpoint_id ASC LIMIT $5
) AS p JOIN hookfuse.deliveries AS d ON d.message_id = p.message_id AND d.endpoint_id = p.endpoint_id
ORDER BY d.message_id ASC, d.endpoint_id ASC;

-- name: lost_deliveries_page, both ways
-- Failed and cancelled, which have an index of their own.
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM hookfuse.deliveries AS d
WHERE d.app_id = $6 AND d.lost AND d.state = ANY ($11::text[])
  AND ($7::text IS NULL OR d.endpoint_id = $7)
  AND (d.message_id, d.endpoint_id) > ($1, $2) AND (d.message_id, d.endpoint_id) < ($3, $4)
  AND ($8::text[] IS NULL OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m WHERE m.id = d.message_id AND m.event_type = ANY ($8)
  ))
  AND ($9::bigint IS NULL OR d.created_ms >= $9) AND ($10::bigint IS NULL OR d.created_ms < $10)
ORDER BY d.message_id ASC, d.endpoint_id ASC LIMIT $5;

-- name: all_deliveries_page, both ways
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM hookfuse.messages AS m JOIN hookfuse.deliveries AS d ON d.message_id = m.id
WHERE m.app_id = $6
  AND m.created_ms >= coalesce((SELECT x.created_ms FROM hookfuse.messages AS x WHERE x.id = $1), -1)
  AND m.created_ms <= coalesce((SELECT x.created_ms FROM hookfuse.messages AS x WHERE x.id = $3), 1::bigint << 62)
  AND (m.created_ms, d.message_id, d.endpoint_id)
    > (coalesce((SELECT x.created_ms FROM hookfuse.messages AS x WHERE x.id = $1), -1), $1, $2)
  AND (m.created_ms, d.message_id, d.endpoint_id)
    < (coalesce((SELECT x.created_ms FROM hookfuse.messages AS x WHERE x.id = $3), 1::bigint << 62), $3, $4)
  AND ($7::text IS NULL OR d.endpoint_id = $7)
  AND ($8::text[] IS NULL OR m.event_type = ANY ($8))
  AND ($9::bigint IS NULL OR m.created_ms >= $9) AND ($10::bigint IS NULL OR m.created_ms < $10)
  AND ($11::text[] IS NULL OR d.state = ANY ($11))
ORDER BY m.created_ms ASC, m.id ASC, d.endpoint_id ASC LIMIT $5;

-- name: event_types_page, both ways
SELECT name, description, archived, deprecated, schemas, group_name, feature_flags, created_ms, updated_ms
FROM hookfuse.event_types
WHERE name > $1 AND name < $2 AND ($4::boolean OR NOT archived)
ORDER BY name ASC LIMIT $3;

-- name: keys_page, both ways
SELECT id, role, name, hash, app_id, created_ms, revoked_ms, used_ms
FROM hookfuse.api_keys
WHERE id > $1 AND id < $2 AND ($4::text IS NULL OR app_id = $4)
ORDER BY id ASC LIMIT $3;

-- name: audit_page, both ways
SELECT id, actor, action, subject, app_id, detail, at_ms
FROM hookfuse.audit_log
WHERE id > $1 AND id < $2 AND ($4::text IS NULL OR app_id = $4)
ORDER BY id ASC LIMIT $3;

-- name: tasks_page, both ways
SELECT id, kind, app_id, subject, status, total, seen, changed, created_ms, updated_ms
FROM hookfuse.tasks
WHERE id > $1 AND id < $2 AND ($4::text IS NULL OR app_id = $4)
ORDER BY id ASC LIMIT $3;

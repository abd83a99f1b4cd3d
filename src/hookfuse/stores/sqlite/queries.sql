-- name: accept_application
SELECT 1 FROM applications WHERE id = ? AND deleted_ms IS NULL;

-- name: accept_known_keys
SELECT json_group_array(
    json_array(k.app_id, k.key, hex(k.fingerprint), k.message_id, k.deliveries, k.created_ms)
) FILTER (WHERE k.created_ms > ?1)
FROM (VALUES (?, ?)) AS v CROSS JOIN idempotency_keys AS k ON k.app_id = v.column1 AND k.key = v.column2;

-- name: accept_keys
INSERT OR REPLACE INTO idempotency_keys (app_id, key, fingerprint, message_id, deliveries, created_ms)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: accept_known_uids
SELECT json_group_array(json_array(m.app_id, m.uid))
FROM (VALUES (?, ?)) AS v CROSS JOIN messages AS m ON m.app_id = v.column1 AND m.uid = v.column2;

-- name: accept_messages
INSERT OR FAIL INTO messages (id, app_id, uid, event_type, channels, deliver_ms, created_ms, payload)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: accept_routes
SELECT id, event_types, channels FROM endpoints WHERE app_id = ? AND stop & 8 = 0;

-- name: accept_deliveries
INSERT OR FAIL INTO deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
SELECT column1, column2, column3, 0, column4, column4, column4, column5
FROM (VALUES (?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: ring_fresh, late too
UPDATE OR FAIL lanes SET fresh_ms = v.column2
FROM (VALUES (?, ?)) AS v
WHERE endpoint_id = v.column1 AND (fresh_ms IS NULL OR fresh_ms > v.column2);

-- name: claim_fresh_lanes, late too
SELECT json_group_array(
    json_array(endpoint_id, app_id, width, in_flight, rate_limit, rate_us, version) ORDER BY fresh_at
)
FROM (
    SELECT l.endpoint_id, l.app_id, l.width, l.in_flight, l.rate_limit, l.rate_us, e.version, l.fresh_at
    FROM lanes AS l JOIN endpoints AS e ON e.id = l.endpoint_id
    WHERE l.stop = 0 AND l.in_flight < l.width AND l.fresh_ms IS NOT NULL AND l.failing = ? AND l.fresh_at <= ?
    ORDER BY l.fresh_at LIMIT ?
);

-- name: fresh_turns, late too
-- Whose turn it is after an application, and whether anything of theirs is due.
-- ?1 whether failing, ?2 now, ?3 after whom, ?4 how many
WITH RECURSIVE walk (app_id, step) AS (
    SELECT ?3, 0
    UNION ALL
    SELECT (
        SELECT l.app_id FROM lanes AS l
        WHERE l.stop = 0 AND l.in_flight < l.width AND l.fresh_ms IS NOT NULL AND l.failing = ?1 AND l.app_id > walk.app_id
        ORDER BY l.app_id LIMIT 1
    ), step + 1
    FROM walk WHERE app_id IS NOT NULL AND step < ?4
)
SELECT json_group_array(json_array(walk.app_id, EXISTS (
    SELECT 1 FROM lanes AS l
    WHERE l.stop = 0 AND l.in_flight < l.width AND l.fresh_ms IS NOT NULL AND l.failing = ?1 AND l.app_id = walk.app_id
      AND l.fresh_at <= ?2
)) ORDER BY step)
FROM walk WHERE step > 0 AND app_id IS NOT NULL;

-- name: fresh_lanes_of, late too
-- ?1 whether failing, ?2 now, ?3 how many of each application
SELECT json_group_array(json((
    SELECT json_group_array(json_array(endpoint_id, app_id, width, in_flight, rate_limit, rate_us, version))
    FROM (
        SELECT l.endpoint_id, l.app_id, l.width, l.in_flight, l.rate_limit, l.rate_us, e.version
        FROM lanes AS l CROSS JOIN endpoints AS e ON e.id = l.endpoint_id
        WHERE l.stop = 0 AND l.in_flight < l.width AND l.fresh_ms IS NOT NULL AND l.failing = ?1
          AND l.app_id = v.column1 AND l.fresh_at <= ?2
        ORDER BY l.fresh_at LIMIT ?3
    )
)))
FROM (VALUES (?)) AS v
WHERE v.column1 IS NOT NULL;

-- name: claim_heads
-- ?1 queue, ?2 how many of each lane
SELECT json_group_array(json_array(v.column1, json((
    SELECT json_group_array(json_array(message_id, due_ms, attempts, spent, deaths, created_ms, asked))
    FROM (
        SELECT d.message_id, d.due_ms, d.attempts, d.spent, d.deaths, d.created_ms, d.asked
        FROM deliveries AS d
        WHERE d.endpoint_id = v.column1 AND d.queue = ?1
        ORDER BY d.place, d.message_id LIMIT ?2
    )
))))
FROM (VALUES (?)) AS v
WHERE v.column1 IS NOT NULL;

-- name: claim_messages
-- The payloads one after the other, and how long each is.
SELECT json_group_array(json_array(v.column1, m.event_type, ifnull(length(m.payload), 0))),
    ifnull(CAST(group_concat(m.payload, '') AS BLOB), x'')
FROM (VALUES (?, ?)) AS v CROSS JOIN messages AS m ON m.id = v.column2;

-- name: claim_deliveries
UPDATE OR FAIL deliveries SET state = 'sending', queue = 2, place = ?1, due_ms = NULL, token = ?2
FROM (VALUES (?, ?)) AS v
WHERE message_id = v.column1 AND endpoint_id = v.column2;

-- name: claimed_fresh, late too
UPDATE OR FAIL lanes SET in_flight = v.column2, rate_us = v.column3, fresh_ms = v.column4
FROM (VALUES (?, ?, ?, ?)) AS v
WHERE endpoint_id = v.column1;

-- name: next_wakes
SELECT
    (SELECT min(fresh_at) FROM lanes WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL AND failing = 0),
    (SELECT min(fresh_at) FROM lanes WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL AND failing = 1),
    (SELECT min(late_at) FROM lanes WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL AND failing = 0),
    (SELECT min(late_at) FROM lanes WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL AND failing = 1);

-- name: settle_held
-- Which of these claims are still held, by their numbers.
SELECT json_group_array(v.column1)
FROM (VALUES (?, ?, ?, ?)) AS v
CROSS JOIN deliveries AS d ON d.message_id = v.column2 AND d.endpoint_id = v.column3
WHERE d.token = v.column4 AND d.queue = 2;

-- name: settle_ended
UPDATE OR FAIL deliveries
SET state = v.column3, queue = NULL, place = NULL, due_ms = NULL, token = NULL, ended_ms = ?1, reason = v.column4,
    attempts = attempts + v.column5, spent = spent + v.column6
FROM (VALUES (?, ?, ?, ?, ?, ?)) AS v
WHERE message_id = v.column1 AND endpoint_id = v.column2;

-- name: settle_pending
-- What comes back untouched keeps its turn, and what has to wait goes to the retries, which have a share of their own:
-- behind all first tries that wait, it would be late twice.
WITH returned AS MATERIALIZED (
    SELECT v.column1 AS message_id, v.column2 AS endpoint_id, v.column3 AS due, v.column4 AS reason, v.column5 AS made,
        v.column6 AS spent, v.column7 AS now, l.fifo,
        -- Why it cannot wait again: nobody to send to, or nothing to send.
        CASE
            WHEN l.stop & 8 THEN 'endpoint_deleted'
            WHEN EXISTS (SELECT 1 FROM messages WHERE id = v.column1 AND payload IS NULL) THEN 'expunged'
        END AS ends
    FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) AS v CROSS JOIN lanes AS l ON l.endpoint_id = v.column2
)
UPDATE OR FAIL deliveries AS d
SET state = iif(r.ends IS NULL, 'pending', 'cancelled'), token = NULL, reason = coalesce(r.ends, r.reason),
    attempts = d.attempts + r.made, spent = d.spent + r.spent, asked = d.asked AND r.made = 0,
    queue = CASE
        WHEN r.ends IS NOT NULL THEN NULL WHEN r.fifo OR (d.attempts + r.made = 0 AND r.due <= r.now) THEN 0 ELSE 1
    END,
    place = CASE
        WHEN r.ends IS NOT NULL THEN NULL WHEN r.fifo OR (r.made = 0 AND r.due <= r.now) THEN d.first_ms ELSE r.due
    END,
    due_ms = iif(r.ends IS NULL, r.due, NULL),
    ended_ms = iif(r.ends IS NULL, NULL, r.now)
FROM returned AS r
WHERE d.message_id = r.message_id AND d.endpoint_id = r.endpoint_id;

-- name: ring_returned
UPDATE OR FAIL lanes
SET fresh_ms = coalesce(min(lanes.fresh_ms, r.fresh_ms), lanes.fresh_ms, r.fresh_ms),
    late_ms = coalesce(min(lanes.late_ms, r.late_ms), lanes.late_ms, r.late_ms)
FROM (
    SELECT d.endpoint_id, min(d.due_ms) FILTER (WHERE d.queue = 0) AS fresh_ms,
        min(d.due_ms) FILTER (WHERE d.queue = 1) AS late_ms
    FROM (VALUES (?, ?)) AS v CROSS JOIN deliveries AS d ON d.message_id = v.column1 AND d.endpoint_id = v.column2
    GROUP BY d.endpoint_id
) AS r
WHERE lanes.endpoint_id = r.endpoint_id;

-- name: settle_attempts
INSERT OR FAIL INTO attempts (
    message_id, id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, manual, detail, response
)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: settle_lanes
-- Of each endpoint: how many ended, of them well, badly
UPDATE OR FAIL lanes
SET in_flight = max(in_flight - v.column2, 0),
    failing = CASE WHEN v.column4 > 0 THEN 1 WHEN v.column3 > 0 THEN 0 ELSE failing END,
    width = CASE WHEN v.column4 > 0 THEN max(width / 2, 1) ELSE min(width + v.column3, cap) END
FROM (VALUES (?, ?, ?, ?)) AS v
WHERE endpoint_id = v.column1;

-- name: block_lanes
UPDATE OR FAIL lanes SET blocked_ms = v.column2 FROM (VALUES (?, ?)) AS v WHERE endpoint_id = v.column1;

-- name: unblock_lanes
UPDATE OR FAIL lanes SET blocked_ms = 0 FROM (VALUES (?)) AS v WHERE endpoint_id = v.column1 AND blocked_ms > 0;

-- name: lost_leases
SELECT json_group_array(json_array(message_id, endpoint_id, token, deaths))
FROM (
    SELECT d.message_id, d.endpoint_id, d.token, d.deaths
    -- CROSS JOIN keeps the order: from busy lanes to their leases, and not through everything that waits.
    FROM lanes AS l CROSS JOIN deliveries AS d ON d.endpoint_id = l.endpoint_id AND d.queue = 2 AND d.place <= ?
    WHERE l.in_flight > 0
    LIMIT ?
);

-- name: leases_of_tokens
SELECT json_group_array(json_array(d.message_id, d.endpoint_id, d.token))
FROM lanes AS l CROSS JOIN deliveries AS d ON d.endpoint_id = l.endpoint_id AND d.queue = 2
WHERE l.in_flight > 0 AND d.token IN (VALUES (?));

-- name: end_leases
UPDATE deliveries SET place = 0
WHERE queue = 2 AND endpoint_id IN (SELECT endpoint_id FROM lanes WHERE in_flight > 0);

-- name: count_deaths
UPDATE OR FAIL deliveries SET deaths = deaths + 1
FROM (VALUES (?, ?)) AS v
WHERE message_id = v.column1 AND endpoint_id = v.column2;

-- name: older_messages
SELECT count(*) FROM messages WHERE created_ms < ?;

-- name: prune_messages
SELECT m.id FROM messages AS m
WHERE m.created_ms < ?
  AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.id AND d.queue IS NOT NULL)
ORDER BY m.id LIMIT ?;

-- name: prune_attempts
DELETE FROM attempts WHERE message_id = ?;

-- name: prune_deliveries
DELETE FROM deliveries WHERE message_id = ?;

-- name: prune_message
DELETE FROM messages WHERE id = ?;

-- name: prune_keys
DELETE FROM idempotency_keys WHERE created_ms < ?;

-- name: endpoint_version
SELECT version FROM endpoints WHERE id = ?;

-- name: stop_endpoints
UPDATE endpoints
SET stop = stop | :stop, version = version + 1, updated_ms = :now,
    disabled_ms = CASE WHEN :stop & 1 AND NOT stop & 1 THEN :now ELSE disabled_ms END,
    disabled_reason = CASE WHEN :stop & 1 AND NOT stop & 1 THEN :reason ELSE disabled_reason END
WHERE (id = :id OR app_id = :app) AND stop & :stop = 0;

-- name: start_endpoints
UPDATE endpoints
SET stop = stop & ~:stop, version = version + 1, updated_ms = :now,
    disabled_ms = CASE WHEN :stop & 1 THEN NULL ELSE disabled_ms END,
    disabled_reason = CASE WHEN :stop & 1 THEN '' ELSE disabled_reason END,
    offer = CASE WHEN :stop & 1 THEN '' ELSE offer END
WHERE (id = :id OR app_id = :app) AND stop & :stop <> 0;

-- name: lanes_follow
UPDATE lanes AS l
SET stop = e.stop, fifo = e.fifo, rate_limit = e.rate_limit, cap = CASE WHEN e.fifo THEN 1 ELSE e.cap END,
    width = min(l.width, CASE WHEN e.fifo THEN 1 ELSE e.cap END)
FROM endpoints AS e
WHERE e.id = l.endpoint_id AND (e.id = :id OR e.app_id = :app);

-- name: add_lane
INSERT INTO lanes (endpoint_id, app_id, stop, fifo, cap, rate_limit)
SELECT id, app_id, stop, fifo, CASE WHEN fifo THEN 1 ELSE cap END, rate_limit FROM endpoints WHERE id = ?;

-- name: reorder_lane
UPDATE deliveries AS d
SET queue = CASE WHEN l.fifo OR d.attempts = 0 THEN 0 ELSE 1 END,
    place = CASE WHEN l.fifo THEN d.first_ms ELSE d.due_ms END
FROM lanes AS l
WHERE l.endpoint_id = d.endpoint_id AND d.endpoint_id = ? AND d.queue IN (0, 1);

-- name: wake_lane
UPDATE lanes SET fresh_ms = ?2, late_ms = ?2, blocked_ms = 0 WHERE endpoint_id = ?1;

-- name: cancel_waiting
UPDATE deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = :now, reason = :reason
WHERE endpoint_id = :endpoint AND queue IN (0, 1);

-- name: cancel
UPDATE OR FAIL deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = ?1, reason = 'cancelled'
FROM (VALUES (?, ?)) AS v
WHERE message_id = v.column1 AND endpoint_id = v.column2 AND queue IN (0, 1);

-- name: retry
UPDATE OR FAIL deliveries AS d
SET state = 'pending', spent = 0, deaths = 0, asked = 1, ended_ms = NULL, reason = 'retry_asked', due_ms = ?1,
    queue = CASE WHEN l.fifo OR d.attempts = 0 THEN 0 ELSE 1 END,
    place = CASE WHEN l.fifo THEN d.first_ms ELSE ?1 END
FROM (VALUES (?, ?)) AS v CROSS JOIN lanes AS l ON l.endpoint_id = v.column2
WHERE d.message_id = v.column1 AND d.endpoint_id = v.column2 AND d.queue IS NOT 2 AND l.stop & 8 = 0
  AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id AND m.payload IS NOT NULL);

-- name: expunge
UPDATE messages SET payload = NULL WHERE id = ? AND app_id = ?;

-- name: cancel_message
UPDATE deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = ?, reason = 'expunged'
WHERE message_id = ? AND queue IN (0, 1);

-- name: breaker_sequence
SELECT last FROM breaker_sequence;

-- name: read_breakers
SELECT key, state, override, generation, until_ms, data FROM breakers;

-- name: keep_breakers
INSERT INTO breakers (key, state, override, generation, until_ms, data)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state, override = excluded.override, generation = excluded.generation,
    until_ms = excluded.until_ms, data = excluded.data;

-- name: keep_breaker_sequence
UPDATE breaker_sequence SET last = max(last, ?);

-- name: forget_breakers
DELETE FROM breakers WHERE until_ms <= ?;

-- name: accept_application
SELECT 1 FROM applications WHERE id = ? AND deleted_ms IS NULL;

-- name: accept_known_key
SELECT k.fingerprint, k.message_id, k.deliveries, k.created_ms
FROM idempotency_keys AS k
WHERE k.app_id = ? AND k.key = ? AND k.created_ms > ?;

-- name: accept_key
INSERT OR REPLACE INTO idempotency_keys (app_id, key, fingerprint, message_id, deliveries, created_ms)
VALUES (?, ?, ?, ?, ?, ?);

-- name: accept_known_uid
SELECT 1 FROM messages WHERE app_id = ? AND uid = ?;

-- name: accept_message
INSERT INTO messages (id, app_id, uid, event_type, channels, deliver_ms, created_ms, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: accept_routes
SELECT id, event_types, channels FROM endpoints WHERE app_id = ? AND stop & 8 = 0;

-- name: accept_delivery
INSERT INTO deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: ring_fresh
UPDATE lanes SET fresh_ms = ?2 WHERE endpoint_id = ?1 AND (fresh_ms IS NULL OR fresh_ms > ?2);

-- name: ring_late
UPDATE lanes SET late_ms = ?2 WHERE endpoint_id = ?1 AND (late_ms IS NULL OR late_ms > ?2);

-- name: claim_fresh_lanes
SELECT l.endpoint_id, l.app_id, l.width, l.in_flight, l.rate_limit, l.rate_us, e.version
FROM lanes AS l JOIN endpoints AS e ON e.id = l.endpoint_id
WHERE l.stop = 0 AND l.in_flight < l.width AND l.fresh_ms IS NOT NULL AND l.failing = ? AND l.fresh_at <= ?
ORDER BY l.fresh_at LIMIT ?;

-- name: claim_late_lanes
SELECT l.endpoint_id, l.app_id, l.width, l.in_flight, l.rate_limit, l.rate_us, e.version
FROM lanes AS l JOIN endpoints AS e ON e.id = l.endpoint_id
WHERE l.stop = 0 AND l.in_flight < l.width AND l.late_ms IS NOT NULL AND l.failing = ? AND l.late_at <= ?
ORDER BY l.late_at LIMIT ?;

-- name: claim_heads
SELECT d.message_id, d.due_ms, d.attempts, d.spent, d.deaths, d.created_ms, d.asked, m.event_type, m.payload
FROM deliveries AS d JOIN messages AS m ON m.id = d.message_id
WHERE d.endpoint_id = ? AND d.queue = ?
ORDER BY d.place, d.message_id LIMIT ?;

-- name: claim_delivery
UPDATE deliveries SET state = 'sending', queue = 2, place = ?, due_ms = NULL, token = ?
WHERE message_id = ? AND endpoint_id = ?;

-- name: claimed_fresh
UPDATE lanes SET in_flight = ?, rate_us = ?, fresh_ms = ? WHERE endpoint_id = ?;

-- name: claimed_late
UPDATE lanes SET in_flight = ?, rate_us = ?, late_ms = ? WHERE endpoint_id = ?;

-- name: next_fresh
SELECT min(fresh_at) FROM lanes WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL AND failing = ?;

-- name: next_late
SELECT min(late_at) FROM lanes WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL AND failing = ?;

-- name: settle_ended
UPDATE deliveries
SET state = ?, queue = NULL, place = NULL, due_ms = NULL, token = NULL, ended_ms = ?, reason = ?,
    attempts = attempts + ?, spent = spent + ?
WHERE message_id = ? AND endpoint_id = ? AND token = ? AND queue = 2;

-- name: settle_pending
-- ?1 reason, ?2 made, ?3 spent, ?4 due, ?5 now, ?6 message, ?7 endpoint, ?8 token
-- What comes back untouched keeps its turn, and what has to wait goes to the retries, which have a share of their own:
-- behind all first tries that wait, it would be late twice.
UPDATE deliveries AS d
SET state = iif(l.ends IS NULL, 'pending', 'cancelled'), token = NULL, reason = coalesce(l.ends, ?1),
    attempts = d.attempts + ?2, spent = d.spent + ?3, asked = d.asked AND ?2 = 0,
    queue = CASE
        WHEN l.ends IS NOT NULL THEN NULL WHEN l.fifo OR (d.attempts + ?2 = 0 AND ?4 <= ?5) THEN 0 ELSE 1
    END,
    place = CASE
        WHEN l.ends IS NOT NULL THEN NULL WHEN l.fifo OR (?2 = 0 AND ?4 <= ?5) THEN d.first_ms ELSE ?4
    END,
    due_ms = iif(l.ends IS NULL, ?4, NULL),
    ended_ms = iif(l.ends IS NULL, NULL, ?5)
FROM (
    -- Why it cannot wait again: nobody to send to, or nothing to send.
    SELECT fifo, CASE
        WHEN stop & 8 THEN 'endpoint_deleted'
        WHEN EXISTS (SELECT 1 FROM messages WHERE id = ?6 AND payload IS NULL) THEN 'expunged'
    END AS ends
    FROM lanes WHERE endpoint_id = ?7
) AS l
WHERE d.message_id = ?6 AND d.endpoint_id = ?7 AND d.token = ?8 AND d.queue = 2
RETURNING message_id, endpoint_id, queue, due_ms;

-- name: settle_attempt
INSERT INTO attempts (
    message_id, id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, manual, detail, response
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: settle_lane
-- ?1 how many ended, ?2 of them well, ?3 badly, ?4 endpoint
UPDATE lanes
SET in_flight = max(in_flight - ?1, 0),
    failing = CASE WHEN ?3 > 0 THEN 1 WHEN ?2 > 0 THEN 0 ELSE failing END,
    width = CASE WHEN ?3 > 0 THEN max(width / 2, 1) ELSE min(width + ?2, cap) END
WHERE endpoint_id = ?4;

-- name: block_lane
UPDATE lanes SET blocked_ms = ? WHERE endpoint_id = ?;

-- name: unblock_lane
UPDATE lanes SET blocked_ms = 0 WHERE endpoint_id = ? AND blocked_ms > 0;

-- name: lost_leases
SELECT d.message_id, d.endpoint_id, d.token, d.deaths
-- CROSS JOIN keeps the order: from busy lanes to their leases, and not through everything that waits.
FROM lanes AS l CROSS JOIN deliveries AS d ON d.endpoint_id = l.endpoint_id AND d.queue = 2 AND d.place <= ?
WHERE l.in_flight > 0
LIMIT ?;

-- name: end_leases
UPDATE deliveries SET place = 0
WHERE queue = 2 AND endpoint_id IN (SELECT endpoint_id FROM lanes WHERE in_flight > 0);

-- name: count_death
UPDATE deliveries SET deaths = deaths + 1 WHERE message_id = ? AND endpoint_id = ?;

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
UPDATE deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = ?, reason = 'cancelled'
WHERE message_id = ? AND endpoint_id = ? AND queue IN (0, 1);

-- name: retry
UPDATE deliveries AS d
SET state = 'pending', spent = 0, deaths = 0, asked = 1, ended_ms = NULL, reason = 'retry_asked', due_ms = :now,
    queue = CASE WHEN l.fifo OR d.attempts = 0 THEN 0 ELSE 1 END,
    place = CASE WHEN l.fifo THEN d.first_ms ELSE :now END
FROM lanes AS l
WHERE l.endpoint_id = d.endpoint_id AND l.stop & 8 = 0
  AND d.message_id = :message AND d.endpoint_id = :endpoint AND d.queue IS NOT 2
  AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id AND m.payload IS NOT NULL)
RETURNING queue;

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

-- name: keep_breaker
INSERT INTO breakers (key, state, override, generation, until_ms, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state, override = excluded.override, generation = excluded.generation,
    until_ms = excluded.until_ms, data = excluded.data;

-- name: keep_breaker_sequence
UPDATE breaker_sequence SET last = max(last, ?);

-- name: forget_breakers
DELETE FROM breakers WHERE until_ms <= ?;

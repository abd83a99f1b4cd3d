-- name: keep_transition
INSERT INTO transitions (
    key, generation, app_id, endpoint_id, before, after, override, reason, numbers, actor, at_ms
) VALUES (
    :key, :generation, :app,
    (SELECT id FROM endpoints WHERE id = :named AND app_id = :app AND breaker_key IS NULL),
    :before, :after, :override, :reason, :numbers, :actor, :at_ms
)
ON CONFLICT (key, generation) DO NOTHING
RETURNING endpoint_id;

-- name: keep_head
INSERT INTO breaker_heads (key, generation, state) VALUES (:key, :generation, :state)
ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, state = excluded.state
WHERE excluded.generation > breaker_heads.generation;

-- name: head
SELECT key, generation, state FROM breaker_heads WHERE key = :key;

-- name: heads
SELECT key, generation, state FROM breaker_heads WHERE key IN (SELECT value FROM json_each(:keys));

-- name: unhealthy_heads
SELECT key, generation, state FROM breaker_heads WHERE state <> 'closed' AND key > :after ORDER BY key LIMIT :limit;

-- name: unstopped
-- A key is the application's id and the endpoint's own, or the key that endpoints share.
WITH off AS MATERIALIZED (
    SELECT key, substr(key, 1, instr(key, '/') - 1) AS app, substr(key, instr(key, '/') + 1) AS name
    FROM breaker_heads WHERE state <> 'closed' AND state = 'disabled'
)
SELECT e.id, off.key FROM off JOIN endpoints AS e ON e.id = off.name AND e.app_id = off.app
WHERE e.breaker_key IS NULL AND e.stop & 9 = 0 AND e.id > :after
UNION ALL
SELECT e.id, off.key FROM off JOIN endpoints AS e ON e.breaker_key = off.name AND e.app_id = off.app
WHERE e.stop & 9 = 0 AND e.id > :after
ORDER BY 1 LIMIT :limit;

-- name: transitions_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM transitions
WHERE (generation, key) > (:after_ms, :after_id) AND (generation, key) < (:before_ms, :before_id)
ORDER BY generation ASC, key ASC LIMIT :limit;

-- name: transitions_of_application_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM transitions
WHERE app_id = :app AND (generation, key) > (:after_ms, :after_id) AND (generation, key) < (:before_ms, :before_id)
ORDER BY generation ASC, key ASC LIMIT :limit;

-- name: transitions_of_breaker_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM transitions
WHERE key = :key AND generation > :after_ms AND generation < :before_ms
ORDER BY generation ASC LIMIT :limit;

-- name: notice_settings
SELECT app_id, channels, sealed, events, quiet_ms, updated_ms FROM notice_settings WHERE app_id = :app;

-- name: notice_settings_from
SELECT app_id, channels, sealed, events, quiet_ms, updated_ms FROM notice_settings
WHERE app_id > :after ORDER BY app_id LIMIT :limit;

-- name: change_notice_settings
INSERT INTO notice_settings (app_id, channels, sealed, events, quiet_ms, updated_ms)
VALUES (:app, :channels, :sealed, :events, :quiet_ms, :now)
ON CONFLICT (app_id) DO UPDATE
SET channels = excluded.channels, sealed = excluded.sealed, events = excluded.events, quiet_ms = excluded.quiet_ms,
    updated_ms = excluded.updated_ms;

-- name: delete_notice_settings
DELETE FROM notice_settings WHERE app_id = :app;

-- name: reseal_notices
UPDATE notice_settings SET sealed = :after WHERE app_id = :app AND sealed = :before;

-- name: earlier_notices
SELECT id, event, from_ms, folded FROM notices
WHERE thread = :thread AND channel = :channel AND state <> 'folded'
ORDER BY from_ms DESC LIMIT 2;

-- name: add_notice
INSERT INTO notices (
    id, event, channel, app_id, endpoint_id, key, generation, thread, facts, folded, from_ms, due_ms, at_ms, created_ms
) VALUES (
    :id, :event, :channel, :app, :endpoint, :key, :generation, :thread, :facts, :folded, :from_ms, :from_ms, :at_ms, :now
)
ON CONFLICT DO NOTHING;

-- name: fold_notice
UPDATE notices SET state = 'folded', due_ms = NULL, ended_ms = :now WHERE id = :id AND state = 'pending';

-- name: count_folded
UPDATE notices SET folded = folded + :count WHERE id = :id AND state = 'pending';

-- name: due_notices
SELECT id FROM notices WHERE channel = :channel AND due_ms <= :now ORDER BY due_ms LIMIT :limit;

-- name: claim_notice
UPDATE notices SET state = 'sending', due_ms = :until, token = token + 1, attempts = attempts + 1 WHERE id = :id
RETURNING id, event, channel, app_id, endpoint_id, key, generation, facts, state, folded, attempts, due_ms, reason, at_ms,
          created_ms, ended_ms, token;

-- name: settle_notice
UPDATE notices SET state = :state, due_ms = :due_ms, ended_ms = iif(:due_ms IS NULL, :now, NULL), reason = :reason
WHERE id = :id AND token = :token AND state = 'sending';

-- name: notices_waiting
SELECT channel, count(*), max(max(:now - from_ms, 0)) FROM notices WHERE due_ms IS NOT NULL GROUP BY channel;

-- name: end_notice_leases
UPDATE notices SET due_ms = 0 WHERE due_ms IS NOT NULL AND state = 'sending';

-- name: notices_page, both ways
SELECT id, event, channel, app_id, endpoint_id, key, generation, facts, state, folded, attempts, due_ms, reason, at_ms,
       created_ms, ended_ms, token
FROM notices
WHERE id > :after_id AND id < :before_id AND (:state IS NULL OR state = :state)
ORDER BY id ASC LIMIT :limit;

-- name: notices_of_application_page, both ways
SELECT id, event, channel, app_id, endpoint_id, key, generation, facts, state, folded, attempts, due_ms, reason, at_ms,
       created_ms, ended_ms, token
FROM notices
WHERE app_id = :app AND id > :after_id AND id < :before_id AND (:state IS NULL OR state = :state)
ORDER BY id ASC LIMIT :limit;

-- name: begin_failing
INSERT INTO failing (endpoint_id, since_ms)
SELECT endpoint_id, :now FROM lanes WHERE failing AND stop & 8 = 0
ON CONFLICT (endpoint_id) DO NOTHING;

-- name: end_failing
DELETE FROM failing WHERE endpoint_id NOT IN (SELECT endpoint_id FROM lanes WHERE failing AND stop & 8 = 0);

-- name: failing_longer
-- Of an endpoint that is disabled its owner has heard already.
SELECT f.endpoint_id, l.app_id, f.since_ms, max(s.value)
FROM failing AS f JOIN lanes AS l ON l.endpoint_id = f.endpoint_id, json_each(:stages) AS s
WHERE l.stop & 1 = 0 AND s.value > f.stage_ms AND f.since_ms + s.value <= :now
GROUP BY f.endpoint_id;

-- name: told_failing
UPDATE failing SET stage_ms = :stage WHERE endpoint_id = :endpoint;

-- name: last_attempt
SELECT id, message_id, at_ms, status, trouble FROM attempts WHERE endpoint_id = :endpoint
ORDER BY at_ms DESC, id DESC LIMIT 1;

-- name: lane_application
SELECT app_id FROM lanes WHERE endpoint_id = :endpoint;

-- name: prune_transitions
DELETE FROM transitions WHERE (key, generation) IN (
    SELECT key, generation FROM transitions WHERE generation < :before ORDER BY generation LIMIT :limit
);

-- name: prune_heads
DELETE FROM breaker_heads WHERE state = 'closed' AND generation < :before;

-- name: prune_notices
DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE id < :before AND due_ms IS NULL ORDER BY id LIMIT :limit);

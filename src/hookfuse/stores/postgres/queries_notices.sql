-- name: notice_moment
SELECT hookfuse.now_ms();

-- name: lock_thread
-- Two processes that tell of the same thing at once would both find that nothing was said before.
SELECT pg_advisory_xact_lock(hashtextextended($1, 7));

-- name: keep_transition
INSERT INTO hookfuse.transitions (
    key, generation, app_id, endpoint_id, before, after, override, reason, numbers, actor, at_ms
) VALUES (
    $1, $2, $3, (SELECT id FROM hookfuse.endpoints WHERE id = $4 AND app_id = $3 AND breaker_key IS NULL),
    $5, $6, $7, $8, $9::jsonb, $10, $11
)
ON CONFLICT (key, generation) DO NOTHING
RETURNING endpoint_id;

-- name: keep_head
INSERT INTO hookfuse.breaker_heads AS h (key, generation, state) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, state = excluded.state
WHERE excluded.generation > h.generation;

-- name: heads
SELECT key, generation, state FROM hookfuse.breaker_heads WHERE key = ANY ($1::text[]);

-- name: unhealthy_heads
SELECT key, generation, state FROM hookfuse.breaker_heads WHERE state <> 'closed' AND key > $1 ORDER BY key LIMIT $2;

-- name: unstopped
-- A key is the application's id and the endpoint's own, or the key that endpoints share.
WITH off AS MATERIALIZED (
    SELECT key, split_part(key, '/', 1) AS app, substr(key, strpos(key, '/') + 1) AS name
    FROM hookfuse.breaker_heads WHERE state <> 'closed' AND state = 'disabled'
)
SELECT e.id, off.key FROM off JOIN hookfuse.endpoints AS e ON e.id = off.name AND e.app_id = off.app
WHERE e.breaker_key IS NULL AND e.stop & 9 = 0 AND e.id > $1
UNION ALL
SELECT e.id, off.key FROM off JOIN hookfuse.endpoints AS e ON e.breaker_key = off.name AND e.app_id = off.app
WHERE e.stop & 9 = 0 AND e.id > $1
ORDER BY 1 LIMIT $2;

-- name: transitions_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM hookfuse.transitions
WHERE (generation, key) > ($1, $2) AND (generation, key) < ($3, $4)
ORDER BY generation ASC, key ASC LIMIT $5;

-- name: transitions_of_application_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM hookfuse.transitions
WHERE app_id = $6 AND (generation, key) > ($1, $2) AND (generation, key) < ($3, $4)
ORDER BY generation ASC, key ASC LIMIT $5;

-- name: transitions_of_breaker_page, both ways
SELECT key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id
FROM hookfuse.transitions
WHERE key = $6 AND (generation, key) > ($1, $2) AND (generation, key) < ($3, $4)
ORDER BY generation ASC, key ASC LIMIT $5;

-- name: notice_settings
SELECT app_id, channels, sealed, events, quiet_ms, updated_ms FROM hookfuse.notice_settings WHERE app_id = $1;

-- name: notice_settings_from
SELECT app_id, channels, sealed, events, quiet_ms, updated_ms FROM hookfuse.notice_settings
WHERE app_id > $1 ORDER BY app_id LIMIT $2;

-- name: change_notice_settings
INSERT INTO hookfuse.notice_settings (app_id, channels, sealed, events, quiet_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, hookfuse.now_ms())
ON CONFLICT (app_id) DO UPDATE
SET channels = excluded.channels, sealed = excluded.sealed, events = excluded.events, quiet_ms = excluded.quiet_ms,
    updated_ms = excluded.updated_ms
RETURNING app_id, channels, sealed, events, quiet_ms, updated_ms;

-- name: delete_notice_settings
DELETE FROM hookfuse.notice_settings WHERE app_id = $1 RETURNING true;

-- name: reseal_notices
UPDATE hookfuse.notice_settings SET sealed = $3 WHERE app_id = $1 AND sealed = $2 RETURNING true;

-- name: earlier_notices
SELECT id, event, from_ms, folded FROM hookfuse.notices
WHERE thread = $1 AND channel = $2 AND state <> 'folded'
ORDER BY from_ms DESC LIMIT 2;

-- name: add_notice
INSERT INTO hookfuse.notices (
    id, event, channel, app_id, endpoint_id, key, generation, thread, facts, folded, from_ms, due_ms, at_ms, created_ms
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, $11, $11, $12, $13
)
ON CONFLICT DO NOTHING
RETURNING true;

-- name: fold_notice
UPDATE hookfuse.notices SET state = 'folded', due_ms = NULL, ended_ms = $2 WHERE id = $1 AND state = 'pending';

-- name: count_folded
UPDATE hookfuse.notices SET folded = folded + $2 WHERE id = $1 AND state = 'pending';

-- name: claim_notices
WITH due AS (
    SELECT id FROM hookfuse.notices
    WHERE channel = $1 AND due_ms <= (SELECT hookfuse.now_ms())
      AND ($4::text IS NULL OR EXISTS (SELECT 1 FROM hookfuse.duties WHERE duty = $4 AND fence = $5::bigint))
    ORDER BY due_ms LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE hookfuse.notices AS n
SET state = 'sending', due_ms = (SELECT hookfuse.now_ms()) + $3, token = n.token + 1, attempts = n.attempts + 1
FROM due WHERE n.id = due.id
RETURNING n.id, n.event, n.channel, n.app_id, n.endpoint_id, n.key, n.generation, n.facts, n.state, n.folded, n.attempts,
          n.due_ms, n.reason, n.at_ms, n.created_ms, n.ended_ms, n.token;

-- name: settle_notice
UPDATE hookfuse.notices
SET state = $3, reason = $4, due_ms = (SELECT hookfuse.now_ms()) + $5::bigint,
    ended_ms = CASE WHEN $5::bigint IS NULL THEN (SELECT hookfuse.now_ms()) END
WHERE id = $1 AND token = $2 AND state = 'sending'
RETURNING true;

-- name: notices_page, both ways
SELECT id, event, channel, app_id, endpoint_id, key, generation, facts, state, folded, attempts, due_ms, reason, at_ms,
       created_ms, ended_ms, token
FROM hookfuse.notices
WHERE id > $1 AND id < $2 AND ($4::text IS NULL OR state = $4)
ORDER BY id ASC LIMIT $3;

-- name: notices_of_application_page, both ways
SELECT id, event, channel, app_id, endpoint_id, key, generation, facts, state, folded, attempts, due_ms, reason, at_ms,
       created_ms, ended_ms, token
FROM hookfuse.notices
WHERE app_id = $5 AND id > $1 AND id < $2 AND ($4::text IS NULL OR state = $4)
ORDER BY id ASC LIMIT $3;

-- name: begin_failing
INSERT INTO hookfuse.failing (endpoint_id, since_ms)
SELECT endpoint_id, $1 FROM hookfuse.lanes WHERE failing AND stop & 8 = 0
ON CONFLICT (endpoint_id) DO NOTHING;

-- name: end_failing
DELETE FROM hookfuse.failing AS f
WHERE NOT EXISTS (SELECT 1 FROM hookfuse.lanes AS l WHERE l.endpoint_id = f.endpoint_id AND l.failing AND l.stop & 8 = 0);

-- name: failing_longer
-- Of an endpoint that is disabled its owner has heard already. Whoever looks at the same time waits, and finds it told.
SELECT f.endpoint_id, l.app_id, f.since_ms, (
    SELECT max(s) FROM unnest($1::bigint[]) AS s WHERE s > f.stage_ms AND f.since_ms + s <= $2
) AS stage_ms
FROM hookfuse.failing AS f JOIN hookfuse.lanes AS l ON l.endpoint_id = f.endpoint_id
WHERE l.stop & 1 = 0 AND EXISTS (
    SELECT 1 FROM unnest($1::bigint[]) AS s WHERE s > f.stage_ms AND f.since_ms + s <= $2
)
ORDER BY f.endpoint_id FOR UPDATE OF f;

-- name: told_failing
UPDATE hookfuse.failing SET stage_ms = $2 WHERE endpoint_id = $1;

-- name: last_attempt
SELECT id, message_id, at_ms, status, trouble FROM hookfuse.attempts WHERE endpoint_id = $1
ORDER BY at_ms DESC, id DESC LIMIT 1;

-- name: lane_application
SELECT app_id FROM hookfuse.lanes WHERE endpoint_id = $1;

-- name: endpoint_to_change
SELECT stop & 1 = 0 FROM hookfuse.endpoints WHERE id = $1 FOR UPDATE;

-- name: prune_transitions
WITH gone AS (
    DELETE FROM hookfuse.transitions WHERE (key, generation) IN (
        SELECT key, generation FROM hookfuse.transitions WHERE generation < $1 ORDER BY generation LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM gone;

-- name: prune_heads
DELETE FROM hookfuse.breaker_heads WHERE state = 'closed' AND generation < $1;

-- name: prune_notices
WITH gone AS (
    DELETE FROM hookfuse.notices WHERE id IN (
        SELECT id FROM hookfuse.notices WHERE id < $1 AND due_ms IS NULL ORDER BY id LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM gone;

-- name: notices_waiting
SELECT channel, count(*), max(greatest((SELECT hookfuse.now_ms()) - from_ms, 0)) FROM hookfuse.notices
WHERE due_ms IS NOT NULL GROUP BY channel;

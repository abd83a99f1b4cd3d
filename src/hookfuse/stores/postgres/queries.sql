-- All run in READ COMMITTED: a statement sees what was committed before it began, and a row that someone else changed
-- meanwhile is locked and asked again in its newest version. Where it matters which snapshot is used, it is said.
-- `(SELECT hookfuse.now_ms())` is read once for a statement, without the brackets once for each of its rows.

-- name: lock_schema
-- Held by the transaction and not by the session, so that it works behind a pooler. A migration may take its time.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SELECT pg_advisory_xact_lock(hashtextextended('hookfuse.migrations', 0));

-- name: schema_exists
-- Asked of the table of tables: to_regclass would answer from a cache that is older than the lock.
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'hookfuse' AND tablename = 'migrations'
);

-- name: schema_number
SELECT coalesce(max(number), 0) FROM hookfuse.migrations;

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS hookfuse;
CREATE TABLE IF NOT EXISTS hookfuse.migrations (
    number      integer PRIMARY KEY,
    name        text NOT NULL,
    applied_ms  bigint NOT NULL
);

-- name: record_migration
INSERT INTO hookfuse.migrations VALUES ($1, $2, hookfuse.now_ms());

-- name: accept_routes
-- The endpoints of applications that want one of these types. OFFSET keeps the planner from making a join of it, which
-- it would do pair by pair: it is one walk along an index for each application.
WITH asked AS MATERIALIZED (
    SELECT a.app_id, a.types::text[] AS types FROM unnest($1::text[], $2::text[]) AS a (app_id, types)
)
SELECT a.app_id, p.routes, e.id AS endpoint_id, e.event_types, e.channels
FROM asked AS a
JOIN hookfuse.applications AS p ON p.id = a.app_id AND p.deleted_ms IS NULL
LEFT JOIN LATERAL (
    SELECT e.id, e.event_types, e.channels FROM hookfuse.endpoints AS e
    WHERE e.app_id = a.app_id AND e.stop & 8 = 0 AND (e.event_types IS NULL OR e.event_types && a.types)
    OFFSET 0
) AS e ON true;

-- name: accept_messages
-- $1 to $7 messages, $8 to $10 their idempotency keys, $11 how long a key is kept, $12 to $15 deliveries, $16 and $17
-- applications whose endpoints were known before, and the number of that knowledge: if one is no longer true, nothing
-- is done. The first row is now; without it, nothing was done.
-- Keys and uids in order, so that two batches cannot wait for one another. A key that is older than a day is anyone's
-- again. What can be stored has its deliveries, and their lanes a bell. IS TRUE makes a hash of what was stored, for
-- which the planner sees no reason: it does not know how long the lists are.
WITH moment AS MATERIALIZED (
    SELECT hookfuse.now_ms() AS now
    WHERE NOT EXISTS (
        SELECT 1 FROM unnest($16::text::text[], $17::text::bigint[]) AS a (app_id, routes)
        LEFT JOIN hookfuse.applications AS p ON p.id = a.app_id AND p.deleted_ms IS NULL
        WHERE p.routes IS DISTINCT FROM a.routes
    )
),
taken AS (
    INSERT INTO hookfuse.idempotency_keys AS k (app_id, key, fingerprint, message_id, deliveries, created_ms)
    SELECT a.app_id, a.key, a.fingerprint, a.id, a.deliveries, moment.now
    FROM moment CROSS JOIN unnest(
        $1::text::text[], $2::text::text[], $8::text::text[], $9::bytea[], $10::text::integer[]
    ) AS a (id, app_id, key, fingerprint, deliveries)
    WHERE a.key IS NOT NULL
    ORDER BY a.app_id, a.key
    ON CONFLICT (app_id, key) DO UPDATE
    SET fingerprint = excluded.fingerprint, message_id = excluded.message_id, deliveries = excluded.deliveries,
        created_ms = excluded.created_ms
    WHERE k.created_ms <= excluded.created_ms - $11
    RETURNING k.message_id
),
stored AS (
    INSERT INTO hookfuse.messages (id, app_id, uid, event_type, channels, deliver_ms, created_ms, payload)
    SELECT a.id, a.app_id, a.uid, a.event_type, a.channels::text[], a.deliver_ms, moment.now, a.payload
    FROM moment CROSS JOIN unnest(
        $1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::bigint[],
        $7::bytea[], $8::text::text[]
    ) WITH ORDINALITY AS a (id, app_id, uid, event_type, channels, deliver_ms, payload, key, n)
    WHERE a.key IS NULL OR a.id IN (SELECT message_id FROM taken)
    ORDER BY a.app_id, a.uid, a.n
    ON CONFLICT (app_id, uid) WHERE uid IS NOT NULL DO NOTHING
    RETURNING id
),
made AS (
    INSERT INTO hookfuse.deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
    SELECT a.message_id, a.endpoint_id, a.app_id, 0, due.ms, due.ms, due.ms, moment.now
    FROM moment CROSS JOIN unnest($12::text::text[], $13::text::text[], $14::text::text[], $15::text::bigint[])
         AS a (message_id, endpoint_id, app_id, deliver_ms)
    CROSS JOIN LATERAL (SELECT greatest(a.deliver_ms, moment.now) AS ms) AS due
    WHERE (a.message_id IN (SELECT id FROM stored)) IS TRUE
    RETURNING endpoint_id, due_ms
),
rung AS (
    INSERT INTO hookfuse.bells (due_ms, endpoint_ids)
    SELECT due_ms, array_agg(endpoint_id)
    FROM (
        SELECT due_ms, endpoint_id, row_number() OVER (PARTITION BY due_ms) / 50 AS piece
        FROM (SELECT DISTINCT due_ms, endpoint_id FROM made) AS each
    ) AS cut
    GROUP BY due_ms, piece
)
SELECT NULL AS id, NULL AS stored, now FROM moment
UNION ALL SELECT message_id, false, NULL FROM taken
UNION ALL SELECT id, true, NULL FROM stored;

-- name: accept_known_keys
SELECT k.app_id, k.key, k.fingerprint, k.message_id, k.deliveries, k.created_ms
FROM unnest($1::text[], $2::text[]) AS a (app_id, key)
JOIN hookfuse.idempotency_keys AS k ON k.app_id = a.app_id AND k.key = a.key;

-- name: accept_forget_keys
DELETE FROM hookfuse.idempotency_keys AS k
USING unnest($1::text[], $2::text[]) AS a (app_id, key)
WHERE k.app_id = a.app_id AND k.key = a.key;

-- name: claim
SELECT * FROM hookfuse.claim(13, $1, $2, $3, $4, $5, $6, $7);

-- name: settle
-- Arrays come as texts.
SELECT hookfuse.settle(
    $1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::bigint[], $6::text::integer[],
    $7::text::text[], $8::text::text[], $9::text::bigint[], $10::text::integer[], $11::text::bigint[],
    $12::text::text[], $13::text::bigint[], $14::text::integer[], $15::text::bigint[], $16::bytea[]
);

-- name: unblock_lanes
WITH locked AS MATERIALIZED (
    SELECT endpoint_id FROM hookfuse.lanes
    WHERE endpoint_id = ANY ($1::text[]) AND blocked_ms > 0 ORDER BY endpoint_id FOR UPDATE
)
UPDATE hookfuse.lanes AS l SET blocked_ms = 0 FROM locked AS k WHERE l.endpoint_id = k.endpoint_id;

-- name: lanes_to_rescue
-- Held until they were looked through: a claim that ends meanwhile would not be seen.
SELECT endpoint_id, in_flight, (SELECT hookfuse.now_ms()) AS now
FROM hookfuse.lanes
WHERE endpoint_id = ANY (ARRAY(
    SELECT endpoint_id FROM hookfuse.lanes
    WHERE in_flight > 0 AND lease_ms <= (SELECT hookfuse.now_ms()) ORDER BY lease_ms LIMIT $1
))
ORDER BY endpoint_id FOR UPDATE;

-- name: leases
-- What was taken was taken from the heads of the queues, and little has come before it since: so many more of each queue
-- are looked at.
SELECT d.message_id, d.endpoint_id, d.token, d.lease_ms, d.deaths
FROM unnest($1::text[], $2::integer[]) AS a (endpoint_id, in_flight)
CROSS JOIN unnest(ARRAY[0, 1]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT d.message_id, d.endpoint_id, d.token, d.lease_ms, d.deaths FROM hookfuse.deliveries AS d
    WHERE d.endpoint_id = a.endpoint_id AND d.queue = q.queue ORDER BY d.place, d.message_id LIMIT a.in_flight + 100
) AS d
WHERE d.token IS NOT NULL;

-- name: leases_of_tokens
-- Looked for in the same way, in every lane with something in flight. One in which fewer were found than it has in flight
-- is doubtful: it has to be looked through.
SELECT l.endpoint_id, d.message_id, d.token, coalesce(d.found, 0) < l.in_flight AS doubtful
FROM hookfuse.lanes AS l
LEFT JOIN LATERAL (
    SELECT d.message_id, d.token, count(*) OVER () AS found
    FROM unnest(ARRAY[0, 1]) AS q (queue)
    CROSS JOIN LATERAL (
        SELECT d.message_id, d.token FROM hookfuse.deliveries AS d
        WHERE d.endpoint_id = l.endpoint_id AND d.queue = q.queue
        ORDER BY d.place, d.message_id LIMIT l.in_flight + 100
    ) AS d
    WHERE d.token IS NOT NULL
) AS d ON true
WHERE l.in_flight > 0 AND (d.token = ANY ($1::bigint[]) OR coalesce(d.found, 0) < l.in_flight);

-- name: all_leases
SELECT message_id, endpoint_id, token, lease_ms, deaths FROM hookfuse.deliveries
WHERE endpoint_id = ANY ($1::text[]) AND queue IN (0, 1) AND token IS NOT NULL;

-- name: lanes_rescued
-- When they are to be looked at next (NULL: not before the next claim), and how many they only seemed to have in flight.
UPDATE hookfuse.lanes AS l SET lease_ms = a.lease_ms, in_flight = greatest(l.in_flight - a.missing, 0)
FROM unnest($1::text[], $2::bigint[], $3::integer[]) AS a (endpoint_id, lease_ms, missing)
WHERE l.endpoint_id = a.endpoint_id;

-- name: older_messages
-- One range of an index for each application, the deleted ones too.
SELECT coalesce(sum(old.number), 0)::bigint
FROM hookfuse.applications AS a CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM hookfuse.messages AS m WHERE m.app_id = a.id AND m.created_ms < $1
) AS old;

-- name: prune_candidates
-- Locked, so that nobody can bring one of their deliveries back; what is open is looked at by the next statement.
SELECT old.id
FROM hookfuse.applications AS a CROSS JOIN LATERAL (
    SELECT m.id FROM hookfuse.messages AS m
    WHERE m.app_id = a.id AND m.created_ms < $1
      AND NOT EXISTS (SELECT 1 FROM hookfuse.deliveries AS d WHERE d.message_id = m.id AND d.queue IS NOT NULL)
    ORDER BY m.created_ms LIMIT $2
    FOR UPDATE OF m SKIP LOCKED
) AS old
LIMIT $2;

-- name: prune
WITH ended AS MATERIALIZED (
    SELECT id FROM unnest($1::text[]) AS a (id)
    WHERE NOT EXISTS (SELECT 1 FROM hookfuse.deliveries AS d WHERE d.message_id = a.id AND d.queue IS NOT NULL)
),
attempts AS (DELETE FROM hookfuse.attempts WHERE message_id IN (SELECT id FROM ended)),
deliveries AS (DELETE FROM hookfuse.deliveries WHERE message_id IN (SELECT id FROM ended))
DELETE FROM hookfuse.messages WHERE id IN (SELECT id FROM ended) RETURNING id;

-- name: prune_keys
DELETE FROM hookfuse.idempotency_keys WHERE created_ms < (SELECT hookfuse.now_ms()) - $1;

-- name: notify
-- A lost notice is made good by polling, so it need not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('hookfuse', $1);

-- name: add_application
INSERT INTO hookfuse.applications (id, name, uid, metadata, policy, retry, paused_ms, created_ms, updated_ms)
SELECT a.id, a.name, a.uid, a.metadata, a.policy, a.retry, a.paused_ms, t.now, t.now
FROM jsonb_populate_record(NULL::hookfuse.applications, $1::jsonb) AS a, (SELECT hookfuse.now_ms() AS now) AS t;

-- name: application
SELECT id, name, uid, metadata, policy, retry, paused_ms, created_ms, updated_ms
FROM hookfuse.applications
WHERE (id = $1 OR uid = $1) AND deleted_ms IS NULL;

-- name: change_application
UPDATE hookfuse.applications AS a
SET (name, uid, metadata, policy, retry, paused_ms, updated_ms) = (
    SELECT c.name, c.uid, c.metadata, c.policy, c.retry, c.paused_ms, hookfuse.now_ms()
    FROM jsonb_populate_record(a, $2::jsonb) AS c
)
WHERE a.id = $1 AND a.deleted_ms IS NULL;

-- name: hold_application
-- Whoever adds or stops endpoints of an application holds it, so that no endpoint is missed.
SELECT paused_ms FROM hookfuse.applications WHERE id = $1 AND deleted_ms IS NULL FOR UPDATE;

-- name: pause_application
UPDATE hookfuse.applications SET paused_ms = CASE WHEN $2::boolean THEN hookfuse.now_ms() END
WHERE id = $1 AND deleted_ms IS NULL;

-- name: delete_application
UPDATE hookfuse.applications SET uid = NULL, deleted_ms = hookfuse.now_ms() WHERE id = $1 AND deleted_ms IS NULL;

-- name: add_endpoint
INSERT INTO hookfuse.endpoints (
    id, app_id, url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response,
    breaker_key, cap, rate_limit, timeout_ms, fifo, stop, disabled_ms, disabled_reason, flag, offer, version,
    created_ms, updated_ms
)
SELECT e.id, e.app_id, e.url, e.uid, e.description, e.metadata, e.event_types, e.channels, e.headers, e.secret,
       e.policy, e.retry, e.response, e.breaker_key, e.cap, e.rate_limit, e.timeout_ms, e.fifo, e.stop, e.disabled_ms,
       e.disabled_reason, e.flag, e.offer, e.version, t.now, t.now
FROM jsonb_populate_record(NULL::hookfuse.endpoints, $1::jsonb) AS e, (SELECT hookfuse.now_ms() AS now) AS t;

-- name: change_routes
-- Before anything else is locked: those who change applications hold them first, too.
UPDATE hookfuse.applications SET routes = (random() * 9e15)::bigint
WHERE id IN (SELECT app_id FROM hookfuse.endpoints WHERE id = ANY ($1::text[]));

-- name: add_lane
INSERT INTO hookfuse.lanes (endpoint_id, app_id, stop, fifo, cap, rate_limit)
SELECT id, app_id, stop, fifo, CASE WHEN fifo THEN 1 ELSE cap END, rate_limit FROM hookfuse.endpoints WHERE id = $1;

-- name: endpoint
SELECT id, app_id, url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response,
       breaker_key, cap, rate_limit, timeout_ms, fifo, stop, disabled_ms, disabled_reason, flag, offer, version,
       created_ms, updated_ms
FROM hookfuse.endpoints
WHERE app_id = $1 AND (id = $2 OR uid = $2) AND stop & 8 = 0;

-- name: endpoints
SELECT id, app_id, url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response,
       breaker_key, cap, rate_limit, timeout_ms, fifo, stop, disabled_ms, disabled_reason, flag, offer, version,
       created_ms, updated_ms
FROM hookfuse.endpoints
WHERE id = ANY ($1::text[]);

-- name: endpoints_of_application
SELECT id FROM hookfuse.endpoints WHERE app_id = $1 AND stop & 8 = 0 ORDER BY id;

-- name: hold_endpoint
SELECT version FROM hookfuse.endpoints WHERE id = $1 FOR UPDATE;

-- name: change_endpoint
UPDATE hookfuse.endpoints AS e
SET (url, uid, description, metadata, event_types, channels, headers, secret, policy, retry, response, breaker_key, cap,
     rate_limit, timeout_ms, fifo, flag, offer, version, updated_ms) = (
    SELECT c.url, c.uid, c.description, c.metadata, c.event_types, c.channels, c.headers, c.secret, c.policy, c.retry,
           c.response, c.breaker_key, c.cap, c.rate_limit, c.timeout_ms, c.fifo, c.flag, c.offer,
           e.version + 1, hookfuse.now_ms()
    FROM jsonb_populate_record(e, $2::jsonb) AS c
)
WHERE e.id = $1;

-- name: stop_endpoints
UPDATE hookfuse.endpoints
SET stop = stop | $2, version = version + 1, updated_ms = (SELECT hookfuse.now_ms()),
    disabled_ms = CASE WHEN $2 & 1 <> 0 THEN (SELECT hookfuse.now_ms()) ELSE disabled_ms END,
    disabled_reason = CASE WHEN $2 & 1 <> 0 THEN $3 ELSE disabled_reason END
WHERE id = ANY ($1::text[]) AND stop & $2::integer = 0;

-- name: start_endpoints
UPDATE hookfuse.endpoints
SET stop = stop & ~$2::integer, version = version + 1, updated_ms = (SELECT hookfuse.now_ms()),
    disabled_ms = CASE WHEN $2 & 1 <> 0 THEN NULL ELSE disabled_ms END,
    disabled_reason = CASE WHEN $2 & 1 <> 0 THEN '' ELSE disabled_reason END,
    offer = CASE WHEN $2 & 1 <> 0 THEN '' ELSE offer END
WHERE id = ANY ($1::text[]) AND stop & $2 <> 0;

-- name: lanes_follow
WITH locked AS MATERIALIZED (
    SELECT endpoint_id FROM hookfuse.lanes WHERE endpoint_id = ANY ($1::text[]) ORDER BY endpoint_id FOR UPDATE
)
UPDATE hookfuse.lanes AS l
SET stop = e.stop, fifo = e.fifo, rate_limit = e.rate_limit, cap = CASE WHEN e.fifo THEN 1 ELSE e.cap END,
    width = least(l.width, CASE WHEN e.fifo THEN 1 ELSE e.cap END)
FROM locked AS k JOIN hookfuse.endpoints AS e ON e.id = k.endpoint_id
WHERE l.endpoint_id = k.endpoint_id;

-- name: reorder_lane
UPDATE hookfuse.deliveries AS d
SET queue = CASE WHEN l.fifo OR d.attempts = 0 THEN 0 ELSE 1 END,
    place = CASE WHEN l.fifo THEN d.first_ms ELSE d.due_ms END
FROM hookfuse.lanes AS l
WHERE l.endpoint_id = d.endpoint_id AND d.endpoint_id = $1 AND d.queue IN (0, 1) AND d.token IS NULL;

-- name: wake_lane
UPDATE hookfuse.lanes SET fresh_ms = hookfuse.now_ms(), late_ms = hookfuse.now_ms(), blocked_ms = 0
WHERE endpoint_id = $1;

-- name: cancel_waiting
UPDATE hookfuse.deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = (SELECT hookfuse.now_ms()),
    reason = 'endpoint_deleted'
WHERE endpoint_id = ANY ($1::text[]) AND queue IN (0, 1) AND token IS NULL;

-- name: message
SELECT id, app_id, event_type, payload, uid, channels, deliver_ms, created_ms
FROM hookfuse.messages
WHERE app_id = $1 AND (id = $2 OR uid = $2);

-- name: delivery
SELECT message_id, endpoint_id, app_id, state, attempts, spent, deaths, due_ms, reason, created_ms, ended_ms
FROM hookfuse.deliveries
WHERE message_id = $1 AND endpoint_id = $2;

-- name: deliveries
-- Where only what was lost is wanted, the planner is told so: it has an index of its own.
SELECT d.message_id, d.endpoint_id, d.app_id, d.state, d.attempts, d.spent, d.deaths, d.due_ms, d.reason, d.created_ms,
       d.ended_ms
FROM hookfuse.deliveries AS d
WHERE d.app_id = $1
  AND ($2::text IS NULL OR d.endpoint_id = $2)
  AND ($3::text[] IS NULL OR d.state = ANY ($3))
  AND (d.lost OR $3 IS NULL OR NOT $3 <@ ARRAY['failed', 'cancelled'])
  AND ($4::text[] IS NULL OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m WHERE m.id = d.message_id AND m.event_type = ANY ($4)
  ))
  AND ($5::bigint IS NULL OR d.created_ms >= $5)
  AND ($6::bigint IS NULL OR d.created_ms < $6)
  AND ($7::text IS NULL OR (d.message_id, d.endpoint_id) > ($7, $8::text))
ORDER BY d.message_id, d.endpoint_id LIMIT $9;

-- name: count
SELECT count(*)
FROM hookfuse.deliveries AS d
WHERE d.app_id = $1
  AND ($2::text IS NULL OR d.endpoint_id = $2)
  AND ($3::text[] IS NULL OR d.state = ANY ($3))
  AND (d.lost OR $3 IS NULL OR NOT $3 <@ ARRAY['failed', 'cancelled'])
  AND ($4::text[] IS NULL OR EXISTS (
    SELECT 1 FROM hookfuse.messages AS m WHERE m.id = d.message_id AND m.event_type = ANY ($4)
  ))
  AND ($5::bigint IS NULL OR d.created_ms >= $5)
  AND ($6::bigint IS NULL OR d.created_ms < $6);

-- name: attempts
SELECT id, message_id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, response, detail, manual
FROM hookfuse.attempts
WHERE message_id = $1 AND ($2::text IS NULL OR endpoint_id = $2)
ORDER BY id;

-- name: retry
-- Messages are held as well: their content must not be expunged or pruned before the delivery waits again.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
locked AS MATERIALIZED (
    SELECT endpoint_id, fifo, stop FROM hookfuse.lanes
    WHERE endpoint_id = ANY ($2::text[]) ORDER BY endpoint_id FOR UPDATE
),
held AS MATERIALIZED (
    SELECT id FROM hookfuse.messages
    WHERE id = ANY ($1::text[]) AND payload IS NOT NULL AND EXISTS (SELECT 1 FROM locked)
    ORDER BY id FOR SHARE
),
returned AS (
    UPDATE hookfuse.deliveries AS d
    SET state = 'pending', spent = 0, deaths = 0, asked = true, ended_ms = NULL, reason = 'retry_asked',
        due_ms = moment.now,
        queue = CASE WHEN l.fifo OR d.attempts = 0 THEN 0 ELSE 1 END,
        place = CASE WHEN l.fifo THEN d.first_ms ELSE moment.now END
    FROM unnest($1::text[], $2::text[]) AS a (message_id, endpoint_id), locked AS l, held AS h, moment
    WHERE l.endpoint_id = a.endpoint_id AND l.stop & 8 = 0 AND h.id = a.message_id
      AND d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id AND d.token IS NULL
    RETURNING d.endpoint_id, d.queue, d.due_ms
),
rung AS (
    UPDATE hookfuse.lanes AS l
    SET fresh_ms = least(l.fresh_ms, t.fresh_ms), late_ms = least(l.late_ms, t.late_ms)
    FROM (
        SELECT endpoint_id, min(due_ms) FILTER (WHERE queue = 0) AS fresh_ms,
               min(due_ms) FILTER (WHERE queue = 1) AS late_ms
        FROM returned GROUP BY endpoint_id
    ) AS t
    WHERE l.endpoint_id = t.endpoint_id
)
SELECT count(*) FROM returned;

-- name: cancel
WITH locked AS MATERIALIZED (
    SELECT endpoint_id FROM hookfuse.lanes WHERE endpoint_id = ANY ($2::text[]) ORDER BY endpoint_id FOR UPDATE
),
cancelled AS (
    UPDATE hookfuse.deliveries AS d
    SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = (SELECT hookfuse.now_ms()),
        reason = 'cancelled'
    FROM unnest($1::text[], $2::text[]) AS a (message_id, endpoint_id) JOIN locked AS l ON l.endpoint_id = a.endpoint_id
    WHERE d.message_id = a.message_id AND d.endpoint_id = a.endpoint_id AND d.queue IN (0, 1) AND d.token IS NULL
    RETURNING 1
)
SELECT count(*) FROM cancelled;

-- name: lock_lanes_of_message
SELECT endpoint_id FROM hookfuse.lanes
WHERE endpoint_id IN (SELECT d.endpoint_id FROM hookfuse.deliveries AS d WHERE d.message_id = $1)
ORDER BY endpoint_id FOR UPDATE;

-- name: expunge
UPDATE hookfuse.messages SET payload = NULL WHERE id = $1 AND app_id = $2 RETURNING true;

-- name: cancel_message
UPDATE hookfuse.deliveries
SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = (SELECT hookfuse.now_ms()),
    reason = 'expunged'
WHERE message_id = $1 AND queue IN (0, 1) AND token IS NULL;

-- name: renew_endpoints
UPDATE hookfuse.endpoints SET version = version + 1 WHERE app_id = $1;

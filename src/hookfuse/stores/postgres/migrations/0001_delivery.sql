-- Applications, endpoints, messages, deliveries, attempts. Instants are Unix milliseconds.
-- Every name carries its schema: behind a pooler of transactions there is no search_path to rely on.

-- The one clock: workers' own never matter, and tests swap this function. It is declared stable so that a statement may
-- compare it with an index; each statement reads it once.
CREATE FUNCTION hookfuse.now_ms() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

CREATE TABLE hookfuse.applications (
    id          text COLLATE "C" PRIMARY KEY,
    uid         text COLLATE "C" UNIQUE,
    name        text NOT NULL,
    metadata    jsonb NOT NULL DEFAULT '{}',
    policy      jsonb,
    retry       jsonb,
    paused_ms   bigint,
    deleted_ms  bigint,
    created_ms  bigint NOT NULL,
    updated_ms  bigint NOT NULL
);

CREATE TABLE hookfuse.endpoints (
    id               text COLLATE "C" PRIMARY KEY,
    app_id           text COLLATE "C" NOT NULL REFERENCES hookfuse.applications (id),
    uid              text COLLATE "C",
    url              text NOT NULL,
    description      text NOT NULL DEFAULT '',
    metadata         jsonb NOT NULL DEFAULT '{}',
    event_types      text[] COLLATE "C",          -- NULL: all
    channels         text[] COLLATE "C",          -- NULL: all
    headers          bytea NOT NULL DEFAULT '',   -- sealed
    secret           bytea NOT NULL DEFAULT '',   -- sealed
    policy           jsonb,
    retry            jsonb,
    response         jsonb,
    breaker_key      text,
    cap              integer NOT NULL,
    rate_limit       integer,
    timeout_ms       integer NOT NULL,
    fifo             boolean NOT NULL DEFAULT false,
    stop             integer NOT NULL DEFAULT 0,  -- bits: 1 disabled, 2 paused, 4 application paused, 8 deleted
    disabled_ms      bigint,
    disabled_reason  text NOT NULL DEFAULT '',
    flag             text NOT NULL DEFAULT '',
    version          bigint NOT NULL DEFAULT 1,
    created_ms       bigint NOT NULL,
    updated_ms       bigint NOT NULL
);

CREATE UNIQUE INDEX endpoints_uid ON hookfuse.endpoints (app_id, uid) WHERE uid IS NOT NULL AND stop & 8 = 0;
CREATE INDEX endpoints_app ON hookfuse.endpoints (app_id, id) WHERE stop & 8 = 0;

-- The queue of one endpoint in one row: a claim looks at lanes first, so what waits behind a lane costs nothing.
-- Whoever writes a delivery holds its lane's row: lanes are locked in the order of their ids, then nothing else waits.
CREATE TABLE hookfuse.lanes (
    endpoint_id  text COLLATE "C" PRIMARY KEY REFERENCES hookfuse.endpoints (id),
    app_id       text COLLATE "C" NOT NULL,
    stop         integer NOT NULL DEFAULT 0,
    fifo         boolean NOT NULL DEFAULT false,
    cap          integer NOT NULL,
    rate_limit   integer,
    rate_us      bigint NOT NULL DEFAULT 0,       -- when the next request may go, by the rate limit, in microseconds
    width        integer NOT NULL DEFAULT 1,      -- how many may be in flight now: grows with successes up to cap
    in_flight    integer NOT NULL DEFAULT 0,
    failing      boolean NOT NULL DEFAULT false,  -- whether the last settled attempt failed
    fresh_ms     bigint,                          -- when the first of its first tries is due; NULL: there is none
    late_ms      bigint,                          -- when the first of its retries is due; NULL: there is none
    blocked_ms   bigint NOT NULL DEFAULT 0,       -- not before: a hint of the breaker
    fresh_at     bigint GENERATED ALWAYS AS (greatest(fresh_ms, blocked_ms)) STORED,
    late_at      bigint GENERATED ALWAYS AS (greatest(late_ms, blocked_ms)) STORED
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX lanes_fresh ON hookfuse.lanes (failing, fresh_at)
    WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL;
CREATE INDEX lanes_late ON hookfuse.lanes (failing, late_at)
    WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL;

-- What was accepted and is not yet known to its lane. Accepting only adds rows here: it neither waits for lanes nor
-- holds them. A claim takes bells away and rings their lanes in one transaction; whoever sees a bell sees the
-- deliveries that were committed with it, so no wake-up is lost. There is no index: the table is nearly empty.
CREATE TABLE hookfuse.bells (
    endpoint_id  text COLLATE "C" NOT NULL,
    due_ms       bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE hookfuse.messages (
    id          text COLLATE "C" PRIMARY KEY,
    app_id      text COLLATE "C" NOT NULL,
    uid         text COLLATE "C",
    event_type  text COLLATE "C" NOT NULL,
    channels    text[] COLLATE "C" NOT NULL DEFAULT '{}',
    deliver_ms  bigint,
    created_ms  bigint NOT NULL,
    payload     bytea                             -- exactly as received; NULL: expunged
);

CREATE UNIQUE INDEX messages_uid ON hookfuse.messages (app_id, uid) WHERE uid IS NOT NULL;
CREATE INDEX messages_app ON hookfuse.messages (app_id, created_ms, id);
CREATE INDEX messages_age ON hookfuse.messages USING brin (created_ms) WITH (pages_per_range = 32, autosummarize = on);

-- Every update moves a delivery in its queue, so it writes to every index: there are as few as can be.
CREATE TABLE hookfuse.deliveries (
    message_id   text COLLATE "C" NOT NULL,
    endpoint_id  text COLLATE "C" NOT NULL,
    app_id       text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL DEFAULT 'pending',
    queue        smallint,                        -- 0 first try, 1 retry, 2 with a worker; NULL: ended
    place        bigint,                          -- its order in the queue: when due; in a FIFO lane first_ms; with a
                                                  -- worker the end of the lease
    due_ms       bigint,
    token        bigint,                          -- of the lease
    attempts     integer NOT NULL DEFAULT 0,
    spent        integer NOT NULL DEFAULT 0,
    deaths       integer NOT NULL DEFAULT 0,
    reason       text NOT NULL DEFAULT '',
    first_ms     bigint NOT NULL,                 -- when its first try was due
    created_ms   bigint NOT NULL,
    ended_ms     bigint,
    PRIMARY KEY (message_id, endpoint_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

CREATE INDEX deliveries_queue ON hookfuse.deliveries (endpoint_id, queue, place, message_id) WHERE queue IS NOT NULL;
CREATE INDEX deliveries_failed ON hookfuse.deliveries (app_id, message_id, endpoint_id)
    WHERE state IN ('failed', 'cancelled');

CREATE TABLE hookfuse.attempts (
    message_id   text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    endpoint_id  text COLLATE "C" NOT NULL,
    app_id       text COLLATE "C" NOT NULL,
    number       integer NOT NULL,
    at_ms        bigint NOT NULL,
    status       integer,
    trouble      text NOT NULL DEFAULT '',
    latency_ms   bigint NOT NULL,
    manual       boolean NOT NULL DEFAULT false,
    detail       text NOT NULL DEFAULT '',
    response     bytea NOT NULL DEFAULT '',
    PRIMARY KEY (message_id, id)
);

CREATE INDEX attempts_endpoint ON hookfuse.attempts (endpoint_id, id);

CREATE TABLE hookfuse.idempotency_keys (
    app_id       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    fingerprint  bytea NOT NULL,
    message_id   text COLLATE "C" NOT NULL,
    deliveries   integer NOT NULL,
    created_ms   bigint NOT NULL,
    PRIMARY KEY (app_id, key)
);

CREATE INDEX idempotency_keys_age ON hookfuse.idempotency_keys USING brin (created_ms)
    WITH (pages_per_range = 32, autosummarize = on);

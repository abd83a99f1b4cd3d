-- Applications, endpoints, messages, deliveries, attempts. Instants are Unix milliseconds.

CREATE TABLE applications (
    id          TEXT PRIMARY KEY,
    uid         TEXT UNIQUE,
    name        TEXT NOT NULL,
    metadata    TEXT NOT NULL DEFAULT '{}',
    policy      TEXT,
    retry       TEXT,
    paused_ms   INTEGER,
    deleted_ms  INTEGER,
    created_ms  INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoints (
    id               TEXT PRIMARY KEY,
    app_id           TEXT NOT NULL REFERENCES applications (id),
    uid              TEXT,
    url              TEXT NOT NULL,
    description      TEXT NOT NULL DEFAULT '',
    metadata         TEXT NOT NULL DEFAULT '{}',
    event_types      TEXT,                        -- a JSON array; NULL: all
    channels         TEXT,                        -- a JSON array; NULL: all
    headers          BLOB NOT NULL DEFAULT x'',   -- sealed
    secret           BLOB NOT NULL DEFAULT x'',   -- sealed
    policy           TEXT,
    retry            TEXT,
    response         TEXT,
    breaker_key      TEXT,
    cap              INTEGER NOT NULL,
    rate_limit       INTEGER,
    timeout_ms       INTEGER NOT NULL,
    fifo             INTEGER NOT NULL DEFAULT 0,
    stop             INTEGER NOT NULL DEFAULT 0,  -- bits: 1 disabled, 2 paused, 4 application paused, 8 deleted
    disabled_ms      INTEGER,
    disabled_reason  TEXT NOT NULL DEFAULT '',
    flag             TEXT NOT NULL DEFAULT '',
    version          INTEGER NOT NULL DEFAULT 1,
    created_ms       INTEGER NOT NULL,
    updated_ms       INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX endpoints_uid ON endpoints (app_id, uid) WHERE uid IS NOT NULL AND stop & 8 = 0;
CREATE INDEX endpoints_app ON endpoints (app_id, id) WHERE stop & 8 = 0;

-- The queue of one endpoint in one row: a claim looks at lanes first, so what waits behind a lane costs nothing.
CREATE TABLE lanes (
    endpoint_id  TEXT PRIMARY KEY REFERENCES endpoints (id),
    app_id       TEXT NOT NULL,
    stop         INTEGER NOT NULL DEFAULT 0,
    fifo         INTEGER NOT NULL DEFAULT 0,
    cap          INTEGER NOT NULL,
    rate_limit   INTEGER,
    rate_us      INTEGER NOT NULL DEFAULT 0,  -- when the next request may go, by the rate limit, in microseconds
    width        INTEGER NOT NULL DEFAULT 1,  -- how many may be in flight now: grows with successes up to cap
    in_flight    INTEGER NOT NULL DEFAULT 0,
    failing      INTEGER NOT NULL DEFAULT 0,  -- whether the last settled attempt failed
    fresh_ms     INTEGER,                     -- when the first of its first tries is due; NULL: there is none
    late_ms      INTEGER,                     -- when the first of its retries is due; NULL: there is none
    blocked_ms   INTEGER NOT NULL DEFAULT 0,  -- not before: a hint of the breaker
    fresh_at     INTEGER GENERATED ALWAYS AS (max(fresh_ms, blocked_ms)) VIRTUAL,
    late_at      INTEGER GENERATED ALWAYS AS (max(late_ms, blocked_ms)) VIRTUAL
) STRICT, WITHOUT ROWID;

CREATE INDEX lanes_fresh ON lanes (failing, fresh_at) WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL;
CREATE INDEX lanes_late ON lanes (failing, late_at) WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL;
CREATE INDEX lanes_busy ON lanes (endpoint_id) WHERE in_flight > 0;

CREATE TABLE messages (
    id          TEXT PRIMARY KEY,
    app_id      TEXT NOT NULL,
    uid         TEXT,
    event_type  TEXT NOT NULL,
    channels    TEXT NOT NULL DEFAULT '[]',
    deliver_ms  INTEGER,
    created_ms  INTEGER NOT NULL,
    payload     BLOB                          -- exactly as received; NULL: expunged
) STRICT;

CREATE UNIQUE INDEX messages_uid ON messages (app_id, uid) WHERE uid IS NOT NULL;
CREATE INDEX messages_app ON messages (app_id, id);

CREATE TABLE deliveries (
    message_id   TEXT NOT NULL,
    endpoint_id  TEXT NOT NULL,
    app_id       TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'pending',
    queue        INTEGER,                     -- 0 first try, 1 retry, 2 with a worker; NULL: ended
    place        INTEGER,                     -- its order in the queue: when due; in a FIFO lane first_ms; with a
                                              -- worker the end of the lease
    due_ms       INTEGER,
    token        INTEGER,                     -- of the lease
    attempts     INTEGER NOT NULL DEFAULT 0,
    spent        INTEGER NOT NULL DEFAULT 0,
    deaths       INTEGER NOT NULL DEFAULT 0,
    reason       TEXT NOT NULL DEFAULT '',
    first_ms     INTEGER NOT NULL,            -- when its first try was due
    created_ms   INTEGER NOT NULL,
    ended_ms     INTEGER,
    PRIMARY KEY (message_id, endpoint_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_queue ON deliveries (endpoint_id, queue, place, message_id) WHERE queue IS NOT NULL;
CREATE INDEX deliveries_failed ON deliveries (app_id, message_id, endpoint_id) WHERE state IN ('failed', 'cancelled');

CREATE TABLE attempts (
    message_id   TEXT NOT NULL,
    id           TEXT NOT NULL,
    endpoint_id  TEXT NOT NULL,
    app_id       TEXT NOT NULL,
    number       INTEGER NOT NULL,
    at_ms        INTEGER NOT NULL,
    status       INTEGER,
    trouble      TEXT NOT NULL DEFAULT '',
    latency_ms   INTEGER NOT NULL,
    manual       INTEGER NOT NULL DEFAULT 0,
    detail       TEXT NOT NULL DEFAULT '',
    response     BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (message_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempts_endpoint ON attempts (endpoint_id, id);

CREATE TABLE idempotency_keys (
    app_id       TEXT NOT NULL,
    key          TEXT NOT NULL,
    fingerprint  BLOB NOT NULL,
    message_id   TEXT NOT NULL,
    deliveries   INTEGER NOT NULL,
    created_ms   INTEGER NOT NULL,
    PRIMARY KEY (app_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_ms);

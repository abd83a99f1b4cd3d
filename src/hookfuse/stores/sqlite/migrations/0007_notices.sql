-- What breakers did, and what people are told of it. Instants are Unix milliseconds.

-- A generation is at least the milliseconds of its time, so it orders transitions by time too.
CREATE TABLE transitions (
    key          TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    app_id       TEXT NOT NULL,
    endpoint_id  TEXT,                        -- NULL: several endpoints share the breaker
    before       TEXT NOT NULL,
    after        TEXT NOT NULL,
    override     TEXT NOT NULL,
    reason       TEXT NOT NULL,
    numbers      TEXT NOT NULL,               -- a JSON object
    actor        TEXT NOT NULL,
    at_ms        INTEGER NOT NULL,
    PRIMARY KEY (key, generation)
) STRICT, WITHOUT ROWID;

CREATE INDEX transitions_time ON transitions (generation, key);
CREATE INDEX transitions_app ON transitions (app_id, generation, key);

-- The last transition of each breaker, by which a missing one shows. Unless it closed the breaker, it is never pruned.
CREATE TABLE breaker_heads (
    key         TEXT PRIMARY KEY,
    generation  INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX breaker_heads_unhealthy ON breaker_heads (key) WHERE state <> 'closed';

CREATE TABLE notice_settings (
    app_id      TEXT PRIMARY KEY,
    channels    TEXT NOT NULL,                -- a JSON array
    sealed      BLOB NOT NULL,                -- their addresses and secrets
    events      TEXT,                         -- a JSON array; NULL: the default
    quiet_ms    INTEGER,                      -- NULL: the default
    updated_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox.
CREATE TABLE notices (
    id           TEXT PRIMARY KEY,
    event        TEXT NOT NULL,
    channel      TEXT NOT NULL,
    app_id       TEXT NOT NULL,
    endpoint_id  TEXT,
    key          TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    thread       TEXT NOT NULL,
    facts        TEXT NOT NULL,               -- a JSON object
    state        TEXT NOT NULL DEFAULT 'pending',
    folded       INTEGER NOT NULL DEFAULT 0,
    attempts     INTEGER NOT NULL DEFAULT 0,
    from_ms      INTEGER NOT NULL,            -- when it is first let go
    due_ms       INTEGER,                     -- when it goes next, or when its lease ends; NULL: ended
    token        INTEGER NOT NULL DEFAULT 0,  -- of the lease
    reason       TEXT NOT NULL DEFAULT '',
    at_ms        INTEGER NOT NULL,
    created_ms   INTEGER NOT NULL,
    ended_ms     INTEGER,
    UNIQUE (key, generation, channel)
) STRICT, WITHOUT ROWID;

CREATE INDEX notices_due ON notices (channel, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX notices_thread ON notices (thread, channel, from_ms) WHERE state <> 'folded';
CREATE INDEX notices_app ON notices (app_id, id);

-- Endpoints that nothing has reached since, and the last stage of it that was told.
CREATE TABLE failing (
    endpoint_id  TEXT PRIMARY KEY,
    since_ms     INTEGER NOT NULL,
    stage_ms     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX lanes_failing ON lanes (endpoint_id) WHERE failing;

-- What breakers did, and what people are told of it. Instants are Unix milliseconds.

-- A generation is at least the milliseconds of its time, so it orders transitions by time too.
CREATE TABLE hookfuse.transitions (
    key          text COLLATE "C" NOT NULL,
    generation   bigint NOT NULL,
    app_id       text COLLATE "C" NOT NULL,
    endpoint_id  text COLLATE "C",                -- NULL: several endpoints share the breaker
    before       text COLLATE "C" NOT NULL,
    after        text COLLATE "C" NOT NULL,
    override     text COLLATE "C" NOT NULL,
    reason       text NOT NULL,
    numbers      jsonb NOT NULL,
    actor        text NOT NULL,
    at_ms        bigint NOT NULL,
    PRIMARY KEY (key, generation)
);

CREATE INDEX transitions_time ON hookfuse.transitions (generation, key);
CREATE INDEX transitions_app ON hookfuse.transitions (app_id, generation, key);

-- The last transition of each breaker, by which a missing one shows. Unless it closed the breaker, it is never pruned.
CREATE TABLE hookfuse.breaker_heads (
    key         text COLLATE "C" PRIMARY KEY,
    generation  bigint NOT NULL,
    state       text COLLATE "C" NOT NULL
);

CREATE INDEX breaker_heads_unhealthy ON hookfuse.breaker_heads (key) WHERE state <> 'closed';

CREATE TABLE hookfuse.notice_settings (
    app_id      text COLLATE "C" PRIMARY KEY,
    channels    text[] COLLATE "C" NOT NULL,
    sealed      bytea NOT NULL,                   -- their addresses and secrets
    events      text[] COLLATE "C",               -- NULL: the default
    quiet_ms    bigint,                           -- NULL: the default
    updated_ms  bigint NOT NULL
);

-- The outbox.
CREATE TABLE hookfuse.notices (
    id           text COLLATE "C" PRIMARY KEY,
    event        text COLLATE "C" NOT NULL,
    channel      text COLLATE "C" NOT NULL,
    app_id       text COLLATE "C" NOT NULL,
    endpoint_id  text COLLATE "C",
    key          text COLLATE "C" NOT NULL,
    generation   bigint NOT NULL,
    thread       text COLLATE "C" NOT NULL,
    facts        jsonb NOT NULL,
    state        text COLLATE "C" NOT NULL DEFAULT 'pending',
    folded       bigint NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0,
    from_ms      bigint NOT NULL,                 -- when it is first let go
    due_ms       bigint,                          -- when it goes next, or when its lease ends; NULL: ended
    token        bigint NOT NULL DEFAULT 0,       -- of the lease
    reason       text NOT NULL DEFAULT '',
    at_ms        bigint NOT NULL,
    created_ms   bigint NOT NULL,
    ended_ms     bigint,
    UNIQUE (key, generation, channel)
);

CREATE INDEX notices_due ON hookfuse.notices (channel, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX notices_thread ON hookfuse.notices (thread, channel, from_ms) WHERE state <> 'folded';
CREATE INDEX notices_app ON hookfuse.notices (app_id, id);

-- Endpoints that nothing has reached since, and the last stage of it that was told.
CREATE TABLE hookfuse.failing (
    endpoint_id  text COLLATE "C" PRIMARY KEY,
    since_ms     bigint NOT NULL,
    stage_ms     bigint NOT NULL DEFAULT 0
);

CREATE INDEX lanes_failing ON hookfuse.lanes (endpoint_id) WHERE failing;

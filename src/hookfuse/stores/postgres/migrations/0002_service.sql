-- What the API needs beside delivery: event types, keys, the audit log, tasks; and lists in the order of time.

CREATE TABLE hookfuse.event_types (
    name           text COLLATE "C" PRIMARY KEY,
    description    text NOT NULL DEFAULT '',
    archived       boolean NOT NULL DEFAULT false,
    deprecated     boolean NOT NULL DEFAULT false,
    schemas        jsonb,
    group_name     text COLLATE "C",
    feature_flags  text[],
    created_ms     bigint NOT NULL,
    updated_ms     bigint NOT NULL
);

CREATE TABLE hookfuse.api_keys (
    id          text COLLATE "C" PRIMARY KEY,
    role        text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    hash        bytea NOT NULL UNIQUE,          -- the text itself is kept nowhere
    app_id      text COLLATE "C",               -- NULL: all applications
    created_ms  bigint NOT NULL,
    revoked_ms  bigint,
    used_ms     bigint
);

CREATE INDEX api_keys_app ON hookfuse.api_keys (app_id, id) WHERE app_id IS NOT NULL;

CREATE TABLE hookfuse.audit_log (
    id       text COLLATE "C" PRIMARY KEY,
    actor    text COLLATE "C" NOT NULL,
    action   text COLLATE "C" NOT NULL,
    subject  text NOT NULL,
    app_id   text COLLATE "C",
    detail   text NOT NULL DEFAULT '',
    at_ms    bigint NOT NULL
);

CREATE INDEX audit_log_app ON hookfuse.audit_log (app_id, id) WHERE app_id IS NOT NULL;

CREATE TABLE hookfuse.tasks (
    id          text COLLATE "C" PRIMARY KEY,
    kind        text COLLATE "C" NOT NULL,
    app_id      text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL DEFAULT '',
    status      text COLLATE "C" NOT NULL,
    total       bigint,
    seen        bigint NOT NULL DEFAULT 0,
    changed     bigint NOT NULL DEFAULT 0,
    created_ms  bigint NOT NULL,
    updated_ms  bigint NOT NULL
);

CREATE INDEX tasks_app ON hookfuse.tasks (app_id, id);

CREATE TABLE hookfuse.presets (
    name   text COLLATE "C" PRIMARY KEY,
    value  jsonb
);

DROP INDEX hookfuse.attempts_endpoint;
CREATE INDEX attempts_endpoint ON hookfuse.attempts (endpoint_id, at_ms, id);

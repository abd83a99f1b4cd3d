-- What the API needs beside delivery: event types, keys, the audit log, tasks; and lists in the order of time.

CREATE TABLE event_types (
    name           TEXT PRIMARY KEY,
    description    TEXT NOT NULL DEFAULT '',
    archived       INTEGER NOT NULL DEFAULT 0,
    deprecated     INTEGER NOT NULL DEFAULT 0,
    schemas        TEXT,
    group_name     TEXT,
    feature_flags  TEXT,                      -- a JSON array
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id          TEXT PRIMARY KEY,
    role        TEXT NOT NULL,
    name        TEXT NOT NULL,
    hash        BLOB NOT NULL UNIQUE,         -- the text itself is kept nowhere
    app_id      TEXT,                         -- NULL: all applications
    created_ms  INTEGER NOT NULL,
    revoked_ms  INTEGER,
    used_ms     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_app ON api_keys (app_id, id) WHERE app_id IS NOT NULL;

CREATE TABLE audit_log (
    id       TEXT PRIMARY KEY,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    app_id   TEXT,
    detail   TEXT NOT NULL DEFAULT '',
    at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_log_app ON audit_log (app_id, id) WHERE app_id IS NOT NULL;

CREATE TABLE tasks (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    app_id      TEXT NOT NULL,
    subject     TEXT NOT NULL DEFAULT '',
    status      TEXT NOT NULL,
    total       INTEGER,
    seen        INTEGER NOT NULL DEFAULT 0,
    changed     INTEGER NOT NULL DEFAULT 0,
    created_ms  INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_app ON tasks (app_id, id);

CREATE TABLE presets (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

DROP INDEX messages_app;
CREATE INDEX messages_app ON messages (app_id, created_ms, id);

DROP INDEX attempts_endpoint;
CREATE INDEX attempts_endpoint ON attempts (endpoint_id, at_ms, id);

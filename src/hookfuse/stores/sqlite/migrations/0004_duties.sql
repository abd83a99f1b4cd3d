-- Who does the work that one process does for all. A fence only grows. Instants are Unix milliseconds.

CREATE TABLE duties (
    duty      TEXT PRIMARY KEY,
    holder    TEXT NOT NULL,
    since_ms  INTEGER NOT NULL,
    fence     INTEGER NOT NULL,
    until_ms  INTEGER NOT NULL                -- anyone may take it then
) STRICT, WITHOUT ROWID;

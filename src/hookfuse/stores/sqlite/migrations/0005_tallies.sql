-- Outcomes by endpoint and slot of ten seconds, so that a sample reads endpoints with traffic and not history.

CREATE TABLE tallies (
    slot_ms      INTEGER NOT NULL,            -- when the slot began, in Unix milliseconds
    endpoint_id  TEXT NOT NULL,
    ok           INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    slow         INTEGER NOT NULL,
    latency_ms   INTEGER NOT NULL,            -- of all of them
    PRIMARY KEY (slot_ms, endpoint_id)
) STRICT, WITHOUT ROWID;

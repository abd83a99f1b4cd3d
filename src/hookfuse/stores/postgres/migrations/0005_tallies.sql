-- Outcomes by endpoint and slot of ten seconds, so that a sample reads endpoints with traffic and not history.
-- A row is changed many times within ten seconds and then never: room in its page keeps the index out of it.

CREATE TABLE hookfuse.tallies (
    slot_ms      bigint NOT NULL,                 -- when the slot began, in Unix milliseconds
    endpoint_id  text COLLATE "C" NOT NULL,
    ok           integer NOT NULL,
    failed       integer NOT NULL,
    slow         integer NOT NULL,
    latency_ms   bigint NOT NULL,                 -- of all of them
    PRIMARY KEY (slot_ms, endpoint_id)
) WITH (fillfactor = 70);

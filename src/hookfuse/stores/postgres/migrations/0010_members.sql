-- The processes of the fleet, one row each. Instants are Unix milliseconds of this database.

-- Unlogged: every row is written anew within seconds, so nothing of it need survive a crash or cost the log anything.
CREATE UNLOGGED TABLE hookfuse.members (
    name        text PRIMARY KEY,
    host        text NOT NULL,
    pid         bigint NOT NULL,
    version     text NOT NULL,
    parts       text[] NOT NULL,               -- api, worker
    every_ms    bigint NOT NULL,               -- how often it reports
    in_hand     bigint NOT NULL,
    slots       bigint NOT NULL,               -- 0: it does not deliver
    draining    boolean NOT NULL,
    breakers    text NOT NULL,                 -- shared, degraded, own
    suspect     boolean NOT NULL,
    started_ms  bigint NOT NULL,
    heard_ms    bigint NOT NULL
) WITH (fillfactor = 50);

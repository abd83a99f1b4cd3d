-- What every delivery costs, once more: fewer rows, fewer entries in indexes, fewer values on the way.

-- One bell for up to fifty endpoints whose messages were accepted together and are due at one instant, not one for each.
-- More would make a row so long that it is stored elsewhere, and a claim that takes some could not say how many lanes it
-- rings.
ALTER TABLE hookfuse.bells RENAME TO single_bells;
CREATE TABLE hookfuse.bells (
    due_ms        bigint NOT NULL,
    endpoint_ids  text[] COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
INSERT INTO hookfuse.bells SELECT due_ms, ARRAY[endpoint_id] FROM hookfuse.single_bells;
DROP TABLE hookfuse.single_bells;

-- With a worker, a delivery keeps its place in the queue, and only its token says that it is taken. So a claim changes
-- nothing that is in an index, and is written in place. It costs the next claim a look at each that is in flight.
ALTER TABLE hookfuse.deliveries
    ADD COLUMN lease_ms bigint,                   -- when the lease of its token ends
    ADD COLUMN lost boolean NOT NULL GENERATED ALWAYS AS (state IN ('failed', 'cancelled')) STORED,
    SET (fillfactor = 50);
UPDATE hookfuse.deliveries
SET lease_ms = place, queue = CASE WHEN attempts = 0 THEN 0 ELSE 1 END, place = first_ms
WHERE queue = 2;
DROP INDEX hookfuse.deliveries_failed;
CREATE INDEX deliveries_lost ON hookfuse.deliveries (app_id, message_id, endpoint_id) WHERE lost;

-- Whoever accepts messages remembers who wants them; this number is another one when that changes. It is drawn, because
-- a number that grows would come again after a restore or a failover that lost something.
ALTER TABLE hookfuse.applications ADD COLUMN routes bigint NOT NULL DEFAULT 1;

-- When the first lease of a lane may end. Only then it is worth a look, and the look may take a while.
ALTER TABLE hookfuse.lanes ADD COLUMN lease_ms bigint;
UPDATE hookfuse.lanes SET lease_ms = 0 WHERE in_flight > 0;

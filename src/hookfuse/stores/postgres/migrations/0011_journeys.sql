-- What changes with every delivery is in no index, so that a lane is updated in place.
ALTER TABLE hookfuse.lanes ADD COLUMN room boolean NOT NULL GENERATED ALWAYS AS (in_flight < width) STORED;
DROP INDEX hookfuse.lanes_fresh, hookfuse.lanes_late;
CREATE INDEX lanes_fresh ON hookfuse.lanes (failing, fresh_at) WHERE stop = 0 AND room AND fresh_ms IS NOT NULL;
CREATE INDEX lanes_late ON hookfuse.lanes (failing, late_at) WHERE stop = 0 AND room AND late_ms IS NOT NULL;

-- The breakers of the process, so that they survive it. Instants are Unix milliseconds.

CREATE TABLE breakers (
    key         TEXT PRIMARY KEY,
    state       TEXT NOT NULL,
    override    TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    until_ms    INTEGER NOT NULL,             -- forgotten then
    data        TEXT NOT NULL                 -- everything, as JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX breakers_until ON breakers (until_ms);

-- The newest generation, which must never be given out twice; it outlives the breaker that took it.
CREATE TABLE breaker_sequence (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    last  INTEGER NOT NULL
) STRICT;

INSERT INTO breaker_sequence VALUES (1, 0);

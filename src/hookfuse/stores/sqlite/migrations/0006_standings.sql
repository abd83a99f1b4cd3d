-- What operators said of breakers, and which are disabled, to survive the loss of Redis; and what was last seen of it.

CREATE TABLE standings (
    key         TEXT PRIMARY KEY,             -- of the breaker
    override    TEXT NOT NULL,                -- none, open, closed
    until_ms    INTEGER,                      -- NULL: until someone ends it
    disabled    INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    generation  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE breaker_memory (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    life        TEXT NOT NULL,                -- of the data in Redis; another one means that it was lost
    generation  INTEGER NOT NULL              -- the newest that was seen
) STRICT;

INSERT INTO breaker_memory VALUES (1, '', 0);

-- Why someone should think of enabling a disabled endpoint; empty: there is no reason.
ALTER TABLE endpoints ADD COLUMN offer TEXT NOT NULL DEFAULT '';

-- What operators said of breakers, and which are disabled, to survive the loss of Redis; and what was last seen of it.

CREATE TABLE hookfuse.standings (
    key         text COLLATE "C" PRIMARY KEY,     -- of the breaker
    override    text COLLATE "C" NOT NULL,        -- none, open, closed
    until_ms    bigint,                           -- NULL: until someone ends it
    disabled    boolean NOT NULL,
    reason      text NOT NULL,
    generation  bigint NOT NULL
);

CREATE TABLE hookfuse.breaker_memory (
    one         integer PRIMARY KEY CHECK (one = 1),
    life        text COLLATE "C" NOT NULL,        -- of the data in Redis; another one means that it was lost
    generation  bigint NOT NULL                   -- the newest that was seen
);

INSERT INTO hookfuse.breaker_memory VALUES (1, '', 0);

-- Why someone should think of enabling a disabled endpoint; empty: there is no reason.
ALTER TABLE hookfuse.endpoints ADD COLUMN offer text COLLATE "C" NOT NULL DEFAULT '';

-- Who does the work that one process does for all. A fence only grows. Instants are Unix milliseconds.

CREATE TABLE hookfuse.duties (
    duty      text COLLATE "C" PRIMARY KEY,
    holder    text COLLATE "C" NOT NULL,
    since_ms  bigint NOT NULL,
    fence     bigint NOT NULL,
    until_ms  bigint NOT NULL                 -- anyone may take it then
);

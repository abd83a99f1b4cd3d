-- name: report_in
-- $12: for how long it has run, $13: after how long a process is forgotten. Any process may forget: the table is small,
-- and rows that another one has in hand are left to it, so nobody waits.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
forgotten AS (
    DELETE FROM hookfuse.members WHERE name IN (
        SELECT m.name FROM hookfuse.members AS m CROSS JOIN moment
        WHERE abs(moment.now - m.heard_ms) >= $13::bigint AND m.name <> $1
        FOR UPDATE OF m SKIP LOCKED
    )
)
INSERT INTO hookfuse.members (
    name, host, pid, version, parts, every_ms, in_hand, slots, draining, breakers, suspect, started_ms, heard_ms
)
SELECT $1, $2, $3, $4, $5::text[], $6, $7, $8, $9::boolean, $10, $11::boolean, moment.now - $12::bigint, moment.now
FROM moment
ON CONFLICT (name) DO UPDATE SET
    host = excluded.host,
    pid = excluded.pid,
    version = excluded.version,
    parts = excluded.parts,
    every_ms = excluded.every_ms,
    in_hand = excluded.in_hand,
    slots = excluded.slots,
    draining = excluded.draining,
    breakers = excluded.breakers,
    suspect = excluded.suspect,
    heard_ms = excluded.heard_ms;

-- name: sign_off
DELETE FROM hookfuse.members WHERE name = $1;

-- name: members
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now)
SELECT name, host, pid, version, parts, every_ms, in_hand, slots, draining, breakers, suspect,
       started_ms, heard_ms, moment.now
FROM hookfuse.members CROSS JOIN moment
WHERE abs(moment.now - heard_ms) < $1::bigint;

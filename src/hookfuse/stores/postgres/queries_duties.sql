-- name: hold_duties
-- What someone else holds is only read. A lease that ran out is a new tenure, even if nobody else wanted it. In order,
-- so that two processes cannot wait for one another.
WITH moment AS MATERIALIZED (SELECT hookfuse.now_ms() AS now),
free AS MATERIALIZED (
    SELECT a.duty FROM unnest($1::text[]) AS a (duty) CROSS JOIN moment
    WHERE NOT EXISTS (
        SELECT 1 FROM hookfuse.duties AS d WHERE d.duty = a.duty AND d.holder <> $2 AND d.until_ms > moment.now
    )
    ORDER BY a.duty
)
INSERT INTO hookfuse.duties AS d (duty, holder, since_ms, fence, until_ms)
SELECT free.duty, $2, moment.now, 1, moment.now + $3 FROM free CROSS JOIN moment
ON CONFLICT (duty) DO UPDATE SET
    holder = excluded.holder,
    since_ms = CASE WHEN d.until_ms > excluded.since_ms THEN d.since_ms ELSE excluded.since_ms END,
    fence = CASE WHEN d.until_ms > excluded.since_ms THEN d.fence ELSE d.fence + 1 END,
    until_ms = excluded.until_ms
WHERE d.holder = excluded.holder OR d.until_ms <= excluded.since_ms
RETURNING d.duty, d.holder, d.since_ms, d.fence, d.until_ms;

-- name: give_up_duties
UPDATE hookfuse.duties SET until_ms = (SELECT hookfuse.now_ms())
WHERE holder = $1 AND until_ms > (SELECT hookfuse.now_ms());

-- name: duties
SELECT duty, holder, since_ms, fence, until_ms FROM hookfuse.duties
WHERE until_ms > (SELECT hookfuse.now_ms()) ORDER BY duty;

-- name: holds_duty
-- Locked until the end of the transaction: who takes the duty over waits for what is written under it.
SELECT 1 FROM hookfuse.duties WHERE duty = $1 AND fence = $2 FOR SHARE;

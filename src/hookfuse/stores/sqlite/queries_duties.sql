-- name: hold_duty
-- ?1 duty, ?2 holder, ?3 now, ?4 until. A lease that ran out is a new tenure, even if nobody else wanted it.
INSERT INTO duties AS d (duty, holder, since_ms, fence, until_ms) VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT (duty) DO UPDATE SET
    holder = excluded.holder,
    since_ms = iif(d.until_ms > ?3, d.since_ms, ?3),
    fence = iif(d.until_ms > ?3, d.fence, d.fence + 1),
    until_ms = excluded.until_ms
WHERE d.holder = ?2 OR d.until_ms <= ?3
RETURNING duty, holder, since_ms, fence, until_ms;

-- name: give_up_duties
UPDATE duties SET until_ms = ?2 WHERE holder = ?1 AND until_ms > ?2;

-- name: end_duties
UPDATE duties SET until_ms = 0;

-- name: duties
SELECT duty, holder, since_ms, fence, until_ms FROM duties WHERE until_ms > ? ORDER BY duty;

-- name: holds_duty
SELECT 1 FROM duties WHERE duty = ? AND fence = ?;

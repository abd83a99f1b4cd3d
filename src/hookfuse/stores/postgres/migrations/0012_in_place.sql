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

DROP FUNCTION hookfuse.claim, hookfuse.settle;

-- Takes what is due. The last row has no message: it says when to come again (0: at once, NULL: when something was
-- accepted). Lanes that another claim holds are skipped, so claims never wait for one another; only ringing waits, for
-- lanes in the order of their ids.
-- `made_for` only tells it from the function of an older version, whose workers must not claim what they cannot settle.
CREATE FUNCTION hookfuse.claim(
    made_for integer, most integer, reserved integer, failing_most integer, leased_for bigint, lease bigint,
    most_bells integer
) RETURNS TABLE (
    message_id text, endpoint_id text, app_id text, token bigint, version bigint, event_type text, payload bytea,
    created_ms bigint, attempts integer, spent integer, deaths integer, in_flight integer, failing boolean,
    asked boolean, instant bigint, wait_ms bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
    bells integer;
    deleted text[];
    ready text[];
    ready_ms bigint[];
    served text[] := '{}';
    pass integer := 0;
    of_queue integer;
    slots integer;
    failing_slots integer;
    chosen text[];
    failing_before bigint;
    failing_after bigint;
    got integer;
    late_got integer := 0;
    all_got integer := 0;
    looked boolean := false;
    wake_ms bigint;
BEGIN
    -- A claim that is lost with the server was never made.
    PERFORM set_config('synchronous_commit', 'off', true);

    -- What a lane's fresh_ms is, is only known once the lane is locked: `locked` reads the newest version, the snapshot
    -- of the statement may be older. Most lanes slept, are served at once and sleep on, so these are not written yet.
    -- What came too late for a deleted lane has to be cancelled.
    WITH taken AS (
        DELETE FROM hookfuse.bells
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM hookfuse.bells LIMIT most_bells FOR UPDATE SKIP LOCKED))
        RETURNING endpoint_ids, due_ms
    ),
    heard AS (
        SELECT r.endpoint_id, min(t.due_ms) AS due_ms
        FROM taken AS t CROSS JOIN LATERAL unnest(t.endpoint_ids) AS r (endpoint_id) GROUP BY r.endpoint_id
    ),
    locked AS MATERIALIZED (
        SELECT l.endpoint_id, l.stop, l.fresh_ms, h.due_ms,
               l.fresh_ms IS NULL AND l.stop = 0 AND l.room AND NOT l.failing
                   AND greatest(h.due_ms, l.blocked_ms) <= (SELECT hookfuse.now_ms()) AS ready
        FROM heard AS h JOIN hookfuse.lanes AS l ON l.endpoint_id = h.endpoint_id
        ORDER BY l.endpoint_id
        FOR UPDATE OF l
    ),
    woken AS (
        UPDATE hookfuse.lanes AS l SET fresh_ms = k.due_ms
        FROM locked AS k
        WHERE l.endpoint_id = k.endpoint_id AND NOT k.ready AND (k.fresh_ms IS NULL OR k.fresh_ms > k.due_ms)
    )
    SELECT (SELECT count(*) FROM taken), array_agg(endpoint_id) FILTER (WHERE stop & 8 <> 0),
           array_agg(endpoint_id) FILTER (WHERE ready), array_agg(due_ms) FILTER (WHERE ready)
    INTO bells, deleted, ready, ready_ms FROM locked;

    now_ms := hookfuse.now_ms();
    IF deleted IS NOT NULL THEN
        UPDATE hookfuse.deliveries
        SET state = 'cancelled', queue = NULL, place = NULL, due_ms = NULL, ended_ms = now_ms,
            reason = 'endpoint_deleted'
        WHERE endpoint_id = ANY (deleted) AND queue IN (0, 1) AND token IS NULL;
    END IF;

    -- Retries take their share, first tries what they can, retries the rest.
    FOREACH of_queue IN ARRAY ARRAY[1, 0, 1] LOOP
        pass := pass + 1;
        slots := CASE pass WHEN 1 THEN least(reserved, most) ELSE most - all_got END;
        CONTINUE WHEN slots <= 0 OR (pass = 3 AND late_got < reserved);
        failing_slots := least(failing_most, slots);

        -- Of the lanes that have waited longest a window, ordered so that applications take turns. Those that are not
        -- free are skipped.
        WITH waiting AS MATERIALIZED (
            (
                SELECT l.endpoint_id, l.app_id, false AS failing, r.due_ms AS at
                FROM unnest(ready, ready_ms) AS r (endpoint_id, due_ms)
                JOIN hookfuse.lanes AS l ON l.endpoint_id = r.endpoint_id
                WHERE of_queue = 0
            )
            UNION ALL
            (
                SELECT endpoint_id, app_id, failing, fresh_at AS at FROM hookfuse.lanes
                WHERE of_queue = 0 AND stop = 0 AND room AND fresh_ms IS NOT NULL
                  AND failing = false AND fresh_at <= now_ms
                ORDER BY fresh_at LIMIT 2 * slots + 64
            )
            UNION ALL
            (
                SELECT endpoint_id, app_id, failing, fresh_at AS at FROM hookfuse.lanes
                WHERE of_queue = 0 AND stop = 0 AND room AND fresh_ms IS NOT NULL
                  AND failing = true AND fresh_at <= now_ms
                ORDER BY fresh_at LIMIT failing_slots
            )
            UNION ALL
            (
                SELECT endpoint_id, app_id, failing, late_at AS at FROM hookfuse.lanes
                WHERE of_queue = 1 AND stop = 0 AND room AND late_ms IS NOT NULL
                  AND failing = false AND late_at <= now_ms
                ORDER BY late_at LIMIT 2 * slots + 64
            )
            UNION ALL
            (
                SELECT endpoint_id, app_id, failing, late_at AS at FROM hookfuse.lanes
                WHERE of_queue = 1 AND stop = 0 AND room AND late_ms IS NOT NULL
                  AND failing = true AND late_at <= now_ms
                ORDER BY late_at LIMIT failing_slots
            )
        ),
        locked AS MATERIALIZED (
            SELECT l.endpoint_id, l.failing, l.in_flight
            FROM (
                SELECT endpoint_id, failing, at, row_number() OVER (PARTITION BY failing, app_id ORDER BY at) AS turn
                FROM waiting ORDER BY failing, turn, at
            ) AS w
            JOIN hookfuse.lanes AS l ON l.endpoint_id = w.endpoint_id AND l.stop = 0 AND l.room
            ORDER BY w.failing, w.turn, w.at LIMIT slots
            FOR UPDATE OF l SKIP LOCKED
        )
        SELECT array_agg(endpoint_id), sum(in_flight) FILTER (WHERE failing) INTO chosen, failing_before FROM locked;
        CONTINUE WHEN chosen IS NULL;
        looked := true;
        served := CASE of_queue WHEN 0 THEN chosen ELSE served END;

        -- Its snapshot is younger than everything that was done to these lanes before, so a lane is never put to sleep
        -- over a delivery that was not seen. Of each lane one head more is read than there is room for; it tells when
        -- the lane is to be looked at next.
        RETURN QUERY
        WITH picked AS MATERIALIZED (
            SELECT p.turn, l.endpoint_id, e.version, l.failing, l.in_flight, l.rate_limit, l.rate_us,
                   of_queue = 0 AND l.fresh_ms IS NULL AS slept, least(
                -- Equal shares, what its width leaves, and what its rate lets go now.
                CASE WHEN l.failing THEN (failing_slots - 1) / count(*) FILTER (WHERE l.failing) OVER () + 1
                     ELSE (slots - 1) / count(*) FILTER (WHERE NOT l.failing) OVER () + 1 END,
                l.width - l.in_flight,
                CASE WHEN l.rate_us > now_ms * 1000 AND l.rate_limit IS NOT NULL THEN 0
                     ELSE (now_ms * 1000 - greatest(l.rate_us, now_ms * 1000 - 100000)) * l.rate_limit / 1000000 + 1 END
            ) AS room
            FROM unnest(chosen) WITH ORDINALITY AS p (endpoint_id, turn)
            JOIN hookfuse.lanes AS l ON l.endpoint_id = p.endpoint_id
            JOIN hookfuse.endpoints AS e ON e.id = p.endpoint_id
        ),
        heads AS MATERIALIZED (
            SELECT p.*, h.ctid, h.due_ms, h.nth, coalesce(h.nth <= p.room AND h.due_ms <= now_ms, false) AS due
            FROM picked AS p
            LEFT JOIN LATERAL (
                SELECT first.ctid, first.due_ms, row_number() OVER (ORDER BY first.place, first.message_id) AS nth
                FROM (
                    SELECT d.ctid, d.message_id, d.due_ms, d.place FROM hookfuse.deliveries AS d
                    WHERE d.endpoint_id = p.endpoint_id AND d.queue = of_queue AND d.token IS NULL
                    ORDER BY d.place, d.message_id LIMIT p.room + 1
                ) AS first
            ) AS h ON true
        ),
        counted AS (
            SELECT *, count(*) FILTER (WHERE due) OVER so_far AS number,
                   count(*) FILTER (WHERE due AND failing) OVER so_far AS failing_number
            FROM heads
            WINDOW so_far AS (ORDER BY turn, nth ROWS UNBOUNDED PRECEDING)
        ),
        cut AS MATERIALIZED (
            SELECT *, due AND number <= slots AND (NOT failing OR failing_number <= failing_slots) AS taken FROM counted
        ),
        claimed AS (
            -- By its place in the table: whoever writes a delivery holds its lane, so it is still there. No index is of
            -- use to IS NOT DISTINCT, so the planner cannot think of another way.
            UPDATE hookfuse.deliveries AS d
            SET state = 'sending', due_ms = NULL, token = lease, lease_ms = now_ms + leased_for
            FROM cut AS c
            WHERE c.taken AND d.ctid = c.ctid AND d.queue IS NOT DISTINCT FROM of_queue
            RETURNING d.message_id, d.endpoint_id, d.app_id, d.attempts, d.spent, d.deaths, d.created_ms, d.asked,
                      c.version, c.turn, c.nth, c.in_flight, c.failing
        ),
        served AS (
            SELECT endpoint_id, rate_limit, rate_us, slept, count(*) FILTER (WHERE taken) AS taken, bool_or(due) AS due,
                   (array_agg(due_ms ORDER BY nth) FILTER (WHERE NOT taken))[1] AS rest_ms
            FROM cut GROUP BY turn, endpoint_id, rate_limit, rate_us, slept
        ),
        rated AS (
            SELECT endpoint_id, taken, rest_ms, due AND taken = 0 AS passed_over,
                   CASE WHEN taken > 0 AND rate_limit IS NOT NULL
                        THEN greatest(rate_us, now_ms * 1000 - 100000) + taken * 1000000 / rate_limit
                        ELSE rate_us END AS rate_us
            FROM served
            -- A lane that was due and got nothing, because there were no slots left, keeps its turn.
            WHERE taken > 0 OR NOT due OR slept
        ),
        moved AS (
            UPDATE hookfuse.lanes AS l
            SET in_flight = l.in_flight + r.taken, rate_us = r.rate_us,
                lease_ms = least(CASE WHEN l.in_flight > 0 THEN l.lease_ms END, now_ms + leased_for),
                fresh_ms = CASE WHEN of_queue = 0 THEN r.wake_ms ELSE l.fresh_ms END,
                late_ms = CASE WHEN of_queue = 1 THEN r.wake_ms ELSE l.late_ms END
            FROM (
                SELECT *, CASE
                    WHEN passed_over THEN rest_ms
                    WHEN rest_ms IS NOT NULL THEN greatest(rest_ms, now_ms, (rate_us + 999) / 1000)
                END AS wake_ms
                FROM rated
            ) AS r
            WHERE l.endpoint_id = r.endpoint_id
        )
        SELECT c.message_id, c.endpoint_id, c.app_id, lease, c.version, m.event_type, m.payload, c.created_ms,
               c.attempts, c.spent, c.deaths, c.in_flight + c.nth::integer, c.failing, c.asked, NULL::bigint, NULL::bigint
        FROM claimed AS c
        JOIN hookfuse.messages AS m ON m.id = c.message_id
        ORDER BY c.turn, c.nth;

        GET DIAGNOSTICS got = ROW_COUNT;
        all_got := all_got + got;
        late_got := late_got + CASE of_queue WHEN 1 THEN got ELSE 0 END;
        IF failing_before IS NOT NULL THEN
            SELECT sum(in_flight) INTO failing_after FROM hookfuse.lanes
            WHERE endpoint_id = ANY (chosen) AND failing;
            failing_most := failing_most - (failing_after - failing_before);
        END IF;
    END LOOP;

    IF ready IS NOT NULL THEN
        UPDATE hookfuse.lanes AS l SET fresh_ms = r.due_ms
        FROM unnest(ready, ready_ms) AS r (endpoint_id, due_ms)
        WHERE l.endpoint_id = r.endpoint_id AND r.endpoint_id NOT IN (SELECT unnest(served));
    END IF;
    IF looked OR bells = most_bells THEN
        wake_ms := now_ms;
    ELSE
        SELECT least(
            (
                SELECT fresh_at FROM hookfuse.lanes
                WHERE stop = 0 AND room AND fresh_ms IS NOT NULL AND failing = false
                ORDER BY fresh_at LIMIT 1
            ),
            (
                SELECT late_at FROM hookfuse.lanes
                WHERE stop = 0 AND room AND late_ms IS NOT NULL AND failing = false
                ORDER BY late_at LIMIT 1
            ),
            (
                SELECT fresh_at FROM hookfuse.lanes
                WHERE stop = 0 AND room AND fresh_ms IS NOT NULL AND failing = true AND failing_most > 0
                ORDER BY fresh_at LIMIT 1
            ),
            (
                SELECT late_at FROM hookfuse.lanes
                WHERE stop = 0 AND room AND late_ms IS NOT NULL AND failing = true AND failing_most > 0
                ORDER BY late_at LIMIT 1
            )
        ) INTO wake_ms;
        IF wake_ms <= now_ms THEN
            -- Others hold what is due.
            wake_ms := now_ms + 5;
        END IF;
    END IF;
    instant := now_ms;
    wait_ms := wake_ms - now_ms;
    RETURN NEXT;
END
$$;

-- Ends, returns or gives back claims; returns the places of those that were settled, NULL: all of them. One whose token
-- is no longer that of the delivery changes nothing. What comes back untouched keeps its turn, and what has to wait goes
-- to the retries, which have a share of their own: behind all first tries that wait, it would be late twice. What would
-- go back to a deleted endpoint ends instead.
-- Most claims end alike: what they have in common comes once (`states` to `marks`), and `kinds` says which it is.
-- The bits of `marks`: 1 spent, 2 its worker died, 4 healthy, 8 unhealthy, 16 slow, 32 asked for by someone.
CREATE FUNCTION hookfuse.settle(
    states text[], reasons text[], troubles text[], details text[], waits_ms bigint[], marks integer[],
    message_ids text[], endpoint_ids text[], tokens bigint[], kinds integer[], delays_ms bigint[], attempt_ids text[],
    begins_ms bigint[], statuses integer[], latencies_ms bigint[], responses bytea[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
    done integer[];
BEGIN
    -- In order, so that two of them cannot wait for one another.
    PERFORM 1 FROM hookfuse.lanes WHERE endpoint_id = ANY (endpoint_ids) ORDER BY endpoint_id FOR UPDATE;
    now_ms := hookfuse.now_ms();
    WITH settled AS (
        UPDATE hookfuse.deliveries AS d
        SET state = x.state, reason = x.reason, token = NULL, lease_ms = NULL, due_ms = x.due_ms,
            attempts = d.attempts + x.made, spent = d.spent + (x.mark & 1), deaths = d.deaths + (x.mark >> 1 & 1),
            asked = d.asked AND x.made = 0,
            queue = CASE
                WHEN x.due_ms IS NULL THEN NULL
                WHEN x.fifo OR (d.attempts + x.made = 0 AND x.due_ms <= now_ms) THEN 0 ELSE 1
            END,
            place = CASE
                WHEN x.due_ms IS NULL THEN NULL
                WHEN x.fifo OR (x.made = 0 AND x.due_ms <= now_ms) THEN d.first_ms ELSE x.due_ms
            END,
            ended_ms = CASE WHEN x.due_ms IS NULL THEN now_ms END
        FROM (
            SELECT x.n, x.message_id, x.endpoint_id, x.token, x.kind, marks[x.kind] AS mark, x.attempt_id, x.at_ms,
                   x.status, x.latency_ms, x.response, l.fifo,
                   CASE WHEN l.stop & 8 <> 0 THEN 'cancelled' ELSE states[x.kind] END AS state,
                   CASE WHEN l.stop & 8 <> 0 THEN 'endpoint_deleted' ELSE reasons[x.kind] END AS reason,
                   CASE WHEN l.stop & 8 = 0 THEN now_ms + x.delay_ms END AS due_ms,
                   CASE WHEN x.attempt_id IS NULL THEN 0 ELSE 1 END AS made
            FROM unnest(
                message_ids, endpoint_ids, tokens, kinds, delays_ms, attempt_ids, begins_ms, statuses, latencies_ms,
                responses
            ) WITH ORDINALITY AS x (
                message_id, endpoint_id, token, kind, delay_ms, attempt_id, at_ms, status, latency_ms, response, n
            )
            -- Only what comes back has to know about its lane.
            LEFT JOIN hookfuse.lanes AS l
                ON l.endpoint_id = CASE WHEN states[x.kind] = 'pending' THEN x.endpoint_id END
        ) AS x
        WHERE d.message_id = x.message_id AND d.endpoint_id = x.endpoint_id AND d.token = x.token
        RETURNING x.n, d.message_id, d.endpoint_id, d.app_id, d.attempts, d.queue, d.due_ms, x.kind, x.mark,
                  x.attempt_id, x.at_ms, x.status, x.latency_ms, x.response
    ),
    attempted AS (
        INSERT INTO hookfuse.attempts (
            message_id, id, endpoint_id, app_id, number, at_ms, status, trouble, latency_ms, manual, detail, response
        )
        SELECT message_id, attempt_id, endpoint_id, app_id, attempts, at_ms, status, troubles[kind], latency_ms,
               mark & 32 <> 0, details[kind], response
        FROM settled WHERE attempt_id IS NOT NULL
    ),
    -- An attempt belongs to the slot in which it began. The lanes are locked, so nobody else adds to the same rows.
    tallied AS (
        INSERT INTO hookfuse.tallies AS t (slot_ms, endpoint_id, ok, failed, slow, latency_ms)
        SELECT least(at_ms, now_ms) / 10000 * 10000 AS slot_ms, endpoint_id, count(*) FILTER (WHERE mark & 4 <> 0),
               count(*) FILTER (WHERE mark & 8 <> 0), count(*) FILTER (WHERE mark & 16 <> 0), sum(latency_ms)
        FROM settled WHERE attempt_id IS NOT NULL AND mark & 12 <> 0
        GROUP BY 1, 2
        ON CONFLICT (slot_ms, endpoint_id) DO UPDATE SET
            ok = t.ok + excluded.ok, failed = t.failed + excluded.failed, slow = t.slow + excluded.slow,
            latency_ms = t.latency_ms + excluded.latency_ms
    ),
    moved AS (
        UPDATE hookfuse.lanes AS l
        SET in_flight = greatest(l.in_flight - t.done, 0),
            failing = CASE WHEN t.bad > 0 THEN true WHEN t.good > 0 THEN false ELSE l.failing END,
            width = CASE WHEN t.bad > 0 THEN greatest(l.width / 2, 1) ELSE least(l.width + t.good, l.cap) END,
            fresh_ms = least(l.fresh_ms, t.fresh_ms), late_ms = least(l.late_ms, t.late_ms),
            blocked_ms = coalesce(t.blocked_ms, l.blocked_ms)
        FROM (
            SELECT endpoint_id, count(*) AS done, count(*) FILTER (WHERE mark & 4 <> 0) AS good,
                   count(*) FILTER (WHERE mark & 8 <> 0) AS bad, min(due_ms) FILTER (WHERE queue = 0) AS fresh_ms,
                   min(due_ms) FILTER (WHERE queue = 1) AS late_ms,
                   max(now_ms + waits_ms[kind]) FILTER (WHERE waits_ms[kind] > 0) AS blocked_ms
            FROM settled GROUP BY endpoint_id
        ) AS t
        WHERE l.endpoint_id = t.endpoint_id
    )
    SELECT array_agg(n::integer) INTO done FROM settled;
    RETURN CASE WHEN cardinality(done) = cardinality(message_ids) THEN NULL ELSE coalesce(done, '{}') END;
END
$$;

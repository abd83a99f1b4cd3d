-- name: rate_after
-- When the next request of a lane may go, in microseconds, after `taken` more.
DROP FUNCTION IF EXISTS hookfuse.rate_after;
CREATE FUNCTION hookfuse.rate_after(rate_us bigint, rate_limit integer, taken bigint, now_ms bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN taken > 0 AND rate_limit IS NOT NULL
                THEN greatest(rate_us, now_ms * 1000 - 100000) + taken * 1000000 / rate_limit
                ELSE rate_us END
$$;

-- name: next_look
-- When a lane that was looked at at `now_ms` is to be looked at next; NULL: it has nothing left. `rest_ms` is when the
-- first of what is left is due, `rate_us` when its rate lets it go. Whoever was due and got nothing keeps its turn.
-- Who has more that is due goes to the end of the line. Where all in line were served (`all_served`) it need not, if it
-- came there a moment ago: its place is in indexes, and a row that keeps it is updated in place.
DROP FUNCTION IF EXISTS hookfuse.next_look;
CREATE FUNCTION hookfuse.next_look(
    was_ms bigint, due boolean, taken bigint, rest_ms bigint, rate_us bigint, now_ms bigint, all_served boolean
) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN rest_ms IS NULL OR (due AND taken = 0) THEN rest_ms
        WHEN rest_ms > now_ms OR rate_us > now_ms * 1000 THEN greatest(rest_ms, (rate_us + 999) / 1000)
        WHEN all_served AND was_ms BETWEEN now_ms - 200 AND now_ms THEN was_ms
        ELSE now_ms
    END
$$;

-- name: claim
-- Takes what is due. The last row has no message: it says when to come again (0: at once, NULL: when something was
-- accepted). Lanes that another claim holds are skipped, so claims never wait for one another; only ringing waits, for
-- lanes in the order of their ids.
-- `turns` is who has had the last turn among first tries, failing ones, retries and failing ones; it goes to
-- the next claim as `next_turns`.
-- `made_for` only tells it from the function of an older version, whose workers must not claim what they cannot settle.
DROP FUNCTION IF EXISTS hookfuse.claim;
CREATE FUNCTION hookfuse.claim(
    made_for integer, most integer, reserved integer, failing_most integer, leased_for bigint, lease bigint,
    most_bells integer, turns text[]
) RETURNS TABLE (
    message_id text, endpoint_id text, app_id text, token bigint, version bigint, event_type text, payload bytea,
    created_ms bigint, attempts integer, spent integer, deaths integer, in_flight integer, failing boolean,
    asked boolean, instant bigint, wait_ms bigint, next_turns text[]
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
    well_apps integer;
    failing_apps integer;
    well_turn text;
    failing_turn text;
    chosen text[];
    all_served boolean;
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

        -- Applications take turns, and the lanes of each do. Those that are not free are skipped.
        WITH waiting AS MATERIALIZED (
            SELECT l.endpoint_id, l.app_id, false AS failing, r.due_ms AS at, false AS extra, NULL::text AS next_turn
            FROM unnest(ready, ready_ms) AS r (endpoint_id, due_ms)
            JOIN hookfuse.lanes AS l ON l.endpoint_id = r.endpoint_id
            WHERE of_queue = 0
            UNION ALL
            SELECT f.endpoint_id, f.app_id, false, f.at, f.extra, f.next_turn
            FROM hookfuse.fresh_lanes(false, now_ms, slots, turns[1]) AS f WHERE of_queue = 0
            UNION ALL
            SELECT f.endpoint_id, f.app_id, true, f.at, f.extra, f.next_turn
            FROM hookfuse.fresh_lanes(true, now_ms, failing_slots, turns[2]) AS f WHERE of_queue = 0
            UNION ALL
            SELECT f.endpoint_id, f.app_id, false, f.at, f.extra, f.next_turn
            FROM hookfuse.late_lanes(false, now_ms, slots, turns[3]) AS f WHERE of_queue = 1
            UNION ALL
            SELECT f.endpoint_id, f.app_id, true, f.at, f.extra, f.next_turn
            FROM hookfuse.late_lanes(true, now_ms, failing_slots, turns[4]) AS f WHERE of_queue = 1
        ),
        in_turn AS (
            SELECT *, row_number() OVER (PARTITION BY failing ORDER BY extra, turn, at) AS place
            FROM (SELECT *, row_number() OVER (PARTITION BY failing, extra, app_id ORDER BY at) AS turn FROM waiting) AS w
        ),
        locked AS MATERIALIZED (
            SELECT l.endpoint_id, l.app_id, l.failing, l.in_flight
            FROM in_turn AS w
            JOIN hookfuse.lanes AS l ON l.endpoint_id = w.endpoint_id AND l.stop = 0 AND l.room
            WHERE NOT w.failing OR w.place <= failing_slots
            ORDER BY w.failing, w.place LIMIT slots
            FOR UPDATE OF l SKIP LOCKED
        )
        SELECT array_agg(endpoint_id), sum(in_flight) FILTER (WHERE failing),
               count(DISTINCT app_id) FILTER (WHERE NOT failing), count(DISTINCT app_id) FILTER (WHERE failing),
               coalesce((SELECT max(next_turn) FROM waiting WHERE NOT failing), turns[2 * of_queue + 1]),
               coalesce((SELECT max(next_turn) FROM waiting WHERE failing), turns[2 * of_queue + 2])
        INTO chosen, failing_before, well_apps, failing_apps, well_turn, failing_turn FROM locked;
        turns[2 * of_queue + 1] := well_turn;
        turns[2 * of_queue + 2] := failing_turn;
        CONTINUE WHEN chosen IS NULL;
        looked := true;
        served := CASE of_queue WHEN 0 THEN chosen ELSE served END;
        -- Of those that do not fail: they alone may have all slots.
        all_served := cardinality(chosen) < slots;

        -- Its snapshot is younger than everything that was done to these lanes before, so a lane is never put to sleep
        -- over a delivery that was not seen. Of each lane one head more is read than there is room for; it tells when
        -- the lane is to be looked at next. What was taken comes in the order of `cut`: the first of each lane first.
        RETURN QUERY
        WITH wide AS MATERIALIZED (
            SELECT p.turn, l.endpoint_id, e.version, l.failing, l.in_flight, l.rate_limit, l.rate_us,
                   dense_rank() OVER (ORDER BY l.failing, l.app_id) AS app, l.width - l.in_flight AS width,
                   CASE WHEN l.failing THEN failing_slots ELSE slots END AS shared,
                   least(
                       count(*) OVER (PARTITION BY l.failing),
                       count(*) OVER (PARTITION BY l.failing, l.app_id)
                           * CASE WHEN l.failing THEN failing_apps ELSE well_apps END
                   ) AS by
            FROM unnest(chosen) WITH ORDINALITY AS p (endpoint_id, turn)
            JOIN hookfuse.lanes AS l ON l.endpoint_id = p.endpoint_id
            JOIN hookfuse.endpoints AS e ON e.id = p.endpoint_id
        ),
        picked AS MATERIALIZED (
            SELECT turn, endpoint_id, version, failing, in_flight, app, least(
                -- Its share as a lane or as one of its application's, what its width leaves, and what its rate lets go.
                (shared - 1) / by + 1,
                width,
                CASE WHEN rate_us > now_ms * 1000 AND rate_limit IS NOT NULL THEN 0
                     ELSE (now_ms * 1000 - greatest(rate_us, now_ms * 1000 - 100000)) * rate_limit / 1000000 + 1 END
            ) AS room
            FROM wide
        ),
        -- From here on, a row is a delivery: they are sorted and counted, so they carry nothing but numbers.
        heads AS MATERIALIZED (
            SELECT p.turn::integer, p.app::integer, p.failing, p.version, p.in_flight, h.ctid, h.due_ms, h.nth::integer,
                   coalesce(h.nth <= p.room AND h.due_ms <= now_ms, false) AS due
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
        of_apps AS (
            SELECT *, count(*) FILTER (WHERE due) OVER (PARTITION BY app ORDER BY nth, turn ROWS UNBOUNDED PRECEDING)
                AS of_app_number
            FROM heads
        ),
        counted AS (
            SELECT *, count(*) FILTER (WHERE due) OVER so_far AS number,
                   count(*) FILTER (WHERE due AND failing) OVER so_far AS failing_number
            FROM of_apps
            WINDOW so_far AS (ORDER BY failing, of_app_number, nth, turn ROWS UNBOUNDED PRECEDING)
        ),
        cut AS MATERIALIZED (
            SELECT turn, nth, ctid, version, failing, in_flight, due, due_ms,
                   due AND number <= slots AND (NOT failing OR failing_number <= failing_slots) AS taken
            FROM counted
        ),
        claimed AS (
            -- By its place in the table: whoever writes a delivery holds its lane, so it is still there. No index is of
            -- use to IS NOT DISTINCT, so the planner cannot think of another way.
            UPDATE hookfuse.deliveries AS d
            SET state = 'sending', due_ms = NULL, token = lease, lease_ms = now_ms + leased_for
            FROM cut AS c
            WHERE c.taken AND d.ctid = c.ctid AND d.queue IS NOT DISTINCT FROM of_queue
            RETURNING d.message_id, d.endpoint_id, d.app_id, d.attempts, d.spent, d.deaths, d.created_ms, d.asked,
                      c.version, c.nth, c.in_flight, c.failing
        ),
        served AS (
            SELECT chosen[turn] AS endpoint_id, count(*) FILTER (WHERE taken) AS taken, bool_or(due) AS due,
                   (array_agg(due_ms ORDER BY nth) FILTER (WHERE NOT taken))[1] AS rest_ms
            FROM cut GROUP BY turn
        ),
        moved AS (
            UPDATE hookfuse.lanes AS l
            SET in_flight = l.in_flight + s.taken,
                rate_us = hookfuse.rate_after(l.rate_us, l.rate_limit, s.taken, now_ms),
                lease_ms = least(CASE WHEN l.in_flight > 0 THEN l.lease_ms END, now_ms + leased_for),
                fresh_ms = CASE WHEN of_queue = 1 THEN l.fresh_ms ELSE hookfuse.next_look(
                    l.fresh_ms, s.due, s.taken, s.rest_ms,
                    hookfuse.rate_after(l.rate_us, l.rate_limit, s.taken, now_ms), now_ms, all_served AND NOT l.failing
                ) END,
                late_ms = CASE WHEN of_queue = 0 THEN l.late_ms ELSE hookfuse.next_look(
                    l.late_ms, s.due, s.taken, s.rest_ms,
                    hookfuse.rate_after(l.rate_us, l.rate_limit, s.taken, now_ms), now_ms, all_served AND NOT l.failing
                ) END
            FROM served AS s
            WHERE l.endpoint_id = s.endpoint_id
              -- A lane that was due and got nothing, because there were no slots left, keeps its turn.
              AND (s.taken > 0 OR NOT s.due OR (of_queue = 0 AND l.fresh_ms IS NULL))
        )
        SELECT c.message_id, c.endpoint_id, c.app_id, lease, c.version, m.event_type, m.payload, c.created_ms,
               c.attempts, c.spent, c.deaths, c.in_flight + c.nth, c.failing, c.asked, NULL::bigint, NULL::bigint,
               NULL::text[]
        FROM claimed AS c
        JOIN hookfuse.messages AS m ON m.id = c.message_id;

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
    next_turns := turns;
    RETURN NEXT;
END
$$;

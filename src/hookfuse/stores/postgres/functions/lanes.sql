-- name: next_fresh_app, late too
-- Whose turn it is after an application; after the last one it is the first. They go from Z to A: as long as someone reads
-- an old snapshot, what lanes once had in the index stays there, before what they have now.
DROP FUNCTION IF EXISTS hookfuse.next_fresh_app;
CREATE FUNCTION hookfuse.next_fresh_app(of_failing boolean, after text)
RETURNS TABLE (app_id text) LANGUAGE sql STABLE AS $$
    (
        SELECT l.app_id FROM hookfuse.lanes AS l
        WHERE l.stop = 0 AND l.room AND l.fresh_ms IS NOT NULL AND l.failing = of_failing AND l.app_id < after
        ORDER BY l.app_id DESC, l.fresh_at DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT l.app_id FROM hookfuse.lanes AS l
        WHERE l.stop = 0 AND l.room AND l.fresh_ms IS NOT NULL AND l.failing = of_failing
        ORDER BY l.app_id DESC, l.fresh_at DESC LIMIT 1
    )
    LIMIT 1
$$;

-- name: fresh_lanes, late too
-- Lanes that are due, enough for `most` deliveries: those that have waited longest. Where there are so many that a few
-- applications may have them all, some lanes of each application first, by turns from the one after `turn_of`; the others
-- are `extra`, and `next_turn` is who had the last turn. Applications with nothing due are passed over, but not more than
-- `most` at a time.
DROP FUNCTION IF EXISTS hookfuse.fresh_lanes;
CREATE FUNCTION hookfuse.fresh_lanes(of_failing boolean, now_ms bigint, most integer, turn_of text)
RETURNS TABLE (endpoint_id text, app_id text, at bigint, extra boolean, next_turn text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- More than one claim can serve: those that others hold are skipped.
    enough integer := 2 * most + 64;
    oldest bigint;
    apps text[];
    last_app text;
BEGIN
    -- Nothing before it need be looked at again: see above.
    SELECT fresh_at INTO oldest FROM hookfuse.lanes
    WHERE stop = 0 AND room AND fresh_ms IS NOT NULL AND failing = of_failing AND fresh_at <= now_ms
    ORDER BY fresh_at LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM hookfuse.lanes
    WHERE stop = 0 AND room AND fresh_ms IS NOT NULL AND failing = of_failing AND fresh_at BETWEEN oldest AND now_ms
    ORDER BY fresh_at OFFSET enough LIMIT 1;
    IF FOUND THEN
        WITH RECURSIVE walk (app_id, began, step) AS (
            SELECT n.app_id, n.app_id, 1 FROM hookfuse.next_fresh_app(of_failing, turn_of) AS n
            UNION ALL
            SELECT n.app_id, w.began, w.step + 1
            FROM walk AS w CROSS JOIN LATERAL hookfuse.next_fresh_app(of_failing, w.app_id) AS n
            WHERE w.step < most AND n.app_id <> w.began
        )
        SELECT array_agg(w.app_id) FILTER (WHERE l.due), (array_agg(w.app_id ORDER BY w.step DESC))[1]
        INTO apps, last_app
        FROM walk AS w LEFT JOIN LATERAL (
            SELECT true AS due FROM hookfuse.lanes AS l
            WHERE l.stop = 0 AND l.room AND l.fresh_ms IS NOT NULL AND l.failing = of_failing AND l.app_id = w.app_id
              AND l.fresh_at BETWEEN oldest AND now_ms
            ORDER BY l.fresh_at LIMIT 1
        ) AS l ON true;
    END IF;
    IF apps IS NULL THEN
        RETURN QUERY SELECT l.endpoint_id, l.app_id, l.fresh_at, false, last_app FROM hookfuse.lanes AS l
        WHERE stop = 0 AND room AND fresh_ms IS NOT NULL AND failing = of_failing
          AND fresh_at BETWEEN oldest AND now_ms
        ORDER BY fresh_at LIMIT enough;
        RETURN;
    END IF;
    RETURN QUERY WITH of_apps AS MATERIALIZED (
        SELECT l.endpoint_id, l.app_id, l.fresh_at
        FROM unnest(apps) AS a (app_id) CROSS JOIN LATERAL (
            SELECT l.endpoint_id, l.app_id, l.fresh_at FROM hookfuse.lanes AS l
            WHERE l.stop = 0 AND l.room AND l.fresh_ms IS NOT NULL AND l.failing = of_failing AND l.app_id = a.app_id
              AND l.fresh_at BETWEEN oldest AND now_ms
            ORDER BY l.fresh_at LIMIT enough / cardinality(apps) + 1
        ) AS l
    )
    SELECT o.endpoint_id, o.app_id, o.fresh_at, false, last_app FROM of_apps AS o
    UNION ALL
    (
        SELECT l.endpoint_id, l.app_id, l.fresh_at, true, last_app FROM hookfuse.lanes AS l
        WHERE l.stop = 0 AND l.room AND l.fresh_ms IS NOT NULL AND l.failing = of_failing
          AND l.fresh_at BETWEEN oldest AND now_ms
          AND (SELECT count(*) FROM of_apps) < enough AND l.endpoint_id NOT IN (SELECT o.endpoint_id FROM of_apps AS o)
        ORDER BY l.fresh_at LIMIT enough
    );
END
$$;

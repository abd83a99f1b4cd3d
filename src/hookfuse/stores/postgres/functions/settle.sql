-- name: settle
-- Ends, returns or gives back claims; returns the places of those that were settled, NULL: all of them. One whose token
-- is no longer that of the delivery changes nothing. What comes back untouched keeps its turn, and what has to wait goes
-- to the retries, which have a share of their own: behind all first tries that wait, it would be late twice. What would
-- go back to a deleted endpoint ends instead.
-- Most claims end alike: what they have in common comes once (`states` to `marks`), and `kinds` says which it is.
-- The bits of `marks`: 1 spent, 2 its worker died, 4 healthy, 8 unhealthy, 16 slow, 32 asked for by someone.
DROP FUNCTION IF EXISTS hookfuse.settle;
CREATE FUNCTION hookfuse.settle(
    states text[], reasons text[], troubles text[], details text[], waits_ms bigint[], marks integer[],
    message_ids text[], endpoint_ids text[], tokens bigint[], kinds integer[], delays_ms bigint[], attempt_ids text[],
    begins_ms bigint[], statuses integer[], latencies_ms bigint[], responses bytea[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
    fifo_lanes text[];
    deleted_lanes text[];
    done integer[];
BEGIN
    -- In order, so that two of them cannot wait for one another.
    WITH locked AS MATERIALIZED (
        SELECT endpoint_id, fifo, stop FROM hookfuse.lanes
        WHERE endpoint_id = ANY (endpoint_ids) ORDER BY endpoint_id FOR UPDATE
    )
    SELECT coalesce(array_agg(endpoint_id) FILTER (WHERE fifo), '{}'),
           coalesce(array_agg(endpoint_id) FILTER (WHERE stop & 8 <> 0), '{}')
    INTO fifo_lanes, deleted_lanes FROM locked;
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
            SELECT x.*, marks[kind] AS mark, endpoint_id = ANY (fifo_lanes) AS fifo,
                   CASE WHEN ends_with_lane THEN 'cancelled' ELSE states[kind] END AS state,
                   CASE WHEN ends_with_lane THEN 'endpoint_deleted' ELSE reasons[kind] END AS reason,
                   CASE WHEN comes_back AND NOT ends_with_lane THEN now_ms + delay_ms END AS due_ms,
                   CASE WHEN attempt_id IS NULL THEN 0 ELSE 1 END AS made
            FROM (
                SELECT *, states[kind] = 'pending' AS comes_back,
                       states[kind] = 'pending' AND endpoint_id = ANY (deleted_lanes) AS ends_with_lane
                FROM unnest(
                    message_ids, endpoint_ids, tokens, kinds, delays_ms, attempt_ids, begins_ms, statuses, latencies_ms,
                    responses
                ) WITH ORDINALITY AS x (
                    message_id, endpoint_id, token, kind, delay_ms, attempt_id, at_ms, status, latency_ms, response, n
                )
            ) AS x
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

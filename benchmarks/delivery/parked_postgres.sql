-- :n endpoints with :each deliveries behind a blocked lane. Instants far ahead block; the past is due.
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
SELECT 'ep_p' || lpad(i::text, 8, '0'), 'app_p', 'https://example.com/', 32, 15000, 1, 1
FROM generate_series(1, :n) AS number (i);

INSERT INTO hookfuse.lanes (endpoint_id, app_id, cap, width, fresh_ms, blocked_ms)
SELECT id, app_id, cap, cap, 1, 9000000000000 FROM hookfuse.endpoints WHERE app_id = 'app_p';

INSERT INTO hookfuse.messages (id, app_id, event_type, created_ms, payload)
SELECT 'msg_p' || lpad(i::text, 12, '0'), 'app_p', 'parked', 1, '\x7b7d'::bytea
FROM generate_series(1, :n * :each) AS number (i);

INSERT INTO hookfuse.deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
SELECT 'msg_p' || lpad(i::text, 12, '0'), 'ep_p' || lpad((i % :n + 1)::text, 8, '0'), 'app_p', 0, i, i, i, 1
FROM generate_series(1, :n * :each) AS number (i);

-- :n endpoints with :each deliveries behind a blocked lane. Instants far ahead block; the past is due.
INSERT INTO endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :n)
SELECT printf('ep_p%08d', i), 'app_p', 'https://example.com/', 32, 15000, 1, 1 FROM number;

INSERT INTO lanes (endpoint_id, app_id, cap, width, fresh_ms, blocked_ms)
SELECT id, app_id, cap, cap, 1, 9000000000000 FROM endpoints WHERE app_id = 'app_p';

INSERT INTO messages (id, app_id, event_type, created_ms, payload)
WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :n * :each)
SELECT printf('msg_p%012d', i), 'app_p', 'parked', 1, x'7b7d' FROM number;

INSERT INTO deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :n * :each)
SELECT printf('msg_p%012d', i), printf('ep_p%08d', i % :n + 1), 'app_p', 0, i, i, i, 1 FROM number;

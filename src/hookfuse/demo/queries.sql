-- name: create_database
-- A name cannot be a parameter of this statement. Ours has only letters, digits and underscores.
CREATE DATABASE "{name}" TEMPLATE template0;

-- name: drop_database
DROP DATABASE IF EXISTS "{name}" WITH (FORCE);

-- name: claim_name
-- Held as long as the session, which ends with the process, however that ends. False: another demo holds it.
SELECT pg_try_advisory_lock(hashtext($1));

-- name: unused_databases
-- Those that a demo made and that nobody is connected to.
SELECT datname
FROM pg_database
WHERE datname ~ '^hookfuse_demo_[0-9a-f]{12}$'
  AND pg_has_role(datdba, 'MEMBER')
  AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pg_stat_activity.datid = pg_database.oid);

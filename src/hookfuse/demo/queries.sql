-- name: create_database
-- A name cannot be a parameter of this statement. Ours has only letters, digits and underscores.
CREATE DATABASE "{name}" TEMPLATE template0;

-- name: drop_database
DROP DATABASE IF EXISTS "{name}" WITH (FORCE);

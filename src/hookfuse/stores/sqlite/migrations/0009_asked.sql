-- Whether the next attempt of a delivery was asked for by someone. It outlives what else may happen to the delivery
-- before it is made, such as a breaker that makes it wait.

ALTER TABLE deliveries ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;

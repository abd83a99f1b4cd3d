-- Whose turn it is, where more lanes are due than a claim looks at. Lanes that are served as they are rung are not in it.
CREATE INDEX lanes_fresh_app ON hookfuse.lanes (failing, app_id, fresh_at)
    WHERE stop = 0 AND room AND fresh_ms IS NOT NULL;
CREATE INDEX lanes_late_app ON hookfuse.lanes (failing, app_id, late_at)
    WHERE stop = 0 AND room AND late_ms IS NOT NULL;

-- Whose turn it is, where more lanes are due than a claim looks at.
CREATE INDEX lanes_fresh_app ON lanes (failing, app_id, fresh_at)
    WHERE stop = 0 AND in_flight < width AND fresh_ms IS NOT NULL;
CREATE INDEX lanes_late_app ON lanes (failing, app_id, late_at)
    WHERE stop = 0 AND in_flight < width AND late_ms IS NOT NULL;

-- pause_endpoint
WITH changed AS (
    UPDATE endpoint SET paused = $3, config_version = config_version + 1, update_time = now()
    WHERE account_number = $1 AND endpoint_id = $2 AND delete_time IS NULL AND paused <> $3
    RETURNING account_number
), bumped AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_number = (SELECT account_number FROM changed)
)
SELECT count(*) AS changed FROM changed

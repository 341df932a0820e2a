-- delete_endpoint
-- The row stays, so its number is never used again and old deliveries can be shown; its secrets go at once.
WITH changed AS (
    UPDATE endpoint SET delete_time = now(), generation = generation + 1, config_version = config_version + 1,
        update_time = now()
    WHERE account_number = $1 AND endpoint_id = $2 AND delete_time IS NULL
    RETURNING account_number, endpoint_number
), bumped AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_number = (SELECT account_number FROM changed)
), forgotten AS (
    DELETE FROM endpoint_secret WHERE endpoint_number = (SELECT endpoint_number FROM changed)
)
SELECT count(*) AS changed FROM changed

-- enable_endpoint
-- Disabling by request raises the generation, which ends the older deliveries, unless they are to be kept ($4); enabling begins
-- a new failure run. An endpoint that is in the state already isn't touched, unless deliveries were kept and shall end now.
WITH changed AS (
    UPDATE endpoint e SET state = CASE WHEN $3::boolean THEN 'enabled' ELSE 'disabled' END,
        disabled_reason = CASE WHEN NOT $3 THEN 'requested' END,
        generation = generation + CASE WHEN $3 OR $4 THEN 0 ELSE 1 END,
        config_version = config_version + 1, update_time = now()
    WHERE account_number = $1 AND endpoint_id = $2 AND delete_time IS NULL
        AND ((state = 'enabled') <> $3 OR (NOT $3 AND NOT $4 AND EXISTS (SELECT FROM queue q
            WHERE q.shard = e.shard AND q.endpoint_number = e.endpoint_number AND q.generation = e.generation)))
    RETURNING account_number, shard, endpoint_number
), bumped AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_number = (SELECT account_number FROM changed)
), forgiven AS (
    UPDATE endpoint_state SET failing_since_time = NULL, failures = 0
    FROM changed
    WHERE $3 AND endpoint_state.shard = changed.shard AND endpoint_state.endpoint_number = changed.endpoint_number
)
SELECT count(*) AS changed FROM changed

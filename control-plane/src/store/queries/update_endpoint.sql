-- update_endpoint
-- A compare-and-set on the version that was read: the new settings were checked as a whole against that one.
WITH changed AS (
    UPDATE endpoint SET url = $3, event_types = $4, header_names = $5, header_values = $6, timeout_ms = $7,
        max_in_flight = $8, schedule_waits_ms = $9, schedule_overload_wait_ms = $10, permanent_statuses = $11,
        display_name = $12, rate_per_second = $13, burst = $14, config_version = config_version + 1, update_time = now()
    WHERE endpoint_number = $1 AND config_version = $2 AND delete_time IS NULL
    RETURNING endpoint_number, account_number, shard, endpoint_id, url, event_types, header_names, header_values,
        timeout_ms, max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, state,
        disabled_reason, paused, display_name, rate_per_second, burst, signature_scheme, generation, config_version, create_time, update_time
), bumped AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_number = (SELECT account_number FROM changed)
)
SELECT endpoint_number, account_number, shard, endpoint_id, url, event_types, header_names, header_values, timeout_ms,
    max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, state, disabled_reason, paused,
    display_name, rate_per_second, burst, signature_scheme, generation, config_version, create_time, update_time
FROM changed

-- create_endpoint
-- The account's row is locked first, so an account that is being deleted gets no endpoint.
WITH owner AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_id = $1 AND delete_time IS NULL
    RETURNING account_number, shard
), made AS (
    INSERT INTO endpoint (account_number, shard, endpoint_id, url, event_types, header_names, header_values, timeout_ms,
        max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, display_name, rate_per_second, burst,
        paused, signature_scheme, state)
    SELECT account_number, shard, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 'enabled' FROM owner
    ON CONFLICT (account_number, endpoint_id) WHERE delete_time IS NULL DO NOTHING
    RETURNING endpoint_number, account_number, shard, endpoint_id, url, event_types, header_names, header_values,
        timeout_ms, max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, state,
        disabled_reason, paused, display_name, rate_per_second, burst, signature_scheme, generation, config_version, create_time, update_time
), kept AS (
    INSERT INTO endpoint_secret (endpoint_number, key_id, nonce, ciphertext)
    SELECT endpoint_number, $17, $18, $19 FROM made
)
SELECT endpoint_number, account_number, shard, endpoint_id, url, event_types, header_names, header_values, timeout_ms,
    max_in_flight, schedule_waits_ms, schedule_overload_wait_ms, permanent_statuses, state, disabled_reason, paused,
    display_name, rate_per_second, burst, signature_scheme, generation, config_version, create_time, update_time
FROM made

-- load_config
-- One statement, so one snapshot: the version belongs to exactly these endpoints and secrets.
SELECT account.account_number, account.shard AS account_shard, account.account_id,
    account.config_version AS account_config_version, account.paused AS account_paused,
    account.display_name AS account_display_name, account.rate_per_second AS account_rate_per_second,
    account.burst AS account_burst, account.weight, account.throttle_scope,
    account.max_in_flight AS account_max_in_flight, account.schedule_waits_ms AS account_schedule_waits_ms,
    account.schedule_overload_wait_ms AS account_schedule_overload_wait_ms,
    endpoint.endpoint_number, endpoint.endpoint_id, endpoint.url, endpoint.event_types, endpoint.header_names,
    endpoint.header_values, endpoint.timeout_ms, endpoint.max_in_flight, endpoint.schedule_waits_ms,
    endpoint.schedule_overload_wait_ms, endpoint.permanent_statuses, endpoint.state, endpoint.disabled_reason,
    endpoint.rate_per_second, endpoint.burst, endpoint.paused, endpoint.display_name, endpoint.signature_scheme,
    endpoint.generation, endpoint.config_version, secret.key_ids, secret.nonces, secret.ciphertexts, secret.expire_times
FROM account
LEFT JOIN endpoint ON endpoint.account_number = account.account_number AND endpoint.delete_time IS NULL
LEFT JOIN LATERAL (
    SELECT array_agg(key_id ORDER BY secret_number DESC) AS key_ids,
        array_agg(nonce ORDER BY secret_number DESC) AS nonces,
        array_agg(ciphertext ORDER BY secret_number DESC) AS ciphertexts,
        array_agg(expire_time ORDER BY secret_number DESC) AS expire_times
    FROM endpoint_secret
    WHERE endpoint_secret.endpoint_number = endpoint.endpoint_number AND (expire_time IS NULL OR expire_time > now())
) AS secret ON true
WHERE account.delete_time IS NULL AND (account.account_id = $1 OR account.account_number = $2
    OR account.account_number = (SELECT owned.account_number FROM endpoint AS owned WHERE owned.endpoint_number = $3))
ORDER BY endpoint.endpoint_number

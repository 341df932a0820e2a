-- account_use
SELECT account_number, config_version,
    EXISTS (
        SELECT FROM endpoint WHERE endpoint.account_number = account.account_number AND endpoint.delete_time IS NULL
    ) OR EXISTS (
        SELECT FROM endpoint
        CROSS JOIN LATERAL (
            SELECT FROM queue
            WHERE queue.shard = endpoint.shard AND queue.endpoint_number = endpoint.endpoint_number
            LIMIT 1
        ) AS unfinished
        WHERE endpoint.account_number = account.account_number
    ) AS in_use
FROM account
WHERE account_id = $1 AND delete_time IS NULL

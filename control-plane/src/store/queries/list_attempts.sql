-- list_attempts
-- Of one delivery or of all deliveries of an event: the ids from $3 to $4. Late reports stand beside their numbers.
SELECT delivery_id, number, verdict, outcome, reached, status, response_body, response_body_truncated, retry_after, detail,
    start_time, duration_us, wait_ms, agent_id, dns_us, connect_us, tls_us, first_byte_us, remote_address, rule,
    false AS late
FROM attempt
WHERE shard = $1 AND account_number = $2 AND delivery_id BETWEEN $3 AND $4
UNION ALL
SELECT delivery_id, number, verdict, outcome, reached, status, response_body, response_body_truncated, retry_after, detail,
    start_time, duration_us, NULL, agent_id, dns_us, connect_us, tls_us, first_byte_us, remote_address, rule,
    true
FROM late_attempt
WHERE shard = $1 AND account_number = $2 AND delivery_id BETWEEN $3 AND $4
ORDER BY delivery_id, number, late, start_time
LIMIT $5

-- get_delivery
-- A delivery stands in exactly one of the three places; one statement sees it wherever it is.
SELECT found.delivery_id, found.account_number, found.endpoint_number, endpoint.endpoint_id, found.state, found.reason,
    found.attempts, found.due_time, found.expire_time, found.end_time, found.lease_id
FROM (
    SELECT delivery_id, account_number, endpoint_number, CASE WHEN lease_id = 0 THEN 'pending' ELSE 'leased' END AS state,
        NULL::text AS reason, attempts, due_time, expire_time, NULL::timestamptz AS end_time, lease_id
    FROM queue WHERE shard = $1 AND delivery_id = $3 AND account_number = $2
    UNION ALL
    SELECT delivery_id, account_number, endpoint_number, 'delivered', NULL, number, NULL, NULL, settle_time, 0
    FROM attempt
    WHERE shard = $1 AND delivery_id = $3 AND account_number = $2 AND terminal AND verdict = 'succeeded'
    UNION ALL
    SELECT delivery_id, account_number, endpoint_number, state, reason, attempts, NULL, NULL, end_time, 0
    FROM ended WHERE shard = $1 AND delivery_id = $3 AND account_number = $2
) AS found
JOIN endpoint ON endpoint.endpoint_number = found.endpoint_number

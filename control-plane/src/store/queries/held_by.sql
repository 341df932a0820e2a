-- held_by
-- The attempt whose answer asked for the hold that ends last, of an endpoint's and its account's.
SELECT hold_delivery_id, hold_attempt
FROM (
    SELECT hold_until_time, hold_delivery_id, hold_attempt FROM endpoint_state WHERE shard = $1 AND endpoint_number = $2
    UNION ALL
    SELECT hold_until_time, hold_delivery_id, hold_attempt FROM account_state WHERE shard = $1 AND account_number = $3
) hold
WHERE hold_until_time > now() AND hold_delivery_id IS NOT NULL
ORDER BY hold_until_time DESC
LIMIT 1

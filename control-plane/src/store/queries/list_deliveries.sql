-- list_deliveries
-- Newest first below $3. `queue` has no index by account, so of the unfinished ones at most $8 rows of the shard are
-- looked at; when that many were found the page ends at the last of them (`floor`) and the next one goes on there.
WITH looked AS (
    SELECT delivery_id, account_number, endpoint_number, lease_id, attempts, due_time, expire_time
    FROM queue
    WHERE shard = $1 AND delivery_id < $3 AND delivery_id > $4 AND $9::boolean
    ORDER BY delivery_id DESC
    LIMIT $8::bigint
), floor AS (
    SELECT CASE WHEN (SELECT count(*) FROM looked) = $8 THEN (SELECT delivery_id FROM looked ORDER BY delivery_id LIMIT 1)
        END AS delivery_id
), page AS (
    (
        SELECT delivery_id, account_number, endpoint_number, CASE WHEN lease_id = 0 THEN 'pending' ELSE 'leased' END AS state,
            NULL::text AS reason, attempts, due_time, expire_time, NULL::timestamptz AS end_time, lease_id
        FROM looked
        WHERE account_number = $2 AND ($5::bigint[] IS NULL OR endpoint_number = ANY ($5))
            AND CASE WHEN lease_id = 0 THEN 'pending' ELSE 'leased' END = ANY ($6::text[])
        ORDER BY delivery_id DESC
        LIMIT $7::bigint
    )
    UNION ALL
    (
        SELECT delivery_id, account_number, endpoint_number, 'delivered', NULL, number, NULL, NULL, settle_time, 0
        FROM attempt
        WHERE shard = $1 AND account_number = $2 AND delivery_id < $3 AND delivery_id > $4
            AND terminal AND verdict = 'succeeded' AND 'delivered' = ANY ($6::text[])
            AND ($5::bigint[] IS NULL OR endpoint_number = ANY ($5))
        ORDER BY delivery_id DESC
        LIMIT $7::bigint
    )
    UNION ALL
    (
        SELECT delivery_id, account_number, endpoint_number, state, reason, attempts, NULL, NULL, end_time, 0
        FROM ended
        WHERE shard = $1 AND account_number = $2 AND delivery_id < $3 AND delivery_id > $4 AND state = ANY ($6::text[])
            AND ($5::bigint[] IS NULL OR endpoint_number = ANY ($5))
        ORDER BY delivery_id DESC
        LIMIT $7::bigint
    )
)
SELECT floor.delivery_id AS floor, found.delivery_id, found.account_number, found.endpoint_number, endpoint.endpoint_id,
    found.state, found.reason, found.attempts, found.due_time, found.expire_time, found.end_time, found.lease_id
FROM floor
LEFT JOIN (
    SELECT page.* FROM page, floor
    WHERE floor.delivery_id IS NULL OR page.delivery_id >= floor.delivery_id
    ORDER BY page.delivery_id DESC
    LIMIT $7::bigint
) AS found ON true
LEFT JOIN endpoint ON endpoint.endpoint_number = found.endpoint_number
ORDER BY found.delivery_id DESC NULLS LAST

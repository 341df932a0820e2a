-- backlog
-- At most $4 unfinished deliveries of an account, or of some of its endpoints, in classes that wait for the same reason. A row
-- is too slow when, in the order in which they expire, more are before it than its limits let start until then.
WITH looked AS MATERIALIZED (
    SELECT q.endpoint_number, e.endpoint_id, e.rate_per_second, e.burst, q.lease_id <> 0 AS leased, q.attempts = 0 AS first,
        q.due_time <= now() AS due, q.due_time, q.expire_time, extract(epoch FROM q.expire_time - now()) AS seconds
    FROM endpoint e
    JOIN queue q ON q.shard = $1 AND q.endpoint_number = e.endpoint_number
    WHERE e.account_number = $2 AND ($3::bigint[] IS NULL OR e.endpoint_number = ANY ($3))
    LIMIT $4
), judged AS (
    SELECT l.*,
        NOT leased AND (
            row_number() OVER (PARTITION BY leased ORDER BY expire_time) > $5::float8 * seconds + $6
            OR row_number() OVER (PARTITION BY leased, endpoint_number ORDER BY expire_time) > rate_per_second * seconds + burst
        ) AS too_slow
    FROM looked l
)
SELECT endpoint_number, endpoint_id, leased, first, due, count(*) AS count, min(due_time) AS oldest_due_time,
    count(*) FILTER (WHERE too_slow) AS too_slow_count, now() AS database_now
FROM judged
GROUP BY endpoint_number, endpoint_id, leased, first, due
ORDER BY endpoint_number, leased, first, due

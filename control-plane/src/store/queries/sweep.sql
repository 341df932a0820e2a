-- sweep
-- A slow walk along the primary key of one shard. What is past its life ends; what is leased without a lease row is free
-- again, or ends if it was called off; what is due or of a past generation is named, so that the owner can see whether it
-- knows it. A row that somebody else holds or has changed is left for the next walk.
WITH page AS MATERIALIZED (
    SELECT q.shard, q.delivery_id, q.endpoint_number, q.due_time, q.lease_id,
        q.lease_id <> 0 AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.lease_id = q.lease_id) AS orphaned,
        e.endpoint_number IS NULL OR e.delete_time IS NOT NULL OR e.generation > q.generation AS past,
        CASE
            WHEN q.cancel_requested THEN 'cancelled'
            WHEN q.expire_time <= now() THEN 'expired'
        END AS state
    FROM queue q LEFT JOIN endpoint e ON e.endpoint_number = q.endpoint_number
    WHERE q.shard = $1 AND q.delivery_id > $2
    ORDER BY q.delivery_id LIMIT $3
), locked AS MATERIALIZED (
    SELECT q.shard, q.delivery_id, q.lease_id, p.state FROM page p
    JOIN queue q ON q.shard = p.shard AND q.delivery_id = p.delivery_id
    WHERE q.lease_id = p.lease_id AND (p.orphaned OR p.lease_id = 0 AND p.state IS NOT NULL)
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q SKIP LOCKED
), removed AS (
    DELETE FROM queue q USING locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND l.state IS NOT NULL
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts, l.state
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, state,
        CASE WHEN state = 'expired' THEN 'life_over' ELSE 'cancelled' END, attempts, now()
    FROM removed
), freed AS (
    UPDATE queue q SET lease_id = 0 FROM locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND l.lease_id <> 0
        AND l.state IS NULL
    RETURNING q.delivery_id
), seen AS (
    SELECT p.*, l.delivery_id IS NOT NULL AND p.lease_id <> 0 AS was_orphan,
        r.delivery_id IS NULL AND (f.delivery_id IS NOT NULL OR p.lease_id = 0) AS free
    FROM page p
    LEFT JOIN locked l USING (delivery_id)
    LEFT JOIN removed r USING (delivery_id)
    LEFT JOIN freed f USING (delivery_id)
)
SELECT delivery_id, endpoint_number, due_time, was_orphan AS orphaned, free AND due_time <= now() AS due, free AND past AS past
FROM seen ORDER BY delivery_id

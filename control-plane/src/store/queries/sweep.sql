-- sweep
-- A slow walk along the primary key of one shard. Ends what is past its life, frees what is leased without a lease row, and
-- names what is due, so that the owner can see whether it knows it. Leased rows are given time: their lease may be newer
-- than this snapshot's.
WITH page AS MATERIALIZED (
    SELECT q.* FROM queue q WHERE q.shard = $1 AND q.delivery_id > $2 ORDER BY q.delivery_id LIMIT $3
), orphan AS (
    UPDATE queue q SET lease_id = 0 FROM page p
    WHERE q.shard = p.shard AND q.delivery_id = p.delivery_id AND p.lease_id <> 0 AND q.lease_id = p.lease_id
        AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.lease_id = p.lease_id)
    RETURNING q.endpoint_number, q.due_time, q.delivery_id
), expired AS (
    DELETE FROM queue q USING page p
    WHERE q.shard = p.shard AND q.delivery_id = p.delivery_id AND q.lease_id = 0 AND p.lease_id = 0
        AND q.expire_time <= now()
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'expired', 'life_over', attempts, now() FROM expired
)
SELECT p.delivery_id, p.endpoint_number, p.due_time, o.delivery_id IS NOT NULL AS orphaned,
    p.lease_id = 0 AND p.due_time <= now() AND x.delivery_id IS NULL AS due,
    p.lease_id = 0 AND (e.endpoint_number IS NULL OR e.delete_time IS NOT NULL OR e.generation > p.generation) AS past
FROM page p LEFT JOIN endpoint e ON e.endpoint_number = p.endpoint_number LEFT JOIN orphan o USING (delivery_id) LEFT JOIN expired x USING (delivery_id)
ORDER BY p.delivery_id

-- end_expired
-- Ends those of these deliveries whose life is over and that no agent has.
WITH locked AS MATERIALIZED (
    SELECT q.shard, q.delivery_id FROM UNNEST($1::smallint[], $2::uuid[]) AS i (shard, delivery_id)
    JOIN queue q ON q.shard = i.shard AND q.delivery_id = i.delivery_id
    WHERE q.lease_id = 0 AND q.expire_time <= now()
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), removed AS (
    DELETE FROM queue q USING locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = 0 AND q.expire_time <= now()
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'expired', 'life_over', attempts, now() FROM removed
)
SELECT count(*) FROM removed

-- end_old_generations
-- Disable, delete and a 410 raise the endpoint's generation in one row; its older deliveries end here, in batches, in the
-- order of the lane's index. Those that are leased end with their answer.
WITH locked AS MATERIALIZED (
    SELECT q.shard, q.delivery_id,
        CASE
            WHEN e.delete_time IS NOT NULL THEN 'endpoint_deleted'
            WHEN e.disabled_reason = 'gone' THEN 'gone'
            ELSE 'endpoint_disabled'
        END AS reason
    FROM queue q JOIN endpoint e ON e.endpoint_number = q.endpoint_number
    WHERE q.shard = $1 AND q.endpoint_number = $2 AND q.lease_id = 0
        AND (q.generation < e.generation OR e.delete_time IS NOT NULL)
    ORDER BY q.due_time, q.delivery_id LIMIT $3
    FOR UPDATE OF q SKIP LOCKED
), removed AS (
    DELETE FROM queue q USING locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = 0
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts, l.reason
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'cancelled', reason, attempts, now() FROM removed
)
SELECT count(*) FROM removed

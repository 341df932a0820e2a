-- cancel_deliveries
-- Those that no agent has end here; those in flight are marked and end with their answer. A row that was leased or
-- returned while this statement waited for its lock is neither: `missed` counts them and the caller repeats.
WITH locked AS (
    SELECT shard, delivery_id FROM queue
    WHERE shard = $1 AND delivery_id BETWEEN $3 AND $4 AND account_number = $2
    ORDER BY delivery_id
    FOR UPDATE
), removed AS (
    DELETE FROM queue USING locked
    WHERE queue.shard = locked.shard AND queue.delivery_id = locked.delivery_id AND queue.lease_id = 0
    RETURNING queue.shard, queue.delivery_id, queue.account_number, queue.endpoint_number, queue.attempts
), marked AS (
    UPDATE queue SET cancel_requested = true FROM locked
    WHERE queue.shard = locked.shard AND queue.delivery_id = locked.delivery_id AND queue.lease_id <> 0
    RETURNING queue.delivery_id, queue.lease_id
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'cancelled', 'cancelled', attempts, now() FROM removed
)
SELECT (SELECT count(*) FROM removed) AS removed,
    (SELECT coalesce(array_agg(delivery_id ORDER BY delivery_id), '{}') FROM marked) AS marked,
    (SELECT coalesce(array_agg(lease_id ORDER BY delivery_id), '{}') FROM marked) AS marked_leases,
    (SELECT count(*) FROM locked) - (SELECT count(*) FROM removed) - (SELECT count(*) FROM marked) AS missed

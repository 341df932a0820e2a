-- return
-- Frees deliveries that were not attempted: nothing but the lease changes. One that was called off meanwhile ends here.
WITH input AS MATERIALIZED (
    SELECT DISTINCT * FROM UNNEST($1::smallint[], $2::uuid[], $3::bigint[]) AS i (shard, delivery_id, lease_id)
), locked AS MATERIALIZED (
    SELECT q.* FROM input i
    JOIN queue q ON q.shard = i.shard AND q.delivery_id = i.delivery_id
    WHERE q.lease_id = i.lease_id
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), removed AS (
    DELETE FROM queue q USING locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND l.cancel_requested
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'cancelled', 'cancelled', attempts, now() FROM removed
), freed AS (
    UPDATE queue q SET lease_id = 0 FROM locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND NOT l.cancel_requested
    RETURNING q.*
), finished AS (
    DELETE FROM lease WHERE lease_id = ANY ($4::bigint[])
)
SELECT * FROM freed

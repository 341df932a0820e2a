-- return
-- Frees deliveries that were not attempted: nothing but the lease changes. One that was called off meanwhile ends here. In a
-- shard that is another's, its owner learns of it by an arrival.
WITH input AS MATERIALIZED (
    SELECT DISTINCT * FROM UNNEST($1::smallint[], $2::uuid[], $3::bigint[]) AS i (shard, delivery_id, lease_id)
), owned AS MATERIALIZED (
    SELECT s.shard FROM shard s WHERE s.owner = $5 AND s.shard = ANY ($1::smallint[])
    ORDER BY s.shard
    FOR SHARE OF s
), locked AS MATERIALIZED (
    SELECT q.*, EXISTS (SELECT 1 FROM owned WHERE owned.shard = q.shard) AS ours FROM input i
    JOIN queue q ON q.shard = i.shard AND q.delivery_id = i.delivery_id
    WHERE q.lease_id = i.lease_id
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), removed AS (
    DELETE FROM queue q USING locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND q.cancel_requested
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'cancelled', 'cancelled', attempts, now() FROM removed
), freed AS (
    UPDATE queue q SET lease_id = 0 FROM locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = l.lease_id AND NOT q.cancel_requested
    RETURNING q.*, l.lease_id AS returned_lease_id, l.ours
), announced AS (
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT shard, endpoint_number, min(due_time), count(*) FROM freed WHERE NOT ours GROUP BY shard, endpoint_number
), leftover AS MATERIALIZED (
    SELECT lease_id FROM lease WHERE lease_id = ANY ($4::bigint[]) FOR UPDATE SKIP LOCKED
), finished AS (
    DELETE FROM lease l USING leftover WHERE l.lease_id = leftover.lease_id
)
SELECT * FROM freed

-- claim
-- Leases the rows that are still as they were read, due, and of an endpoint's present generation. The owner's epochs are
-- held until the commit; the guards stand again at the UPDATE, so a row that changed after the snapshot is left alone. Sets are
-- looked up as values, not joined, for the reason that `emit` gives; and `due_time` is compared as a value, or the lane's index
-- looks as good as the primary key and is read as far as anything is due, for each row.
WITH owned AS MATERIALIZED (
    SELECT s.shard FROM shard s
    JOIN UNNEST($1::smallint[], $2::bigint[]) AS mine (shard, epoch) ON mine.shard = s.shard
    WHERE s.owner = $3 AND s.epoch = mine.epoch
    ORDER BY s.shard
    FOR SHARE OF s
), locked AS MATERIALIZED (
    SELECT q.shard, q.delivery_id, w.attempts, w.generation
    FROM UNNEST($4::smallint[], $5::uuid[], $6::int[], $7::int[]) AS w (shard, delivery_id, attempts, generation)
    JOIN queue q ON q.shard = w.shard AND q.delivery_id = w.delivery_id
    WHERE q.lease_id = 0 AND q.attempts = w.attempts AND q.generation = w.generation AND (q.due_time <= now()) IS TRUE
        AND q.expire_time > now() AND NOT q.cancel_requested
        AND (w.shard IN (SELECT shard FROM owned)) IS TRUE
        AND q.generation = (SELECT CASE WHEN e.delete_time IS NULL THEN e.generation END FROM endpoint e
            WHERE e.endpoint_number = q.endpoint_number)
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q SKIP LOCKED
), claimed AS (
    UPDATE queue q SET lease_id = $8 FROM locked l
    WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id AND q.lease_id = 0 AND q.attempts = l.attempts
        AND q.generation = l.generation AND (q.due_time <= now()) IS TRUE AND q.expire_time > now() AND NOT q.cancel_requested
    RETURNING q.*
), leased AS (
    INSERT INTO lease (lease_id, incarnation, expire_time, limit_time, replica_id, agent_id, shards, delivery_ids)
    SELECT $8, $9, least(t.now + make_interval(secs => $10 / 1000.0), t.now + make_interval(secs => $11 / 1000.0)),
        t.now + make_interval(secs => $11 / 1000.0), $3, $12, c.shards, c.ids
    FROM (SELECT now() AS now) t
    CROSS JOIN (SELECT array_agg(DISTINCT shard) AS shards, array_agg(delivery_id) AS ids FROM claimed) c
    WHERE c.ids IS NOT NULL
)
SELECT now() AS database_now, (SELECT count(*) FROM owned) AS owned_shards, c.*
FROM (SELECT 1) one LEFT JOIN claimed c ON true

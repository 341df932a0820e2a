-- lane_heads
-- Jumps from lane to lane on the index: the next lane begins behind the last row of the one before.
WITH RECURSIVE head AS (
    SELECT s.shard, first.endpoint_number, first.due_time
    FROM UNNEST($1::smallint[]) AS s (shard)
    CROSS JOIN LATERAL (
        SELECT q.endpoint_number, q.due_time FROM queue q WHERE q.shard = s.shard
        ORDER BY q.endpoint_number, q.due_time, q.delivery_id LIMIT 1
    ) first
    UNION ALL
    SELECT head.shard, next.endpoint_number, next.due_time
    FROM head
    CROSS JOIN LATERAL (
        SELECT q.endpoint_number, q.due_time FROM queue q
        WHERE q.shard = head.shard AND q.endpoint_number > head.endpoint_number
        ORDER BY q.endpoint_number, q.due_time, q.delivery_id LIMIT 1
    ) next
)
SELECT endpoint_number, due_time FROM head

-- list_events
-- Newest first below $3. With a type, at most $6 events of the account are looked at; `floor` is the last of them when
-- that many were found, and the next page goes on there.
WITH looked AS (
    SELECT event_id, type, content_type, idempotency_key, payload_bytes, payload_hash, delivery_count, deliver_time,
        create_time, label_keys, label_values
    FROM event
    WHERE shard = $1 AND account_number = $2 AND event_id < $3
    ORDER BY event_id DESC
    LIMIT CASE WHEN $4::text IS NULL THEN $5::bigint ELSE $6::bigint END
), floor AS (
    SELECT CASE WHEN $4 IS NOT NULL AND (SELECT count(*) FROM looked) = $6
        THEN (SELECT event_id FROM looked ORDER BY event_id LIMIT 1) END AS event_id
)
SELECT floor.event_id AS floor, found.event_id, found.type, found.content_type, found.idempotency_key, found.payload_bytes,
    found.payload_hash, found.delivery_count, found.deliver_time, found.create_time, found.label_keys, found.label_values
FROM floor
LEFT JOIN (
    SELECT * FROM looked WHERE $4 IS NULL OR type = $4 ORDER BY event_id DESC LIMIT $5
) AS found ON true
ORDER BY found.event_id DESC NULLS LAST

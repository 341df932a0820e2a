-- replay
-- One more delivery of the event: the next ordinal, a fresh life as long as the first. The event's row gives the
-- ordinal, so two replays at once get two.
WITH target AS (
    SELECT endpoint_number, generation FROM endpoint
    WHERE endpoint_number = $4 AND delete_time IS NULL AND state = 'enabled'
), numbered AS (
    UPDATE event SET delivery_count = delivery_count + 1 FROM target
    WHERE event.shard = $1 AND event.event_id = $3 AND event.account_number = $2 AND event.delivery_count < 65535
    RETURNING event.delivery_count AS ordinal, event.expire_time - event.deliver_time AS life, target.endpoint_number,
        target.generation
), made AS (
    SELECT encode(substring(uuid_send($3) FROM 1 FOR 14) || substring(int4send(ordinal) FROM 3 FOR 2), 'hex')::uuid
            AS delivery_id,
        endpoint_number, generation, now() AS due_time, now() + life AS expire_time
    FROM numbered
), queued AS (
    INSERT INTO queue (shard, delivery_id, account_number, endpoint_number, generation, due_time, expire_time, attempts,
        step, throttles, losses, lone_losses, stale)
    SELECT $1, delivery_id, $2, endpoint_number, generation, due_time, expire_time, 0, 0, 0, 0, 0, 0 FROM made
), noted AS (
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT $1, endpoint_number, due_time, 1 FROM made
)
SELECT (SELECT delivery_id FROM made) AS delivery_id,
    (SELECT state FROM endpoint WHERE endpoint_number = $4 AND delete_time IS NULL) AS endpoint_state

-- get_event
SELECT event.event_id, event.type, event.content_type, event.idempotency_key, event.payload_bytes, event.payload_hash,
    event.delivery_count, event.deliver_time, event.create_time, event.label_keys, event.label_values, payload.body
FROM event
LEFT JOIN payload ON $4 AND payload.shard = event.shard AND payload.event_id = event.event_id
WHERE event.shard = $1 AND event.event_id = $3 AND event.account_number = $2

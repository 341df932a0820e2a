-- emit
-- Events, payloads, keys, deliveries and leases of many calls at once. A call is stored only if nobody holds its key, the
-- account's configuration is the one that was matched, and its key is new; its deliveries only if its event is. A delivery
-- is born leased only in a shard that is still ours; one in another's shard is announced to its owner.
--
-- Sets are looked up with IN, and as a value: the plan is made without knowing how many rows come, and a join of what looks
-- like one row to what looks like two would compare each with each. Nor may a partial index fit a lookup by number: while
-- the table is small it looks as good as the primary key, and is read whole. Payloads are kept in no set.
WITH owned AS MATERIALIZED (
    SELECT s.shard FROM shard s
    JOIN UNNEST($17::smallint[], $18::bigint[]) AS mine (shard, epoch) ON mine.shard = s.shard
    WHERE s.owner = $19 AND s.epoch = mine.epoch
    ORDER BY s.shard
    FOR SHARE OF s
), label AS MATERIALIZED (
    SELECT position, array_agg(key ORDER BY n) AS keys, array_agg(value ORDER BY n) AS values
    FROM UNNEST($14::int[], $15::text[], $16::text[]) WITH ORDINALITY AS l (position, key, value, n) GROUP BY position
), checked AS MATERIALIZED (
    SELECT i.*, greatest(coalesce(i.deliver_time, now()), now()) AS due_time,
        i.key IS NULL OR pg_try_advisory_xact_lock(hashtextextended(
            'posthaste-key:' || i.account_number || ':' || encode(i.key, 'hex'), 0)) AS key_free,
        coalesce((SELECT a.delete_time IS NULL AND a.config_version = i.config_version FROM account a
            WHERE a.account_number = i.account_number), false) AS config_current
    FROM UNNEST($1::int[], $2::smallint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $31::int[],
        $9::bytea[], $10::bytea[], $11::bytea[], $12::timestamptz[], $13::bigint[], $30::bytea[], $32::int[])
        AS i (position, shard, event_id, account_number, config_version, type, content_type, payload_bytes, payload_hash,
            key, fingerprint, deliver_time, life_ms, trace_context, delivery_count)
), fit AS NOT MATERIALIZED (
    SELECT *, due_time + make_interval(secs => life_ms / 1000.0) AS expire_time FROM checked
    WHERE key_free AND config_current
), keyed AS (
    INSERT INTO idempotency (shard, account_number, key, event_id, fingerprint, create_time)
    SELECT shard, account_number, key, event_id, fingerprint, now() FROM fit WHERE key IS NOT NULL
    ORDER BY shard, account_number, key, position
    ON CONFLICT DO NOTHING
    RETURNING event_id
), stored AS (
    INSERT INTO event (shard, event_id, account_number, type, content_type, idempotency_key, payload_bytes, payload_hash,
        delivery_count, deliver_time, expire_time, create_time, label_keys, label_values, trace_context)
    SELECT f.shard, f.event_id, f.account_number, f.type, f.content_type, f.key, f.payload_bytes, f.payload_hash,
        f.delivery_count, f.due_time, f.expire_time, now(), coalesce(l.keys, '{}'), coalesce(l.values, '{}'),
        f.trace_context
    FROM fit f
    LEFT JOIN label l USING (position)
    WHERE f.key IS NULL OR f.event_id IN (SELECT event_id FROM keyed)
    ORDER BY f.shard, f.event_id
    ON CONFLICT DO NOTHING
    RETURNING event_id
), bodies AS (
    INSERT INTO payload (shard, event_id, body)
    SELECT p.shard, p.event_id, p.body FROM UNNEST($2::smallint[], $3::uuid[], $8::bytea[]) AS p (shard, event_id, body)
    WHERE (p.event_id IN (SELECT event_id FROM stored)) IS TRUE
    ORDER BY p.shard, p.event_id
), queued AS (
    INSERT INTO queue (shard, delivery_id, account_number, endpoint_number, generation, due_time, expire_time, lease_id)
    SELECT f.shard, d.delivery_id, f.account_number, d.endpoint_number, d.generation, f.due_time, f.expire_time,
        CASE WHEN f.shard IN (SELECT shard FROM owned) THEN d.lease_id ELSE 0 END
    FROM UNNEST($20::int[], $21::uuid[], $22::bigint[], $23::int[], $24::bigint[])
        AS d (position, delivery_id, endpoint_number, generation, lease_id)
    JOIN fit f USING (position)
    WHERE (f.event_id IN (SELECT event_id FROM stored)) IS TRUE
    ORDER BY f.shard, d.delivery_id
    RETURNING shard, delivery_id, endpoint_number, due_time, lease_id
), leased AS (
    INSERT INTO lease (lease_id, incarnation, expire_time, limit_time, replica_id, agent_id, shards, delivery_ids)
    SELECT l.lease_id, l.incarnation, t.now + make_interval(secs => least(l.ttl_ms, l.limit_ms) / 1000.0),
        t.now + make_interval(secs => l.limit_ms / 1000.0), $19, l.agent_id, q.shards, q.ids
    FROM UNNEST($25::bigint[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[])
        AS l (lease_id, incarnation, agent_id, ttl_ms, limit_ms)
    JOIN (SELECT lease_id, array_agg(DISTINCT shard) AS shards, array_agg(delivery_id) AS ids
        FROM queued WHERE lease_id <> 0 GROUP BY lease_id) q USING (lease_id)
    CROSS JOIN (SELECT now() AS now) t
), announced AS (
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT q.shard, q.endpoint_number, min(q.due_time), count(*) FROM queued q
    WHERE (q.shard IN (SELECT shard FROM owned)) IS NOT TRUE
    GROUP BY q.shard, q.endpoint_number
)
SELECT c.key_free, c.config_current, now() AS database_now, c.due_time,
    c.event_id IN (SELECT event_id FROM stored) AS stored, c.shard IN (SELECT shard FROM owned) AS owned
FROM checked c
ORDER BY c.position

-- rescue
-- Ends leases that expired (or, with an agent's name, those of a process that is gone). Whatever of them is still leased
-- counts as lost: an attempt row, and due again after a wait that grows; after five losses suffered alone it is poison.
-- The owners learn of it by arrivals. Any replica may run this: the lease id is the guard. Leases of a replica that is
-- dead are left alone for a while, so that who takes its shards can give them a fresh ttl.
WITH due AS MATERIALIZED (
    SELECT lease_id FROM lease
    WHERE CASE
            WHEN $1::text IS NOT NULL THEN agent_id = $1 AND incarnation = $2
            WHEN expire_time > now() THEN false
            WHEN EXISTS (SELECT 1 FROM replica r WHERE r.replica_id = lease.replica_id AND r.expires_time > now()) THEN true
            ELSE expire_time <= now() - make_interval(secs => $6 / 1000.0)
        END
    ORDER BY lease_id LIMIT $3
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM lease l USING due d
    WHERE l.lease_id = d.lease_id AND ($1::text IS NOT NULL OR l.expire_time <= now())
    RETURNING l.lease_id, l.agent_id, l.create_time, l.delivery_ids
), item AS MATERIALIZED (
    SELECT g.lease_id, g.agent_id, g.create_time, cardinality(g.delivery_ids) = 1 AS alone, i.delivery_id,
        get_byte(uuid_send(i.delivery_id), 9)::smallint AS shard
    FROM gone g CROSS JOIN LATERAL UNNEST(g.delivery_ids) AS i (delivery_id)
), locked AS MATERIALIZED (
    SELECT q.*, i.agent_id, i.create_time, i.alone FROM item i
    JOIN queue q ON q.shard = i.shard AND q.delivery_id = i.delivery_id
    WHERE q.lease_id = i.lease_id
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), judged AS MATERIALIZED (
    SELECT l.*, t.now, l.lone_losses + l.alone::int AS lone, w.wait_ms,
        t.now + make_interval(secs => w.wait_ms / 1000.0) AS next_due_time,
        CASE
            WHEN l.cancel_requested THEN 'cancelled'
            WHEN e.endpoint_number IS NULL OR e.delete_time IS NOT NULL THEN 'endpoint_deleted'
            WHEN e.generation = l.generation THEN NULL
            WHEN e.disabled_reason = 'gone' THEN 'gone'
            ELSE 'endpoint_disabled'
        END AS called_off
    FROM locked l
    LEFT JOIN endpoint e ON e.endpoint_number = l.endpoint_number
    CROSS JOIN (SELECT now() AS now) t
    CROSS JOIN LATERAL (SELECT ($4::bigint[])[least(l.losses + 1, cardinality($4::bigint[]))] AS wait_ms) w
), fate AS MATERIALIZED (
    SELECT j.*,
        CASE
            WHEN called_off IS NOT NULL THEN 'cancelled'
            WHEN lone >= $5 THEN 'exhausted'
            WHEN next_due_time >= expire_time THEN 'expired'
        END AS state,
        CASE
            WHEN called_off IS NOT NULL THEN called_off
            WHEN lone >= $5 THEN 'poison'
            WHEN next_due_time >= expire_time THEN 'life_over'
        END AS reason
    FROM judged j
), removed AS (
    DELETE FROM queue q USING fate f
    WHERE q.shard = f.shard AND q.delivery_id = f.delivery_id AND q.lease_id = f.lease_id AND f.state IS NOT NULL
    RETURNING q.shard, q.delivery_id
), rescheduled AS (
    UPDATE queue q SET lease_id = 0, due_time = f.next_due_time, attempts = f.attempts + 1, losses = f.losses + 1,
        lone_losses = f.lone, stale = 0
    FROM fate f
    WHERE q.shard = f.shard AND q.delivery_id = f.delivery_id AND q.lease_id = f.lease_id AND f.state IS NULL
    RETURNING q.shard, q.delivery_id
), lost AS MATERIALIZED (
    SELECT * FROM removed UNION ALL SELECT * FROM rescheduled
), attempted AS (
    INSERT INTO attempt (shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict, outcome,
        start_time, duration_us, agent_id, wait_ms, terminal, settle_time)
    SELECT shard, delivery_id, attempts + 1, lease_id, account_number, endpoint_number, 'lost', 'lost', create_time,
        greatest(0, extract(epoch FROM now - create_time) * 1000000)::bigint, agent_id,
        CASE WHEN state IS NULL THEN wait_ms END, state IS NOT NULL, now
    FROM fate JOIN lost USING (shard, delivery_id) ORDER BY shard, delivery_id
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, state, reason, attempts + 1, now
    FROM fate JOIN removed USING (shard, delivery_id) ORDER BY shard, delivery_id
), announced AS (
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT shard, endpoint_number, min(next_due_time), count(*) FROM fate JOIN rescheduled USING (shard, delivery_id)
    GROUP BY shard, endpoint_number
)
SELECT (SELECT array_agg(lease_id) FROM gone) AS leases, (SELECT count(*) FROM lost) AS lost

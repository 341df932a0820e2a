-- classify
-- Reports whose lease was not the row's, seen with a fresh snapshot. Known by number and lease: the same report again.
-- Else it is late and kept; a late success ends an unfinished delivery, and `revoke` names the lease that it had.
WITH input AS MATERIALIZED (
    SELECT DISTINCT ON (shard, delivery_id, number, lease_id) *
    FROM UNNEST($1::int[], $2::smallint[], $3::uuid[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::text[],
        $9::int[], $10::bytea[], $11::boolean[], $12::bytea[], $13::text[], $14::timestamptz[], $15::bigint[], $16::text[],
        $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::text[], $22::text[])
        AS i (position, shard, delivery_id, lease_id, number, verdict, outcome, reached, status, response_body,
            response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
            dns_us, connect_us, tls_us, first_byte_us, remote_address, rule)
    ORDER BY shard, delivery_id, number, lease_id, position
), late AS MATERIALIZED (
    SELECT i.* FROM input i
    WHERE NOT EXISTS (SELECT 1 FROM attempt a WHERE a.shard = i.shard AND a.delivery_id = i.delivery_id
            AND a.number = i.number AND a.lease_id = i.lease_id AND a.verdict <> 'lost')
        AND NOT EXISTS (SELECT 1 FROM late_attempt a WHERE a.shard = i.shard AND a.delivery_id = i.delivery_id
            AND a.number = i.number AND a.lease_id = i.lease_id)
), named AS MATERIALIZED (
    SELECT l.*, coalesce(q.account_number, a.account_number, d.account_number) AS account_number,
        coalesce(q.endpoint_number, a.endpoint_number, d.endpoint_number) AS endpoint_number
    FROM late l
    LEFT JOIN queue q ON q.shard = l.shard AND q.delivery_id = l.delivery_id
    LEFT JOIN LATERAL (SELECT account_number, endpoint_number FROM attempt
        WHERE shard = l.shard AND delivery_id = l.delivery_id LIMIT 1) a ON true
    LEFT JOIN ended d ON d.shard = l.shard AND d.delivery_id = l.delivery_id
), kept AS (
    INSERT INTO late_attempt (shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict, outcome,
        reached, status, response_body, response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
        dns_us, connect_us, tls_us, first_byte_us, remote_address, rule, settle_time)
    SELECT shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict, outcome, reached, status,
        response_body, response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
        dns_us, connect_us, tls_us, first_byte_us, remote_address, rule, now()
    FROM named WHERE account_number IS NOT NULL ORDER BY shard, delivery_id
    ON CONFLICT DO NOTHING
), locked AS MATERIALIZED (
    SELECT q.* FROM queue q
    WHERE (q.shard, q.delivery_id) IN (SELECT shard, delivery_id FROM named WHERE verdict = 'succeeded')
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), removed AS (
    DELETE FROM queue q USING locked l WHERE q.shard = l.shard AND q.delivery_id = l.delivery_id
    RETURNING q.shard, q.delivery_id, q.account_number, q.endpoint_number, q.attempts, q.lease_id
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, 'delivered', 'late', attempts, now() FROM removed
)
SELECT n.position, r.delivery_id IS NOT NULL AS ended, r.lease_id
FROM named n LEFT JOIN removed r USING (shard, delivery_id)

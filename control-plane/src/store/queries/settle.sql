-- settle
-- Attempt rows and what follows them, for every report whose lease is still the row's. A row is locked in id order and
-- everything is decided from the locked version. A success is delivered whatever happened meanwhile; anything else ends as
-- cancelled when the delivery was called off, and as expired when its next attempt would fall behind its life. The same
-- report twice in one batch counts once. Sets are looked up with IN, as a value, for the reason that `emit` gives.
WITH report AS MATERIALIZED (
    SELECT i.*, row_number() OVER (PARTITION BY shard, delivery_id, lease_id, number ORDER BY position) = 1 AS first
    FROM UNNEST($1::int[], $2::smallint[], $3::uuid[], $4::bigint[], $5::int[],
        $6::text[], $7::text[], $8::text[], $9::int[], $10::bytea[], $11::boolean[], $12::bytea[], $13::text[],
        $14::timestamptz[], $15::bigint[], $16::text[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[],
        $21::text[], $22::text[], $23::text[], $24::text[], $25::bigint[], $26::int[], $27::int[],
        $28::int[], $29::int[], $30::int[], $31::text[], $32::bigint[], $33::boolean[])
        AS i (position, shard, delivery_id, lease_id, number, verdict, outcome, reached, status, response_body,
            response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
            dns_us, connect_us, tls_us, first_byte_us, remote_address, rule, end_state, end_reason, wait_ms,
            step, throttles, losses, lone_losses, stale, disable, hold_ms, holds_account)
), owned AS MATERIALIZED (
    SELECT s.shard FROM shard s
    JOIN UNNEST($34::smallint[], $35::bigint[]) AS mine (shard, epoch) ON mine.shard = s.shard
    WHERE s.owner = $36 AND s.epoch = mine.epoch
    ORDER BY s.shard
    FOR SHARE OF s
), input AS MATERIALIZED (
    SELECT r.* FROM report r WHERE r.first AND ($37 OR r.shard IN (SELECT shard FROM owned))
), locked AS MATERIALIZED (
    SELECT i.*, q.account_number, q.endpoint_number, q.generation, q.expire_time, q.cancel_requested
    FROM input i
    JOIN queue q ON q.shard = i.shard AND q.delivery_id = i.delivery_id
    WHERE q.lease_id = i.lease_id AND q.attempts = i.number - 1
    ORDER BY q.shard, q.delivery_id
    FOR UPDATE OF q
), judged AS NOT MATERIALIZED (
    SELECT l.*, now() + make_interval(secs => l.wait_ms / 1000.0) AS next_due_time,
        CASE
            WHEN l.cancel_requested THEN 'cancelled'
            WHEN e.endpoint_number IS NULL OR e.delete_time IS NOT NULL THEN 'endpoint_deleted'
            WHEN e.generation = l.generation THEN NULL
            WHEN e.disabled_reason = 'gone' THEN 'gone'
            ELSE 'endpoint_disabled'
        END AS called_off
    FROM locked l
    LEFT JOIN endpoint e ON e.endpoint_number = l.endpoint_number
), fate AS MATERIALIZED (
    SELECT j.*,
        CASE
            WHEN verdict = 'succeeded' THEN 'delivered'
            WHEN called_off IS NOT NULL THEN 'cancelled'
            WHEN end_state IS NOT NULL THEN end_state
            WHEN next_due_time >= expire_time THEN 'expired'
        END AS state,
        CASE
            WHEN verdict = 'succeeded' THEN NULL
            WHEN called_off IS NOT NULL THEN called_off
            WHEN end_state IS NOT NULL THEN end_reason
            WHEN next_due_time >= expire_time THEN 'life_over'
        END AS reason
    FROM judged j
), removed AS (
    DELETE FROM queue q USING fate f
    WHERE q.shard = f.shard AND q.delivery_id = f.delivery_id AND q.lease_id = f.lease_id AND f.state IS NOT NULL
    RETURNING f.position
), rescheduled AS (
    UPDATE queue q SET lease_id = 0, due_time = f.next_due_time, attempts = f.number, step = f.step,
        throttles = f.throttles, losses = f.losses, lone_losses = f.lone_losses, stale = f.stale
    FROM fate f
    WHERE q.shard = f.shard AND q.delivery_id = f.delivery_id AND q.lease_id = f.lease_id AND f.state IS NULL
    RETURNING f.position
), changed AS MATERIALIZED (
    SELECT position FROM removed UNION ALL SELECT position FROM rescheduled
), settled AS NOT MATERIALIZED (
    SELECT * FROM fate WHERE (position IN (SELECT position FROM changed)) IS TRUE
), attempted AS (
    INSERT INTO attempt (shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict, outcome, reached,
        status, response_body, response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
        dns_us, connect_us, tls_us, first_byte_us, remote_address, rule, wait_ms, terminal, settle_time)
    SELECT shard, delivery_id, number, lease_id, account_number, endpoint_number, verdict, outcome, reached, status,
        response_body, response_body_truncated, retry_after, detail, start_time, duration_us, agent_id,
        dns_us, connect_us, tls_us, first_byte_us, remote_address, rule,
        CASE WHEN state IS NULL THEN wait_ms END, state IS NOT NULL, now()
    FROM settled ORDER BY shard, delivery_id
), archived AS (
    INSERT INTO ended (shard, delivery_id, account_number, endpoint_number, state, reason, attempts, end_time)
    SELECT shard, delivery_id, account_number, endpoint_number, state, reason, number, now()
    FROM settled WHERE state <> 'delivered' ORDER BY shard, delivery_id
), disabled AS (
    UPDATE endpoint e SET state = 'disabled', disabled_reason = d.disable, generation = e.generation + 1,
        config_version = e.config_version + 1, update_time = now()
    FROM (SELECT DISTINCT ON (endpoint_number) endpoint_number, generation, disable
        FROM settled WHERE disable IS NOT NULL ORDER BY endpoint_number, generation DESC) d
    WHERE e.endpoint_number = d.endpoint_number AND e.generation = d.generation AND e.state = 'enabled'
        AND e.delete_time IS NULL AND (SELECT bool_or(disable IS NOT NULL) FROM fate)
    RETURNING e.endpoint_number, e.account_number
), bumped AS (
    UPDATE account a SET config_version = a.config_version + 1
    WHERE a.account_number IN (SELECT account_number FROM disabled)
), held AS (
    INSERT INTO endpoint_state AS s (shard, endpoint_number, hold_until_time, hold_delivery_id, hold_attempt)
    SELECT DISTINCT ON (shard, endpoint_number) shard, endpoint_number, now() + make_interval(secs => hold_ms / 1000.0),
        delivery_id, number
    FROM settled WHERE hold_ms IS NOT NULL AND NOT holds_account
    ORDER BY shard, endpoint_number, hold_ms DESC
    ON CONFLICT (shard, endpoint_number)
        DO UPDATE SET hold_until_time = excluded.hold_until_time, hold_delivery_id = excluded.hold_delivery_id,
            hold_attempt = excluded.hold_attempt
        WHERE s.hold_until_time IS NULL OR s.hold_until_time < excluded.hold_until_time
), account_held AS (
    INSERT INTO account_state AS s (shard, account_number, hold_until_time, hold_delivery_id, hold_attempt)
    SELECT DISTINCT ON (shard, account_number) shard, account_number, now() + make_interval(secs => hold_ms / 1000.0),
        delivery_id, number
    FROM settled WHERE hold_ms IS NOT NULL AND holds_account
    ORDER BY shard, account_number, hold_ms DESC
    ON CONFLICT (shard, account_number)
        DO UPDATE SET hold_until_time = excluded.hold_until_time, hold_delivery_id = excluded.hold_delivery_id,
            hold_attempt = excluded.hold_attempt
        WHERE s.hold_until_time < excluded.hold_until_time
), announced AS (
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT shard, endpoint_number, min(next_due_time), count(*) FROM settled
    WHERE $37 AND state IS NULL GROUP BY shard, endpoint_number
), leftover AS MATERIALIZED (
    SELECT l.lease_id FROM lease l
    WHERE l.lease_id = ANY ($38::bigint[]) AND NOT EXISTS (
        SELECT 1 FROM report r WHERE r.lease_id = l.lease_id AND r.first
            AND NOT EXISTS (SELECT 1 FROM input i WHERE i.position = r.position))
    FOR UPDATE SKIP LOCKED
), finished AS (
    DELETE FROM lease l USING leftover WHERE l.lease_id = leftover.lease_id
)
SELECT r.position, now() AS database_now, f.position IS NOT NULL AS settled,
    $37 OR r.shard IN (SELECT shard FROM owned) AS owned, f.state, f.reason, f.next_due_time,
    f.endpoint_number IN (SELECT endpoint_number FROM disabled) AS disabled, f.endpoint_number, f.account_number,
    f.generation, f.expire_time
FROM report r
LEFT JOIN settled f USING (position)

-- partitions
-- Five tables grow with time. Each has one partition a day, cut by the milliseconds that lead every id, and a default one
-- that catches what no day holds.

SET LOCAL search_path = posthaste;

CREATE TABLE event_default PARTITION OF event DEFAULT;
CREATE TABLE payload_default PARTITION OF payload DEFAULT;
CREATE TABLE attempt_default PARTITION OF attempt DEFAULT;
CREATE TABLE late_attempt_default PARTITION OF late_attempt DEFAULT;
CREATE TABLE ended_default PARTITION OF ended DEFAULT;

-- The lowest id of a day, in UTC.
CREATE FUNCTION day_floor(day date) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM day)::bigint) * 1000), 12, '0'), 32, '0')::uuid
$$;

-- Makes the partitions of `first` to `last` that don't exist; answers how many it made. Concurrent calls wait for each other.
CREATE FUNCTION make_partitions(first date, last date) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    base text;
    day date;
    made int := 0;
    child text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('posthaste-partitions', 0));
    FOR day IN SELECT generate_series(first, last, interval '1 day')::date LOOP
        FOREACH base IN ARRAY ARRAY['event', 'payload', 'attempt', 'late_attempt', 'ended'] LOOP
            child := base || '_' || to_char(day, 'YYYYMMDD');
            IF to_regclass('posthaste.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE posthaste.%I PARTITION OF posthaste.%I FOR VALUES FROM (%L) TO (%L)',
                    child, base, posthaste.day_floor(day), posthaste.day_floor(day + 1));
                made := made + 1;
            END IF;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;

-- Drops the days before `before` in which no unfinished delivery lies; answers how many partitions went.
CREATE FUNCTION drop_partitions(before date) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    child text;
    day date;
    dropped int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('posthaste-partitions', 0));
    FOR child, day IN
        SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent
        JOIN pg_namespace n ON n.oid = p.relnamespace
        WHERE n.nspname = 'posthaste' AND p.relname IN ('event', 'payload', 'attempt', 'late_attempt', 'ended')
            AND c.relname ~ '_[0-9]{8}$'
        ORDER BY c.relname
    LOOP
        CONTINUE WHEN day >= before;
        CONTINUE WHEN EXISTS (
            SELECT 1 FROM posthaste.shard s
            CROSS JOIN LATERAL (
                SELECT 1 FROM posthaste.queue q
                WHERE q.shard = s.shard AND q.delivery_id >= posthaste.day_floor(day)
                    AND q.delivery_id < posthaste.day_floor(day + 1)
                LIMIT 1
            ) held
        );
        EXECUTE format('DROP TABLE posthaste.%I', child);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

SELECT make_partitions((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 7);

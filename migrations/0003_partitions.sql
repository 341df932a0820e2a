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

-- The five tables, in the order in which they are locked, and the column that their days are cut by.
CREATE FUNCTION partitioned_tables() RETURNS TABLE (base text, id_column text) LANGUAGE sql IMMUTABLE AS $$
    VALUES ('event', 'event_id'), ('payload', 'event_id'), ('attempt', 'delivery_id'), ('late_attempt', 'delivery_id'),
        ('ended', 'delivery_id')
$$;

-- Makes the partitions of `first` to `last` that don't exist; answers how many it made. Concurrent calls wait for each other.
-- A partition is made apart and then attached: to create it in place would lock out every reader of the table. A day of
-- which the default partition holds rows already can't be attached any more and stays there.
CREATE FUNCTION make_partitions(first date, last date) RETURNS int LANGUAGE plpgsql
SET search_path = posthaste, pg_temp
AS $$
DECLARE
    t record;
    day date;
    made int := 0;
    child text;
    taken boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('posthaste-partitions', 0));
    FOR day IN SELECT generate_series(first, last, interval '1 day')::date LOOP
        FOR t IN SELECT * FROM partitioned_tables() LOOP
            child := t.base || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass('posthaste.' || child) IS NOT NULL;
            EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE %I >= $1 AND %2$I < $2)', t.base || '_default', t.id_column)
                INTO taken USING day_floor(day), day_floor(day + 1);
            IF taken THEN
                RAISE WARNING 'the default partition of % holds rows of %', t.base, day;
                CONTINUE;
            END IF;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, t.base);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                t.base, child, day_floor(day), day_floor(day + 1));
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;

-- Whether an unfinished delivery's id lies in this day.
CREATE FUNCTION day_is_unfinished(day date) RETURNS boolean LANGUAGE sql VOLATILE
SET search_path = posthaste, pg_temp
AS $$
    SELECT EXISTS (
        SELECT 1 FROM shard s
        CROSS JOIN LATERAL (
            SELECT 1 FROM queue q
            WHERE q.shard = s.shard AND q.delivery_id >= day_floor(day) AND q.delivery_id < day_floor(day + 1)
            LIMIT 1
        ) held
    )
$$;

-- Drops the oldest day before `before` in which no unfinished delivery lies; answers how many partitions went. It looks
-- again once it has the locks: a replay of an old event changes the event's row, so none is under way then. The locks are
-- waited for briefly, since whoever comes later waits behind.
CREATE FUNCTION drop_partitions(before date) RETURNS int LANGUAGE plpgsql
SET search_path = posthaste, pg_temp
SET lock_timeout = '200ms'
AS $$
DECLARE
    t record;
    day date;
    dropped int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('posthaste-partitions', 0));
    FOR day IN
        SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        JOIN partitioned_tables() p ON to_regclass('posthaste.' || p.base) = i.inhparent
        WHERE c.relname ~ '_[0-9]{8}$'
        ORDER BY 1
    LOOP
        EXIT WHEN day >= before;
        CONTINUE WHEN day_is_unfinished(day);
        FOR t IN SELECT * FROM partitioned_tables() LOOP
            EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', t.base);
        END LOOP;
        EXIT WHEN day_is_unfinished(day);
        FOR t IN SELECT base || '_' || to_char(day, 'YYYYMMDD') AS child FROM partitioned_tables() LOOP
            IF to_regclass('posthaste.' || t.child) IS NOT NULL THEN
                EXECUTE format('DROP TABLE %I', t.child);
                dropped := dropped + 1;
            END IF;
        END LOOP;
        EXIT;
    END LOOP;
    RETURN dropped;
END
$$;

SELECT make_partitions((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 7);

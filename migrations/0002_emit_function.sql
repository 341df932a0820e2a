-- The second way in: an event emitted inside a transaction of the caller's own. Its rules, limits and fingerprint are
-- those of the Emit call; the event becomes visible and due when that transaction commits.

-- SHA-256 over type, content type, payload, the number of explicit targets and each target (sorted bytewise). Every part
-- is preceded by its length, the number of targets stands alone; all of them 8 bytes, big-endian.
CREATE FUNCTION posthaste.fingerprint(type text, content_type text, payload bytea, endpoint_ids text[])
RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog
AS $$
    SELECT sha256(
        int8send(octet_length(convert_to($1, 'UTF8'))::bigint) || convert_to($1, 'UTF8')
        || int8send(octet_length(convert_to($2, 'UTF8'))::bigint) || convert_to($2, 'UTF8')
        || int8send(octet_length($3)::bigint) || $3
        || int8send(coalesce(cardinality($4), 0)::bigint)
        || coalesce((
            SELECT string_agg(
                int8send(octet_length(convert_to(target, 'UTF8'))::bigint) || convert_to(target, 'UTF8'),
                ''::bytea ORDER BY convert_to(target, 'UTF8'))
            FROM unnest($4) AS target
        ), ''::bytea)
    )
$$;
COMMENT ON FUNCTION posthaste.fingerprint(text, text, bytea, text[]) IS
    'What makes two emits with one idempotency key the same event.';

-- A UUIDv7 (RFC 9562, section 5.7) with the shard in byte 9 and zeros in bytes 14 and 15. gen_random_uuid is random in
-- every bit that is kept.
CREATE FUNCTION posthaste.mint_event_id(shard smallint)
RETURNS uuid
LANGUAGE sql VOLATILE
SET search_path = pg_catalog
AS $$
    SELECT encode(
        substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3 FOR 6)
        || set_byte(substring(random FROM 1 FOR 1), 0, 112 | (get_byte(random, 0) & 15))
        || substring(random FROM 2 FOR 1)
        || set_byte(substring(random FROM 3 FOR 1), 0, 128 | (get_byte(random, 2) & 63))
        || substring(int2send($1) FROM 2 FOR 1)
        || substring(random FROM 11 FOR 4)
        || '\x0000'::bytea, 'hex')::uuid
    FROM uuid_send(gen_random_uuid()) AS random
$$;
COMMENT ON FUNCTION posthaste.mint_event_id(smallint) IS 'A new event id of this shard.';

-- True when the bytes are UTF-8. convert_from refuses the character U+0000, which UTF-8 allows, so zeros are taken out
-- first: in the escape format a zero byte is the only `\000` once every doubled backslash is gone.
CREATE FUNCTION posthaste.is_utf8(body bytea)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog
AS $$
BEGIN
    IF position('\x00'::bytea IN body) > 0 THEN
        body := decode(replace(replace(encode(body, 'escape'), '\\', '.'), '\000', '.'), 'escape');
    END IF;
    PERFORM convert_from(body, 'UTF8');
    RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION posthaste.is_utf8(bytea) IS 'Whether these bytes are UTF-8 (RFC 3629), U+0000 included.';

-- True for 1–255 bytes without control characters (Unicode Cc) or outer white space (Unicode White_Space).
CREATE FUNCTION posthaste.is_plain_id(id text)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog
AS $$
    SELECT octet_length($1) BETWEEN 1 AND 255
        AND $1 !~ '[\u0001-\u001F\u007F-\u009F]'
        AND $1 !~ '^[\u0020\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]'
        AND $1 !~ '[\u0020\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]$'
$$;
COMMENT ON FUNCTION posthaste.is_plain_id(text) IS 'The limits of the ids and keys that callers choose.';

-- Every limit that this call breaks, as `field: description`, in the words of the Emit call.
CREATE FUNCTION posthaste.emit_violations(
    account_id text, type text, payload bytea, content_type text, idempotency_key text, deliver_time timestamptz,
    time_to_live interval, endpoint_ids text[])
RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog
AS $$
#variable_conflict use_variable
DECLARE
    found text[] := '{}';
BEGIN
    IF account_id IS NULL OR NOT posthaste.is_plain_id(account_id) THEN
        found := found || 'account_id: must be 1–255 bytes of UTF-8 without control characters or outer white space'::text;
    END IF;
    IF type IS NULL OR type !~ '^[A-Za-z0-9._/-]{1,255}$' THEN
        found := found || 'type: must be 1–255 bytes of `A–Z a–z 0–9 . _ - /`'::text;
    END IF;
    IF payload IS NULL THEN
        found := found || 'payload: must not be null'::text;
    ELSIF octet_length(payload) > 262144 THEN
        found := found || format('payload: has %s bytes, at most 262144 are allowed', octet_length(payload));
    ELSIF NOT posthaste.is_utf8(payload) THEN
        found := found || 'payload: is not valid UTF-8'::text;
    END IF;
    IF content_type IS NULL OR octet_length(content_type) > 255 OR content_type !~ '^[\x21-\x7e]+( +[\x21-\x7e]+)*$' THEN
        found := found || 'content_type: must be 1–255 bytes of visible ASCII'::text;
    END IF;
    IF idempotency_key IS NOT NULL AND NOT posthaste.is_plain_id(idempotency_key) THEN
        found := found
            || 'idempotency_key: must be 1–255 bytes of UTF-8 without control characters or outer white space'::text;
    END IF;
    IF deliver_time > now() + interval '30 days' THEN
        found := found || 'deliver_time: must be at most 30 days ahead'::text;
    END IF;
    IF time_to_live < interval '1 second' OR time_to_live > interval '30 days' THEN
        found := found || 'time_to_live: must be 1 s–30 days'::text;
    END IF;
    IF cardinality(endpoint_ids) > 1000 THEN
        RETURN found
            || format('endpoint_ids: has %s entries, at most 1000 are allowed', cardinality(endpoint_ids));
    END IF;
    RETURN found || ARRAY(
        SELECT CASE
            WHEN posthaste.is_plain_id(target) THEN format('endpoint_ids[%s]: stands twice', place - 1)
            ELSE format('endpoint_ids[%s]: must be 1–255 bytes of UTF-8 without control characters or outer white space',
                place - 1)
            END
        FROM (
            SELECT target, place, row_number() OVER (PARTITION BY target COLLATE "C" ORDER BY place) AS copy
            FROM unnest(endpoint_ids) WITH ORDINALITY AS listed(target, place)
        ) AS listed
        WHERE copy > 1 OR target IS NULL OR NOT posthaste.is_plain_id(target)
        ORDER BY place);
END
$$;
COMMENT ON FUNCTION posthaste.emit_violations(text, text, bytea, text, text, timestamptz, interval, text[]) IS
    'Every limit that an emit breaks; empty when it breaks none.';

-- Emits an event in the caller's transaction. The answer is that of the Emit call. A null `endpoint_ids` (or an empty
-- one) delivers to every enabled endpoint whose filter matches. It never notifies: NOTIFY takes a database-wide lock at
-- commit; the owner of the shard finds the arrival rows. A key that another transaction holds is waited for (bounded by
-- lock_timeout), so the caller decides how long.
CREATE FUNCTION posthaste.emit(
    account_id text,
    type text,
    payload bytea,
    content_type text DEFAULT 'application/json',
    idempotency_key text DEFAULT NULL,
    deliver_time timestamptz DEFAULT NULL,
    time_to_live interval DEFAULT NULL,
    endpoint_ids text[] DEFAULT NULL)
RETURNS TABLE (event_id text, delivery_count int, duplicate boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = posthaste, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    violations text[];
    owner record;
    known record;
    targets record;
    problem text;
    kind text := coalesce(nullif(emit.content_type, ''), 'application/json');
    own_key text := nullif(emit.idempotency_key, '');
    key_bytes bytea := convert_to(own_key, 'UTF8');
    print bytea;
    id uuid;
    due timestamptz := greatest(now(), emit.deliver_time);
    life interval := coalesce(emit.time_to_live, interval '7 days');
BEGIN
    violations := emit_violations(emit.account_id, emit.type, emit.payload, kind, own_key,
        emit.deliver_time, emit.time_to_live, emit.endpoint_ids);
    IF cardinality(violations) > 0 THEN
        RAISE EXCEPTION '%', array_to_string(violations, '; ')
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'INVALID_FIELDS', HINT = 'Correct every field named.';
    END IF;

    SELECT account_number, shard INTO owner FROM account
    WHERE account.account_id = emit.account_id AND delete_time IS NULL;
    IF NOT found THEN
        RAISE EXCEPTION 'no such account'
            USING ERRCODE = 'no_data_found', DETAIL = 'ACCOUNT_NOT_FOUND',
                HINT = 'Create the account first; ids are compared byte by byte.';
    END IF;

    print := fingerprint(emit.type, kind, emit.payload, emit.endpoint_ids);
    IF key_bytes IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(
            hashtextextended('posthaste-key:' || owner.account_number || ':' || encode(key_bytes, 'hex'), 0));
        SELECT idempotency.event_id, idempotency.fingerprint, event.delivery_count INTO known
        FROM idempotency LEFT JOIN event ON event.shard = idempotency.shard AND event.event_id = idempotency.event_id
        WHERE idempotency.shard = owner.shard AND idempotency.account_number = owner.account_number
            AND idempotency.key = key_bytes;
        IF found AND known.fingerprint <> print THEN
            RAISE EXCEPTION 'the idempotency key was used for another event: evt_%', replace(known.event_id::text, '-', '')
                USING ERRCODE = 'unique_violation', DETAIL = 'IDEMPOTENCY_KEY_REUSED',
                    HINT = 'Use a new key, or repeat the call with the same type, content type, payload and targets.';
        ELSIF found THEN
            -- The first event may be visible and not yet durable; this record makes the caller's commit flush.
            PERFORM pg_logical_emit_message(true, 'posthaste', '');
            RETURN QUERY SELECT 'evt_' || replace(known.event_id::text, '-', ''), coalesce(known.delivery_count, 0), true;
            RETURN;
        END IF;
    END IF;

    IF cardinality(emit.endpoint_ids) > 0 THEN
        SELECT target INTO problem FROM unnest(emit.endpoint_ids) WITH ORDINALITY AS listed(target, place)
        WHERE NOT EXISTS (
            SELECT FROM endpoint
            WHERE endpoint.account_number = owner.account_number AND endpoint.endpoint_id = target
                AND delete_time IS NULL)
        ORDER BY place LIMIT 1;
        IF found THEN
            RAISE EXCEPTION 'no such endpoint: `%`', problem
                USING ERRCODE = 'no_data_found', DETAIL = 'ENDPOINT_NOT_FOUND',
                    HINT = 'Name only endpoints of this account; nothing was stored.';
        END IF;
    END IF;
    SELECT array_agg(endpoint_number ORDER BY endpoint_number) AS numbers,
        array_agg(generation ORDER BY endpoint_number) AS generations,
        count(*)::int AS total,
        min(endpoint_id COLLATE "C") FILTER (WHERE state <> 'enabled') AS disabled
    INTO targets
    FROM endpoint
    WHERE account_number = owner.account_number AND delete_time IS NULL
        AND CASE WHEN cardinality(emit.endpoint_ids) > 0
            THEN endpoint_id = ANY (emit.endpoint_ids)
            ELSE state = 'enabled' AND (event_types = '{}' OR emit.type = ANY (event_types)) END;
    IF targets.disabled IS NOT NULL THEN
        RAISE EXCEPTION 'the endpoint is disabled: `%`', targets.disabled
            USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = 'ENDPOINT_DISABLED',
                HINT = 'Enable it, or leave it out; nothing was stored.';
    END IF;
    IF targets.total > 65535 THEN
        RAISE EXCEPTION 'type: matches % endpoints, at most 65535 are allowed', targets.total
            USING ERRCODE = 'program_limit_exceeded', DETAIL = 'INVALID_FIELDS', HINT = 'Use narrower filters.';
    END IF;

    id := mint_event_id(owner.shard);
    INSERT INTO event (shard, event_id, account_number, type, content_type, idempotency_key, payload_bytes, payload_hash,
        delivery_count, deliver_time, expire_time, label_keys, label_values, create_time)
    VALUES (owner.shard, id, owner.account_number, emit.type, kind, key_bytes, octet_length(emit.payload),
        sha256(emit.payload), targets.total, due, due + life, '{}', '{}', now());
    INSERT INTO payload (shard, event_id, body) VALUES (owner.shard, id, emit.payload);
    IF key_bytes IS NOT NULL THEN
        INSERT INTO idempotency (shard, account_number, key, event_id, fingerprint, create_time)
        VALUES (owner.shard, owner.account_number, key_bytes, id, print, now());
    END IF;
    INSERT INTO queue (shard, delivery_id, account_number, endpoint_number, generation, due_time, expire_time, attempts,
        step, throttles, losses, lone_losses, stale)
    SELECT owner.shard, encode(substring(uuid_send(id) FROM 1 FOR 14) || substring(int4send(place::int) FROM 3 FOR 2),
            'hex')::uuid,
        owner.account_number, endpoint_number, generation, due, due + life, 0, 0, 0, 0, 0, 0
    FROM unnest(targets.numbers, targets.generations) WITH ORDINALITY AS target(endpoint_number, generation, place);
    INSERT INTO arrival (shard, endpoint_number, due_time, count)
    SELECT owner.shard, endpoint_number, due, 1 FROM unnest(targets.numbers) AS target(endpoint_number);

    RETURN QUERY SELECT 'evt_' || replace(id::text, '-', ''), targets.total, false;
END
$$;
COMMENT ON FUNCTION posthaste.emit(text, text, bytea, text, text, timestamptz, interval, text[]) IS
    'Emits an event inside the caller''s transaction; the same rules as the Emit call.';

-- It runs with its owner's rights, so that a service needs no more than EXECUTE on it.
REVOKE ALL ON FUNCTION posthaste.emit(text, text, bytea, text, text, timestamptz, interval, text[]) FROM PUBLIC;

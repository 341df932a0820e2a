-- schema
-- Everything lives in one schema of its own. Times are the database's; ids are UUIDv7 with their shard in byte 9.

CREATE SCHEMA IF NOT EXISTS posthaste;
SET LOCAL search_path = posthaste;

-- Ownership. `shard` changes only when an owner does; claims hold its row shared, so a takeover waits for them.
CREATE TABLE shard (
    shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    owner text CHECK (owner <> ''),
    epoch bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0)
);
INSERT INTO shard (shard) SELECT generate_series(0, 255);

CREATE TABLE replica (
    replica_id text PRIMARY KEY CHECK (octet_length(replica_id) BETWEEN 1 AND 255),
    address text NOT NULL,
    expires_time timestamptz NOT NULL
);

-- Configuration. Numbers are never used again, so a re-created id is somebody else.
CREATE TABLE account (
    account_number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 255),
    account_id text COLLATE "C" NOT NULL CHECK (octet_length(account_id) BETWEEN 1 AND 255),
    display_name text NOT NULL DEFAULT '',
    rate_per_second float8 CHECK (rate_per_second > 0),
    burst int CHECK (burst >= 1),
    max_in_flight int CHECK (max_in_flight >= 1),
    schedule_waits_ms bigint[] CHECK (cardinality(schedule_waits_ms) BETWEEN 1 AND 30),
    schedule_overload_wait_ms bigint CHECK (schedule_overload_wait_ms >= 0),
    paused boolean NOT NULL DEFAULT false,
    config_version bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    delete_time timestamptz,
    CHECK ((rate_per_second IS NULL) = (burst IS NULL)),
    CHECK ((schedule_waits_ms IS NULL) = (schedule_overload_wait_ms IS NULL))
);
CREATE UNIQUE INDEX account_living_id ON account (account_id) WHERE delete_time IS NULL;

CREATE TABLE endpoint (
    endpoint_number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_number bigint NOT NULL,
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 255),
    endpoint_id text COLLATE "C" NOT NULL CHECK (octet_length(endpoint_id) BETWEEN 1 AND 255),
    url text NOT NULL CHECK (octet_length(url) BETWEEN 1 AND 2048),
    event_types text[] NOT NULL DEFAULT '{}',
    header_names text[] NOT NULL DEFAULT '{}',
    header_values text[] NOT NULL DEFAULT '{}',
    timeout_ms int NOT NULL CHECK (timeout_ms BETWEEN 100 AND 30000),
    max_in_flight int NOT NULL CHECK (max_in_flight BETWEEN 1 AND 1000),
    schedule_waits_ms bigint[] CHECK (cardinality(schedule_waits_ms) BETWEEN 1 AND 30),
    schedule_overload_wait_ms bigint CHECK (schedule_overload_wait_ms >= 0),
    permanent_statuses int[] NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled')),
    disabled_reason text CHECK (disabled_reason IN ('gone', 'requested', 'failing')),
    paused boolean NOT NULL DEFAULT false,
    display_name text NOT NULL DEFAULT '',
    generation int NOT NULL DEFAULT 1 CHECK (generation >= 1),
    config_version bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    delete_time timestamptz,
    CHECK ((state = 'disabled') = (disabled_reason IS NOT NULL)),
    CHECK (cardinality(header_names) = cardinality(header_values)),
    CHECK ((schedule_waits_ms IS NULL) = (schedule_overload_wait_ms IS NULL))
);
CREATE UNIQUE INDEX endpoint_living_id ON endpoint (account_number, endpoint_id) WHERE delete_time IS NULL;

CREATE TABLE endpoint_secret (
    endpoint_number bigint NOT NULL,
    secret_number bigint GENERATED ALWAYS AS IDENTITY,
    key_id text NOT NULL,
    nonce bytea NOT NULL CHECK (octet_length(nonce) = 12),
    ciphertext bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz,
    PRIMARY KEY (endpoint_number, secret_number)
);

-- Written when it changes, read at takeover.
CREATE TABLE endpoint_state (
    shard smallint NOT NULL,
    endpoint_number bigint NOT NULL,
    hold_until_time timestamptz,
    throttled_rate float8,
    failing_since_time timestamptz,
    last_success_time timestamptz,
    failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
    PRIMARY KEY (shard, endpoint_number)
) WITH (fillfactor = 50);

-- Facts, partitioned by the time in their id. Payloads stand apart, so that they can be deleted and nothing else.
CREATE TABLE event (
    event_id uuid NOT NULL,
    account_number bigint NOT NULL,
    deliver_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    payload_bytes int NOT NULL CHECK (payload_bytes >= 0),
    delivery_count int NOT NULL CHECK (delivery_count BETWEEN 0 AND 65535),
    shard smallint NOT NULL,
    type text COLLATE "C" NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    content_type text NOT NULL,
    idempotency_key bytea CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    payload_hash bytea NOT NULL CHECK (octet_length(payload_hash) = 32),
    label_keys text[] NOT NULL DEFAULT '{}',
    label_values text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (shard, event_id),
    CHECK (expire_time > deliver_time),
    CHECK (cardinality(label_keys) = cardinality(label_values))
) PARTITION BY RANGE (event_id);
CREATE INDEX event_by_account ON event (shard, account_number, event_id);

CREATE TABLE payload (
    event_id uuid NOT NULL,
    shard smallint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (shard, event_id)
) PARTITION BY RANGE (event_id);

-- Keys outlive partitions: uniqueness spans them.
CREATE TABLE idempotency (
    account_number bigint NOT NULL,
    event_id uuid NOT NULL,
    create_time timestamptz NOT NULL,
    shard smallint NOT NULL,
    key bytea NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    PRIMARY KEY (shard, account_number, key)
);

-- Unfinished deliveries and nothing else. A lease changes one column that is in no index, so it stays within its page.
CREATE TABLE queue (
    delivery_id uuid NOT NULL,
    account_number bigint NOT NULL,
    endpoint_number bigint NOT NULL,
    due_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    lease_id bigint NOT NULL DEFAULT 0 CHECK (lease_id >= 0),
    generation int NOT NULL CHECK (generation >= 1),
    attempts int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    step int NOT NULL DEFAULT 0 CHECK (step >= 0),
    throttles int NOT NULL DEFAULT 0 CHECK (throttles >= 0),
    losses int NOT NULL DEFAULT 0 CHECK (losses >= 0),
    lone_losses int NOT NULL DEFAULT 0 CHECK (lone_losses BETWEEN 0 AND losses),
    stale int NOT NULL DEFAULT 0 CHECK (stale >= 0),
    shard smallint NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    PRIMARY KEY (shard, delivery_id),
    CHECK (expire_time > due_time),
    -- What is called off and not leased has ended.
    CHECK (lease_id <> 0 OR NOT cancel_requested),
    CHECK (shard = get_byte(uuid_send(delivery_id), 9))
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX queue_next_due ON queue (shard, endpoint_number, due_time, delivery_id);

-- One row per batch at an agent. Small and short-lived: only its primary key is an index.
CREATE TABLE lease (
    lease_id bigint PRIMARY KEY CHECK (lease_id > 0),
    incarnation bigint NOT NULL,
    expire_time timestamptz NOT NULL,
    limit_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    replica_id text NOT NULL,
    agent_id text NOT NULL,
    shards smallint[] NOT NULL,
    delivery_ids uuid[] NOT NULL CHECK (cardinality(delivery_ids) >= 1),
    CHECK (expire_time <= limit_time)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Notes to the owner that rows became claimable.
CREATE TABLE arrival (
    arrival_id bigint GENERATED ALWAYS AS IDENTITY,
    endpoint_number bigint NOT NULL,
    due_time timestamptz NOT NULL,
    count int NOT NULL CHECK (count >= 1),
    shard smallint NOT NULL,
    PRIMARY KEY (shard, arrival_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- One POST or one loss each, append-only.
CREATE TABLE attempt (
    delivery_id uuid NOT NULL,
    lease_id bigint NOT NULL CHECK (lease_id > 0),
    account_number bigint NOT NULL,
    endpoint_number bigint NOT NULL,
    start_time timestamptz NOT NULL,
    settle_time timestamptz NOT NULL,
    duration_us bigint NOT NULL CHECK (duration_us >= 0),
    wait_ms bigint CHECK (wait_ms >= 0),
    number int NOT NULL CHECK (number >= 1),
    status int CHECK (status BETWEEN 100 AND 999),
    shard smallint NOT NULL,
    terminal boolean NOT NULL,
    response_body_truncated boolean,
    verdict text NOT NULL CHECK (verdict IN ('succeeded', 'gone', 'throttled', 'overloaded', 'failed',
        'refused_by_receiver', 'refused_by_us', 'stale_connection', 'lost')),
    outcome text NOT NULL,
    reached text,
    agent_id text NOT NULL,
    response_body bytea,
    retry_after bytea CHECK (octet_length(retry_after) <= 128),
    detail text,
    PRIMARY KEY (shard, delivery_id, number),
    CHECK ((outcome = 'answered') = (status IS NOT NULL)),
    CHECK ((outcome = 'answered') = (response_body IS NOT NULL)),
    CHECK ((outcome = 'answered') = (response_body_truncated IS NOT NULL)),
    CHECK (retry_after IS NULL OR outcome = 'answered'),
    CHECK (terminal = (wait_ms IS NULL))
) PARTITION BY RANGE (delivery_id);
-- The plain successes of an account, for lists; every other end has its row in `ended`.
CREATE INDEX attempt_delivered ON attempt (shard, account_number, delivery_id) WHERE terminal AND verdict = 'succeeded';

-- Reports that came after their lease had ended.
CREATE TABLE late_attempt (
    delivery_id uuid NOT NULL,
    lease_id bigint NOT NULL CHECK (lease_id > 0),
    account_number bigint NOT NULL,
    endpoint_number bigint NOT NULL,
    start_time timestamptz NOT NULL,
    settle_time timestamptz NOT NULL,
    duration_us bigint NOT NULL CHECK (duration_us >= 0),
    number int NOT NULL CHECK (number >= 1),
    status int CHECK (status BETWEEN 100 AND 999),
    shard smallint NOT NULL,
    response_body_truncated boolean,
    verdict text NOT NULL,
    outcome text NOT NULL,
    reached text,
    agent_id text NOT NULL,
    response_body bytea,
    retry_after bytea,
    detail text,
    PRIMARY KEY (shard, delivery_id, number, lease_id),
    CHECK ((outcome = 'answered') = (status IS NOT NULL))
) PARTITION BY RANGE (delivery_id);

-- Every end that isn't the plain success of a numbered attempt.
CREATE TABLE ended (
    delivery_id uuid NOT NULL,
    account_number bigint NOT NULL,
    endpoint_number bigint NOT NULL,
    end_time timestamptz NOT NULL,
    attempts int NOT NULL CHECK (attempts >= 0),
    shard smallint NOT NULL,
    state text NOT NULL CHECK (state IN ('delivered', 'exhausted', 'cancelled', 'expired')),
    reason text NOT NULL CHECK (reason <> ''),
    PRIMARY KEY (shard, delivery_id),
    CHECK ((state = 'delivered') = (reason = 'late'))
) PARTITION BY RANGE (delivery_id);
CREATE INDEX ended_by_account ON ended (shard, account_number, delivery_id);

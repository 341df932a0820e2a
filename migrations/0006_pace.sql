-- pace
-- An account's weight and the scope of its holds, an endpoint's own limit, and holds of whole accounts.
ALTER TABLE posthaste.account
    ADD COLUMN weight int NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    ADD COLUMN throttle_scope text NOT NULL DEFAULT 'endpoint' CHECK (throttle_scope IN ('endpoint', 'account'));

ALTER TABLE posthaste.endpoint
    ADD COLUMN rate_per_second float8 CHECK (rate_per_second > 0),
    ADD COLUMN burst int CHECK (burst >= 1),
    ADD CHECK ((rate_per_second IS NULL) = (burst IS NULL));

-- Written when it changes and read at takeover, as endpoint_state.
CREATE TABLE posthaste.account_state (
    shard smallint NOT NULL,
    account_number bigint NOT NULL,
    hold_until_time timestamptz NOT NULL,
    PRIMARY KEY (shard, account_number)
);

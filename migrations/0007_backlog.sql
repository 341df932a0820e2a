-- backlog
-- Every endpoint of an account, deleted ones too: their last deliveries may still be in flight.
CREATE INDEX endpoint_by_account ON posthaste.endpoint (account_number);

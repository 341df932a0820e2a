-- endpoint_history
-- Finds the endpoints that have or had an id, deleted ones too: lists of deliveries name endpoints by id, and an account is
-- deleted only when none of its endpoints, past or present, has anything unfinished.
CREATE INDEX endpoint_history ON posthaste.endpoint (account_number, endpoint_id);

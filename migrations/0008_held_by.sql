-- held_by
-- Whose answer asked for a hold: the attempt that stands for it when somebody asks why a delivery waits.
ALTER TABLE posthaste.endpoint_state
    ADD COLUMN hold_delivery_id uuid,
    ADD COLUMN hold_attempt int,
    ADD CHECK ((hold_delivery_id IS NULL) = (hold_attempt IS NULL));

ALTER TABLE posthaste.account_state
    ADD COLUMN hold_delivery_id uuid,
    ADD COLUMN hold_attempt int,
    ADD CHECK ((hold_delivery_id IS NULL) = (hold_attempt IS NULL));

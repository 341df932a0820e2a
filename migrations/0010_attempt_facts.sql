-- attempt_facts
-- Whom an attempt talked to, how long its parts took in µs, and the rule of the address policy that refused it.
ALTER TABLE posthaste.attempt
    ADD COLUMN dns_us bigint,
    ADD COLUMN connect_us bigint,
    ADD COLUMN tls_us bigint,
    ADD COLUMN first_byte_us bigint,
    ADD COLUMN remote_address text,
    ADD COLUMN rule text;

ALTER TABLE posthaste.late_attempt
    ADD COLUMN dns_us bigint,
    ADD COLUMN connect_us bigint,
    ADD COLUMN tls_us bigint,
    ADD COLUMN first_byte_us bigint,
    ADD COLUMN remote_address text,
    ADD COLUMN rule text;

-- signature_scheme
-- How requests to an endpoint are signed: with a secret that its receiver has too, or with the private key of a pair.
ALTER TABLE posthaste.endpoint
    ADD COLUMN signature_scheme text NOT NULL DEFAULT 'hmac_sha256' CHECK (signature_scheme IN ('hmac_sha256', 'ed25519'));

-- reseal_secrets
-- A compare-and-set on key and nonce, of which no two seals have the same. Rows that somebody else has locked are left for
-- another round: a rotation of the endpoint's secret locks them in an order of its own.
WITH wanted AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::bytea[], $7::bytea[])
        AS given (endpoint_number, secret_number, old_key_id, old_nonce, key_id, nonce, ciphertext)
), held AS (
    SELECT secret.endpoint_number, secret.secret_number, wanted.key_id, wanted.nonce, wanted.ciphertext,
        wanted.old_key_id, wanted.old_nonce
    FROM wanted
    JOIN endpoint_secret AS secret ON secret.endpoint_number = wanted.endpoint_number
        AND secret.secret_number = wanted.secret_number
    WHERE secret.key_id = wanted.old_key_id AND secret.nonce = wanted.old_nonce
    FOR UPDATE OF secret SKIP LOCKED
), changed AS (
    UPDATE endpoint_secret AS secret SET key_id = held.key_id, nonce = held.nonce, ciphertext = held.ciphertext
    FROM held
    WHERE secret.endpoint_number = held.endpoint_number AND secret.secret_number = held.secret_number
        AND secret.key_id = held.old_key_id AND secret.nonce = held.old_nonce
    RETURNING secret.secret_number
)
SELECT count(*) AS changed FROM changed

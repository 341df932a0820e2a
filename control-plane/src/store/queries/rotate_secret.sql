-- rotate_secret
-- The newest secret goes on signing for the overlap. At most $7 secrets are kept, the new one among them: each adds a
-- signature to every request, and receivers limit the length of a header. A compare-and-set on the version: after a
-- wait for the row this statement would not see the secret that another rotation has made.
WITH target AS (
    UPDATE endpoint SET config_version = config_version + 1, update_time = now()
    WHERE endpoint_number = $1 AND config_version = $2 AND delete_time IS NULL
    RETURNING account_number, endpoint_number
), bumped AS (
    UPDATE account SET config_version = config_version + 1, update_time = now()
    WHERE account_number = (SELECT account_number FROM target)
), ranked AS (
    SELECT secret_number, row_number() OVER (ORDER BY secret_number DESC) AS place
    FROM endpoint_secret
    WHERE endpoint_number = (SELECT endpoint_number FROM target) AND (expire_time IS NULL OR expire_time > now())
), outgoing AS (
    UPDATE endpoint_secret SET expire_time = now() + $6 * interval '1 millisecond'
    WHERE endpoint_number = (SELECT endpoint_number FROM target) AND expire_time IS NULL
), dropped AS (
    DELETE FROM endpoint_secret
    WHERE endpoint_number = (SELECT endpoint_number FROM target) AND expire_time IS NOT NULL
        AND secret_number NOT IN (SELECT secret_number FROM ranked WHERE place < $7)
), made AS (
    INSERT INTO endpoint_secret (endpoint_number, key_id, nonce, ciphertext)
    SELECT endpoint_number, $3, $4, $5 FROM target
)
SELECT count(*) AS changed FROM target

BEGIN;
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, total int NOT NULL);
INSERT INTO orders (id, total) VALUES ('or_7', 4200);
-- Rolled back together, or committed together.
SELECT * FROM posthaste.emit('acme', 'order.placed', '{"order": "or_7"}'::bytea, idempotency_key => 'or_7');
COMMIT;

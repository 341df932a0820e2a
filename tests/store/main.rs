//! What Postgres holds: the embedded server itself, and the statements that change it.

mod embedded_postgres;

//! What Postgres holds: the embedded server itself, and the statements that change it.

mod account_service;
mod cancel_races;
mod command_line;
mod delivery_service;
mod embedded_postgres;
mod endpoint_service;
mod fixture;
mod sql_emit;

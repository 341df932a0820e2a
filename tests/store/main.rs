//! What Postgres holds: the embedded server itself, and the statements that change it.

mod account_service;
mod cancel_races;
mod claim;
mod command_line;
mod delivery_service;
mod embedded_postgres;
mod emit;
mod endpoint_races;
mod endpoint_service;
mod fixture;
mod late;
mod leases;
mod lists;
mod master_key;
mod migrate_only;
mod ownership;
mod plans;
mod settle;
mod shape;
mod signature_scheme;
mod sql_emit;
mod statistics;
mod stored;
mod upkeep;

//! Stories of deliveries from outside: real processes, real sockets, real Postgres.

mod bench;
mod demo;
mod receiver;
mod up;
mod wrong_inputs;

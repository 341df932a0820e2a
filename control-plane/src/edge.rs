//! What callers speak to: gRPC for producers, operators and agents; HTTP for probes.

pub mod grpc;
pub(crate) mod http;
pub(crate) mod listen;

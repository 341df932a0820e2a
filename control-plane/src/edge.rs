//! What callers speak to: gRPC here, HTTP for probes.

pub mod grpc;

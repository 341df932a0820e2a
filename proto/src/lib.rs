//! The wire: types generated from the `.proto` files, and their validated conversion to and from `domain`.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

pub mod convert;
mod redacted;

/// `posthaste.v1`: the API for producers and operators.
#[expect(missing_docs, clippy::all, clippy::too_many_lines, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("posthaste.v1");
}

/// `posthaste.dispatch.v1`: the stream between an agent and a replica of the control plane.
#[expect(missing_docs, clippy::all, reason = "generated code")]
pub mod dispatch {
    tonic::include_proto!("posthaste.dispatch.v1");
}

/// The encoded `FileDescriptorSet` of every file, for reflection and for JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

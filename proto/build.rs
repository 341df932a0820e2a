//! Compiles the `.proto` files in pure Rust (no protoc) and keeps their descriptors for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 7] = [
    "posthaste/v1/account.proto",
    "posthaste/v1/backlog.proto",
    "posthaste/v1/delivery.proto",
    "posthaste/v1/endpoint.proto",
    "posthaste/v1/error.proto",
    "posthaste/v1/event.proto",
    "posthaste/dispatch/v1/dispatch.proto",
];

/// Messages whose `Debug` is written by hand, in `src/redacted.rs`.
const SECRETIVE: [&str; 5] = [
    // Without a dot in front its nested types keep theirs.
    "posthaste.v1.Endpoint",
    ".posthaste.v1.CreateEndpointRequest",
    ".posthaste.v1.RotateSecretRequest",
    ".posthaste.v1.Secret",
    ".posthaste.dispatch.v1.EndpointConfig",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=posthaste");
    println!("cargo:rerun-if-changed=google");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .skip_debug(SECRETIVE)
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}

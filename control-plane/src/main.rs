//! The control plane as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste_control_plane::program::main(std::env::args_os().collect())
}

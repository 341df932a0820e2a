//! `posthaste-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste_agent::program::main(std::env::args_os().collect())
}

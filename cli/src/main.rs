//! The command `posthaste`.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste::main(std::env::args_os())
}

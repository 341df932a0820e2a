//! The program under test, built together with the tests, so that they never run an older one.

use std::path::Path;
use std::process::ExitCode;

use posthaste_tests::shared_server;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    match args.as_slice() {
        [_, first, folder] if first == shared_server::KEEPER => shared_server::keep(Path::new(folder)),
        _ => posthaste::main(args),
    }
}

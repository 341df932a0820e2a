//! The operator's and newcomer's command `posthaste`.
//!
//! One binary holds every part: `up` and `demo` start it again as `posthaste internal …` for each of them, so that one
//! build is enough and every part is still a process of its own. This library holds all of it, so that the tests
//! run exactly the same program.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used))]

mod args;
mod bench;
mod client;
mod commands;
mod demo;
mod exit;
mod failure;
mod internal;
mod local;
mod log_file;
mod output;
pub mod postgres;
mod receiver;
pub mod system;
mod terminal;
mod top;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use exit::Exit;

/// Runs the command line `args`, whose first item is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Success };
            // Nothing is left to say when the terminal is gone.
            let _ = error.print();
            return exit.into();
        }
    };
    // Whoever installed a provider before us, such as a test, is fine too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(args).unwrap_or_else(|error| {
        terminal::note(&format!("error: {error:#}"));
        Exit::of(&error).into()
    })
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match args.command {
        Command::Call(call) => commands::run(&args.connection, call),
        Command::Up(args) => runtime()?.block_on(up::run(args)),
        Command::Demo(args) => runtime()?.block_on(demo::run(args)),
        Command::Receiver(receiver) => runtime()?.block_on(receiver::run(&args.connection, receiver)),
        Command::Top(top) => runtime()?.block_on(top::run(&args.connection, top)),
        Command::Bench(bench) => runtime()?.block_on(bench::run(args.connection.output(), bench)),
        // A part brings its own runtime.
        Command::Internal(args) => return internal::run(args),
    }
    .map(ExitCode::from)
}

//! `posthaste internal …`: the parts of a system, for `up`, `demo` and the tests to start as processes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;

use crate::args::{InternalArgs, InternalPart};

/// How long a part may drain when its parent is gone: whoever starts the system anew waits for it.
const ORPHAN_DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Runs the part in this process.
pub(crate) fn run(args: InternalArgs) -> anyhow::Result<ExitCode> {
    let _lock = match &args.with_parent {
        Some(path) => {
            let lock =
                File::options().create(true).append(true).open(path).with_context(|| path.display().to_string())?;
            lock.lock_shared().with_context(|| path.display().to_string())?;
            Some(lock)
        }
        None => None,
    };
    // These read their input and end with it by themselves.
    let reads_input =
        matches!(args.part, InternalPart::Receiver { .. } | InternalPart::Counter | InternalPart::Baseline);
    if args.with_parent.is_some() && !reads_input {
        thread::Builder::new().name("parent-watch".to_owned()).spawn(end_with_parent)?;
    }
    Ok(match args.part {
        InternalPart::ControlPlane { args } => posthaste_control_plane::program::main(named("control-plane", args)),
        InternalPart::Agent { args } => posthaste_agent::program::main(named("agent", args)),
        InternalPart::Receiver { args } => posthaste_bench::receiver::program::main(named("receiver", args)),
        InternalPart::Counter => posthaste_bench::receiver::counter::main(),
        InternalPart::Baseline => posthaste_bench::baseline::main(),
    })
}

fn named(part: &str, args: Vec<OsString>) -> Vec<OsString> {
    std::iter::once(format!("posthaste internal {part}").into()).chain(args).collect()
}

/// Waits for the end of the standard input, which only the parent can write to; then drains as at SIGTERM.
fn end_with_parent() {
    let mut ignored = [0; 64];
    loop {
        match io::stdin().lock().read(&mut ignored) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            Ok(_) | Err(_) => {}
        }
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    thread::sleep(ORPHAN_DRAIN_LIMIT);
    std::process::exit(1);
}

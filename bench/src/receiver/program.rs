//! The receiver as a process: `posthaste internal receiver [--listen ADDRESS]`.
//!
//! It prints `ready receiver=ADDRESS`, then one line of JSON per request ([`Received::to_json`]). Its standard input
//! takes lines of JSON, each setting one path: `{"path": "/a", "answers": [{"status": 503, "body": "busy"}],
//! "secrets": ["whsec_…"]}`; secrets go this way because a command line is everybody's to see. Each line is answered
//! with `set /a`, or `refused` and why. It ends when its input does, so that it never outlives whoever started it.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use posthaste_domain::signature::Secret;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Answer, Received, Receiver};

/// The exit code for a command line that makes no sense.
const USAGE: u8 = 2;

/// Lines that were read but not yet looked at.
const LINES_MAX: usize = 16;

/// What one line of the input sets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The path, with its slash.
    pub path: String,
    /// Its answers; none: 200.
    #[serde(default)]
    pub answers: Vec<Answer>,
    /// The secrets that verify its requests, `whsec_…`; none: they aren't verified.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// Runs the receiver until its input ends. `args[0]` is the program's name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let Some(listen) = listen_address(&args) else {
        note("usage: receiver [--listen ADDRESS:PORT]");
        return USAGE.into();
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(run(listen));
    // The thread that reads the input may still be in its read.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn listen_address(args: &[OsString]) -> Option<SocketAddr> {
    match args {
        [_] => Some((Ipv4Addr::LOCALHOST, 0).into()),
        [_, flag, address] if flag == "--listen" => address.to_str()?.parse().ok(),
        _ => None,
    }
}

async fn run(listen: SocketAddr) -> std::io::Result<()> {
    let receiver = Receiver::start(listen).await?;
    let mut arrivals = receiver.arrivals();
    let mut lines = input();
    print(&format!("ready receiver={}", receiver.address()))?;
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => print(&set(&receiver, &line))?,
                None => return Ok(()),
            },
            _ = arrivals.changed() => {
                for request in receiver.take_received() {
                    print(&Received::to_json(&request).to_string())?;
                }
            }
        }
    }
}

fn set(receiver: &Receiver, line: &str) -> String {
    let place: Place = match serde_json::from_str(line) {
        Ok(place) => place,
        Err(error) => return format!("refused {error}"),
    };
    match place.secrets.iter().map(|text| Secret::parse(text)).collect::<Result<Vec<_>, _>>() {
        Ok(secrets) => {
            receiver.script(&place.path, place.answers);
            receiver.trust(&place.path, secrets);
            format!("set {}", place.path)
        }
        Err(error) => format!("refused secret: {error}"),
    }
}

/// The lines of the standard input, read by a thread of their own; the channel closes when they end.
pub(crate) fn input() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

pub(crate) fn print(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

pub(crate) fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    note(&format!("receiver: {error}"));
    ExitCode::FAILURE
}

fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

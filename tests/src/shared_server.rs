//! One Postgres server for all tests of a run, however many processes they run in, and none afterwards.
//!
//! A *keeper* process owns the server. Every test process holds `users.lock` shared for as long as it lives, which the
//! kernel ends even after SIGKILL; once the keeper gets that lock for itself for a while, nobody is left: it stops the
//! server, removes the data and goes. The first test process that finds no keeper (`keeper.lock` is free) starts one.
//! Durability is off: the data is thrown away anyhow.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use posthaste::postgres::{self, Durability, Settings};

use crate::program;

/// The argument that makes this crate's binary the keeper; its own argument is the folder.
pub const KEEPER: &str = "keep-test-server";

/// The server goes when no test process was there for this long: longer than the pause between two test binaries.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
const KEEPER_POLL: Duration = Duration::from_millis(250);

/// Making a cluster takes a second; fetching binaries first takes more.
const START_LIMIT: Duration = Duration::from_secs(180);
const START_POLL: Duration = Duration::from_millis(20);

/// Enough for several control planes per test and several tests at once.
const CONNECTIONS_MAX: u16 = 400;

/// The URL of the shared server's default database. Starts the server when it doesn't run.
///
/// # Errors
/// When the server can't be started; the keeper's log says why.
pub fn url() -> Result<String> {
    static USE: OnceLock<Use> = OnceLock::new();
    if let Some(found) = USE.get() {
        return Ok(found.url.clone());
    }
    let made = Use::begin()?;
    Ok(USE.get_or_init(|| made).url.clone())
}

/// This process's share of the server, until the process ends.
struct Use {
    url: String,
    _users: File,
}

impl Use {
    fn begin() -> Result<Self> {
        let folder = folder()?;
        let users = lock_file(&folder, "users.lock")?;
        users.lock_shared()?;
        let starting = lock_file(&folder, "starting.lock")?;
        starting.lock()?;
        if is_free(&lock_file(&folder, "keeper.lock")?)? {
            let _ = fs::remove_file(folder.join("url"));
            start_keeper(&folder)?;
        }
        let url = wait_for_url(&folder)?;
        Ok(Self { url, _users: users })
    }
}

/// A folder of this user's under the system's temporary one: short, as the socket's path must be, and open to enter.
fn folder() -> Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let folder = std::env::temp_dir().join(format!("posthaste-tests-{uid}"));
    if let Err(error) = fs::DirBuilder::new().mode(0o711).create(&folder) {
        let owner = fs::symlink_metadata(&folder).with_context(|| format!("{} ({error})", folder.display()))?.uid();
        ensure!(owner == uid, "{} belongs to uid {owner}", folder.display());
    }
    Ok(folder)
}

fn lock_file(folder: &Path, name: &str) -> Result<File> {
    let path = folder.join(name);
    OpenOptions::new().create(true).append(true).open(&path).with_context(|| path.display().to_string())
}

/// Whether nobody holds the lock right now.
fn is_free(file: &File) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => {
            file.unlock()?;
            Ok(true)
        }
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn start_keeper(folder: &Path) -> Result<()> {
    let log = File::create(folder.join("keeper.log"))?;
    let mut command = Command::new(program::path());
    command.arg(KEEPER).arg(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // A Ctrl-C that ends the tests must not end the keeper before it has stopped the server.
    let mut keeper = command.process_group(0).spawn()?;
    let deadline = Instant::now() + START_LIMIT;
    while is_free(&lock_file(folder, "keeper.lock")?)? {
        ensure!(Instant::now() < deadline, "the keeper does not begin");
        if let Some(status) = keeper.try_wait()? {
            bail!("the keeper of the test server ends: {status}\n{}", log_of(folder));
        }
        thread::sleep(START_POLL);
    }
    Ok(())
}

fn wait_for_url(folder: &Path) -> Result<String> {
    let deadline = Instant::now() + START_LIMIT;
    let keeper = lock_file(folder, "keeper.lock")?;
    loop {
        if let Ok(url) = fs::read_to_string(folder.join("url")) {
            return Ok(url);
        }
        if is_free(&keeper)? || Instant::now() > deadline {
            bail!("no Postgres server for the tests:\n{}", log_of(folder));
        }
        thread::sleep(START_POLL);
    }
}

fn log_of(folder: &Path) -> String {
    fs::read_to_string(folder.join("keeper.log")).unwrap_or_default()
}

/// The keeper's whole life.
pub fn keep(folder: &Path) -> ExitCode {
    match keep_until_idle(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn keep_until_idle(folder: &Path) -> Result<()> {
    let keeper = lock_file(folder, "keeper.lock")?;
    if let Err(error) = keeper.try_lock() {
        bail!("another keeper is there: {error}");
    }
    let mut settings = Settings::new(folder.join("postgres"));
    settings.binaries = std::env::var_os("POSTHASTE_POSTGRES_BIN").map(PathBuf::from);
    settings.durability = Durability::Off;
    settings.connections_max = CONNECTIONS_MAX;
    let mut server = postgres::open(&settings, &mut |line| report(line))?;
    let unfinished = folder.join("url.unfinished");
    fs::write(&unfinished, server.url())?;
    fs::rename(&unfinished, folder.join("url"))?;

    let users = lock_file(folder, "users.lock")?;
    let mut idle_since = Instant::now();
    while idle_since.elapsed() < IDLE_LIMIT && server.is_running() {
        thread::sleep(KEEPER_POLL);
        if !is_free(&users)? {
            idle_since = Instant::now();
        }
    }
    // Newcomers wait here until the server is gone, and then start another keeper.
    users.lock()?;
    fs::remove_file(folder.join("url"))?;
    server.stop()?;
    fs::remove_dir_all(&settings.folder)?;
    // In this order: who gets in behind `users` while `keeper` is still locked would wait for a server that never comes.
    drop(keeper);
    drop(users);
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the keeper's log is its standard error")]
fn report(line: &str) {
    eprintln!("{line}");
}

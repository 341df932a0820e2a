//! The private Postgres server: it starts, survives, is adopted, and says what is wrong.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use posthaste::postgres::{self, Durability, Error, Server, Settings};
use posthaste_tests::own_server::open_folder;
use posthaste_tests::{OwnServer, database};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

fn open(settings: &Settings) -> Result<Server, Error> {
    let mut said = Vec::new();
    let server = postgres::open(settings, &mut |line| said.push(line.to_owned()));
    eprintln!("{said:?}");
    server
}

/// A server whose commits need not survive: it is made and started faster.
fn fast(folder: impl AsRef<Path>) -> Settings {
    Settings { durability: Durability::Off, ..Settings::new(folder.as_ref()) }
}

fn ask(url: &str, statement: &str) -> String {
    let (url, statement) = (url.to_owned(), statement.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(&mut connection).await.unwrap()
    })
}

#[tokio::test]
async fn every_test_has_a_database_of_its_own() {
    let (one, other) = (database().await, database().await);
    let (one_pool, other_pool) = (one.pool().await, other.pool().await);
    sqlx::raw_sql("/* make */ CREATE TABLE mine (x int)").execute(&one_pool).await.unwrap();
    sqlx::raw_sql("/* make */ CREATE TABLE mine (x int)").execute(&other_pool).await.unwrap();
}

#[test]
fn keeps_its_data_over_a_restart_and_is_durable() {
    let folder = open_folder();
    let settings = Settings::new(folder.path().join("postgres"));
    let mut server = open(&settings).unwrap();
    assert!(!server.is_adopted());
    assert_eq!(ask(&server.url(), "/* make */ SELECT current_database()::text"), "posthaste");
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(ask(&server.url(), &format!("/* show */ SELECT current_setting('{setting}')")), "on", "{setting}");
    }
    assert_eq!(ask(&server.url(), "/* show */ SELECT current_setting('listen_addresses')"), "");
    assert_eq!(ask(&server.url(), "/* show */ SELECT current_setting('server_encoding')"), "UTF8");
    ask(&server.url(), "/* keep */ WITH made AS (SELECT lo_from_bytea(4711, 'kept')) SELECT 'x' FROM made");
    server.stop().unwrap();
    server.stop().unwrap();
    assert!(!settings.folder.join("data/postmaster.pid").exists());

    let server = open(&settings).unwrap();
    assert_eq!(ask(&server.url(), "/* read */ SELECT convert_from(lo_get(4711), 'UTF8')"), "kept");
}

#[test]
fn only_its_user_gets_in() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    let server = open(&settings).unwrap();
    for private in ["data", "run"] {
        let meta = fs::metadata(settings.folder.join(private)).unwrap();
        assert_eq!(meta.mode() & 0o777, 0o700, "{private}");
        assert_ne!(meta.uid(), 0, "{private} belongs to root");
    }
    if rustix::process::geteuid().is_root() {
        let process = fs::metadata(format!("/proc/{}", server.pid())).unwrap();
        assert_ne!(process.uid(), 0, "the server runs as root");
    }
}

#[test]
fn adopts_a_server_that_was_left_running() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    let first = open(&settings).unwrap();
    let pid = first.pid();
    // As after a kill -9 of the process that started it: nobody stops the server.
    std::mem::forget(first);
    let mut second = open(&settings).unwrap();
    assert!(second.is_adopted());
    assert_eq!(second.pid(), pid);
    assert_eq!(ask(&second.url(), "/* ask */ SELECT 'alive'"), "alive");
    second.stop().unwrap();
    assert!(!second.is_running());
}

#[test]
fn starts_after_a_crash() {
    let folder = open_folder();
    let settings = Settings::new(folder.path().join("postgres"));
    let mut server = open(&settings).unwrap();
    ask(&server.url(), "/* keep */ WITH made AS (SELECT lo_from_bytea(4711, 'kept')) SELECT 'x' FROM made");
    server.kill();
    assert!(settings.folder.join("data/postmaster.pid").exists());
    let server = open(&settings).unwrap();
    assert!(!server.is_adopted());
    assert_eq!(ask(&server.url(), "/* read */ SELECT convert_from(lo_get(4711), 'UTF8')"), "kept");
}

#[test]
fn starts_when_the_old_process_id_belongs_to_somebody_else() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    let mut server = open(&settings).unwrap();
    server.kill();
    let path = settings.folder.join("data/postmaster.pid");
    let text = fs::read_to_string(&path).unwrap();
    let rest = text.split_once('\n').unwrap().1;
    fs::write(&path, format!("{}\n{rest}", std::process::id())).unwrap();
    let server = open(&settings).unwrap();
    assert!(!server.is_adopted());
}

#[test]
fn an_unfinished_cluster_is_made_anew() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    let unfinished = settings.folder.join("data.unfinished/base");
    fs::create_dir_all(&unfinished).unwrap();
    for path in [&settings.folder, &settings.folder.join("data.unfinished")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let server = open(&settings).unwrap();
    assert_eq!(ask(&server.url(), "/* ask */ SELECT 'alive'"), "alive");
    assert!(!settings.folder.join("data.unfinished").exists());
}

#[test]
fn a_long_path_gets_a_short_socket() {
    let folder = open_folder();
    let settings = fast(folder.path().join("x".repeat(100)).join("with, comma"));
    let mut server = open(&settings).unwrap();
    assert_eq!(ask(&server.url(), "/* ask */ SELECT 'alive'"), "alive");
    let listening = ask(&server.url(), "/* show */ SELECT current_setting('unix_socket_directories')");
    assert!(listening.starts_with("/tmp/posthaste-"), "{listening}");
    assert_eq!(fs::metadata(&listening).unwrap().mode() & 0o777, 0o700);
    server.stop().unwrap();
    assert!(!Path::new(&listening).exists());
}

/// Server programs that only say `text`.
fn script(binaries: &Path, text: &str) {
    for name in ["initdb", "postgres"] {
        fs::write(binaries.join(name), text).unwrap();
        fs::set_permissions(binaries.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn binaries_that_are_no_use_are_named() {
    let folder = open_folder();
    let check = |prepare: &dyn Fn(&Path), expected: &str| {
        let binaries = folder.path().join("bin");
        let _ = fs::remove_dir_all(&binaries);
        fs::create_dir(&binaries).unwrap();
        prepare(&binaries);
        let mut settings = fast(folder.path().join("postgres"));
        settings.binaries = Some(binaries);
        let error = open(&settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("/bin has no usable Postgres server"), "{error}");
    };
    check(&|_| (), "it has no initdb");
    check(&|binaries| script(binaries, "#!/bin/sh\necho broken library >&2\nexit 127\n"), "broken library");
    check(
        &|binaries| script(binaries, "#!/bin/sh\necho 'postgres (PostgreSQL) 12.3'\n"),
        "version 12 is older than 15",
    );
    check(&|binaries| fs::write(binaries.join("initdb"), "").unwrap(), "it has no postgres");
}

#[test]
fn a_cluster_of_another_version_is_not_touched() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    open(&settings).unwrap().stop().unwrap();
    let version = settings.folder.join("data/PG_VERSION");
    fs::write(&version, "11\n").unwrap();
    let binaries = folder.path().join("bin");
    fs::create_dir(&binaries).unwrap();
    script(&binaries, "#!/bin/sh\necho 'postgres (PostgreSQL) 16.1'\n");
    let error = open(&Settings { binaries: Some(binaries), ..settings }).unwrap_err().to_string();
    assert!(error.contains("it is version 16, but version 11 made the data folder"), "{error}");
    assert_eq!(fs::read_to_string(version).unwrap(), "11\n");
}

#[test]
fn a_closed_parent_folder_is_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = open(&Settings::new(closed.path().join("postgres"))).unwrap_err();
    let Error::NotTraversable { folder, .. } = error else { panic!("{error}") };
    assert_eq!(folder, closed.path().canonicalize().unwrap());
}

#[test]
fn a_taken_socket_folder_is_refused() {
    let folder = open_folder();
    let settings = fast(folder.path().join("postgres"));
    fs::create_dir_all(&settings.folder).unwrap();
    fs::set_permissions(&settings.folder, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(settings.folder.join("run"), "").unwrap();
    let error = open(&settings).unwrap_err().to_string();
    assert!(error.contains("it is not a folder"), "{error}");
}

#[tokio::test]
async fn a_server_of_ones_own_goes_down_and_comes_back() {
    let mut server = OwnServer::start(Durability::Off).await;
    server.kill().await;
    PgConnection::connect(server.url()).await.unwrap_err();
    server.restart().await;
    PgConnection::connect(server.url()).await.unwrap();
    server.stop().await;
    PgConnection::connect(server.url()).await.unwrap_err();
}

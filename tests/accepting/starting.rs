//! What stands in the way of a start is said at once, all of it, before anything is changed.

use std::process::{Output, Stdio};

use posthaste_tests::process::SECRET_KEY;
use posthaste_tests::{Plane, database, program};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Runs a part that is expected to end by itself.
async fn ended(part: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program::path());
    command.args(["internal", part]).args(args).stdin(Stdio::null()).kill_on_drop(true);
    command.env("POSTHASTE_SECRET_KEY", SECRET_KEY);
    let Output { status, stderr, .. } = command.output().await.unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[tokio::test]
async fn a_port_in_use_is_told_before_the_database_is_changed() {
    let database = database().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [("--grpc-listen", "--admin-listen"), ("--admin-listen", "--grpc-listen")] {
        let args = ["--accept-loss", "--database-url", database.url(), flag, &address, other, "127.0.0.1:0"];
        let (code, said) = ended("control-plane", &args).await;
        assert_eq!(code, Some(69), "{said}");
        assert!(said.lines().count() == 1 && said.contains(&address), "{said}");
    }
    let schemas = "/* test_schemas */ SELECT count(*) FROM pg_namespace WHERE nspname = 'posthaste'";
    let schemas: i64 = sqlx::query_scalar(schemas).fetch_one(&mut database.connection().await).await.unwrap();
    assert_eq!(schemas, 0);
}

#[tokio::test]
async fn every_problem_of_a_configuration_is_told_at_once() {
    let bad = ["--grpc-listen", "7420", "--lease-ttl", "soon", "--pool-size", "0", "--log-format", "xml"];
    let (code, said) = ended("control-plane", &bad).await;
    assert_eq!(code, Some(64), "{said}");
    for flag in ["--database-url", "--grpc-listen", "--lease-ttl", "--pool-size", "--log-format"] {
        assert!(said.contains(flag), "no {flag} in {said}");
    }
    let (code, said) = ended("agent", &["--max-in-flight", "10001"]).await;
    assert_eq!(code, Some(64), "{said}");
    for text in ["--control-plane", "--max-in-flight: must be 1 to 10000"] {
        assert!(said.contains(text), "no {text} in {said}");
    }
}

#[tokio::test]
async fn the_log_has_neither_colors_nor_the_text_of_migrations() {
    let database = database().await;
    let log = Plane::start(database.url()).await.log();
    assert!(!log.contains('\u{1b}'), "{log}");
    assert!(!log.contains("CREATE"), "{log}");
}

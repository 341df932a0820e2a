//! A migration on its own, as an installer runs it before any control plane starts.

use std::process::Stdio;

use posthaste_tests::{Plane, database, program};
use tokio::process::Command;

/// Runs `control-plane` with these arguments to its end: its exit code and what it logged.
async fn run(args: &[&str]) -> (Option<i32>, String) {
    let child = Command::new(program::path())
        .args(["internal", "control-plane"])
        .args(args)
        .env_remove("POSTHASTE_DATABASE_URL")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(posthaste_tests::wait::LIMIT, child).await.expect("ends by itself").unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn several_at_once_migrate_once_and_need_no_key() {
    let database = database().await;
    let args = ["--migrate-only", "--accept-loss", "--database-url", database.url()];
    let ((first, log), (second, other)) = tokio::join!(run(&args), run(&args));
    assert_eq!((first, second), (Some(0), Some(0)), "{log}{other}");
    let pool = database.pool().await;
    let applied = "/* test_applied_once */ SELECT count(*), count(DISTINCT version) FROM posthaste._sqlx_migrations";
    let (all, distinct): (i64, i64) = sqlx::query_as(applied).fetch_one(&pool).await.unwrap();
    assert!(all > 0 && all == distinct, "{all} {distinct}");
    let plane = Plane::start(database.url()).await;
    plane.create_account("acme").await;
    assert_eq!(run(&args).await.0, Some(0), "a repeated one changes nothing");
}

#[tokio::test]
async fn its_exit_code_says_what_is_wrong() {
    let (code, log) = run(&["--migrate-only"]).await;
    assert!(code == Some(64) && log.contains("--database-url is missing"), "{code:?} {log}");
    let (code, log) = run(&["--migrate-only", "--database-url", "postgres://127.0.0.1:1/x"]).await;
    assert!(code == Some(69) && log.contains("can't be reached"), "{code:?} {log}");
}

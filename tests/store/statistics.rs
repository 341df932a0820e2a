//! The database's own statistics under a backlog: leasing a row stays within its page and touches no index.

use std::process::Stdio;

use posthaste_tests::program;
use tokio::process::Command;

/// The share that the queue's layout promises.
const HOT_PERCENT_MIN: f64 = 95.0;
/// Emit and settle work in groups: far fewer commits than deliveries, however slow the machine is.
const COMMITS_MAX: f64 = 0.5;

#[tokio::test]
async fn leases_under_backlog_touch_no_index() {
    let output = Command::new(program::path())
        .args(["bench", "statistics", "--deliveries", "3000", "--agents", "1"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success(), "{}", output.status);
    let figure = |label: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_else(|| panic!("no {label}"));
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(figure("deliveries"), 3_000.0);
    assert!(figure("HOT updates of queue") >= HOT_PERCENT_MIN);
    assert!(figure("WAL per delivery") > 0.0);
    assert!(figure("commits per delivery") < COMMITS_MAX);
}

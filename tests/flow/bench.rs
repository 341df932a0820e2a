//! The measurements measure: small ones deliver what they say, to the last request, and compare only what is alike.
//! Nothing here judges a time.

use std::path::Path;
use std::process::{Output, Stdio};

use posthaste_tests::program;
use serde_json::Value;
use tokio::process::Command;

async fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(program::path());
    command.arg("bench").args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.unwrap();
    println!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every figure of the result is there, and is a number unless it is said not to be measured.
fn check_figures(document: &Value, name: &str, deliveries: u64, processes: &[&str], not_measured: &[&str]) {
    let figures = &document["results"][name];
    assert_eq!(figures["deliveries"], deliveries, "{name}");
    for none in ["duplicates", "missing", "unexpected"] {
        assert_eq!(figures[none], 0, "{name}: {none}");
    }
    for figure in [
        "/seconds",
        "/deliveries_per_s",
        "/events_per_s",
        "/emit_to_answer_ms/p50",
        "/emit_to_answer_ms/p99",
        "/emit_to_arrival_ms/p50",
        "/emit_to_arrival_ms/p99",
        "/wal_bytes_per_delivery",
        "/commits_per_delivery",
    ] {
        let measured = !not_measured.iter().any(|name| figure[1..].starts_with(name));
        let value = figures.pointer(figure).and_then(Value::as_f64);
        assert_eq!(value.is_some(), measured, "{name}: {figure}: {figures}");
        assert!(value.is_none_or(|value| value > 0.0), "{name}: {figure}: {value:?}");
    }
    // What is leased at once is never updated, so there may be nothing to take a share of.
    assert!(figures.as_object().unwrap().contains_key("hot_percent"), "{name}");
    for figure in ["cpu_us_per_delivery", "memory_peak_bytes"] {
        let mut names: Vec<&str> = figures[figure].as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, processes, "{name}: {figure}");
    }
    for process in processes {
        assert!(figures["memory_peak_bytes"][process].as_u64().unwrap() > 1_000_000, "{name}: {process}");
    }
}

#[tokio::test]
async fn a_small_throughput_is_exact_and_complete() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.json");
    let path = |file: &Path| file.to_str().unwrap().to_owned();
    let small = ["throughput", "--deliveries", "200", "--endpoints", "4", "--fan-out", "2", "--batch", "10"];
    let first = bench(&[&small[..], &["--output", "json"]].concat()).await;
    let result = document(&first);
    std::fs::write(&file, &first.stdout).unwrap();

    let product = ["agents", "caller", "control_plane", "postgres", "receiver"];
    for name in ["unary", "batched"] {
        check_figures(&result, name, 200, &product, &[]);
    }
    check_figures(&result, "pipe", 200, &["pipe", "postgres", "receiver"], &[]);
    let not_measured = ["events_per_s", "emit_to_answer", "wal_bytes", "commits"];
    check_figures(&result, "bare_loop", 200, &["bare_loop", "receiver"], &not_measured);
    for ratio in ["unary_to_pipe", "unary_to_bare_loop", "batched_to_pipe", "batched_to_bare_loop"] {
        assert!(result["ratios"][ratio].as_f64().unwrap() > 0.0, "{ratio}");
    }
    for (option, value) in [("payload_bytes", 1_000), ("fan_out", 2), ("endpoints", 4), ("room", 64), ("callers", 64)] {
        assert_eq!(result["options"][option], value, "{option}");
    }
    assert_eq!(result["profile"], if cfg!(debug_assertions) { "debug" } else { "release" });
    assert!(result["machine"]["processors"].as_u64().unwrap() > 0);

    let other = bench(&["throughput", "--deliveries", "300", "--compare", &path(&file)]).await;
    assert_eq!(other.status.code(), Some(2));
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("deliveries (200 → 300)") && said.contains("endpoints (4 → 1)"), "{said}");
    assert!(other.stdout.is_empty());

    let again = bench(&[&small[..], &["--compare", &path(&file)]].concat()).await;
    assert!(again.status.success(), "{}", again.status);
    let table = String::from_utf8_lossy(&again.stdout);
    for part in ["naive pipe", "deliveries/s", "old → new", "batched.deliveries_per_s", "pipe.wal_bytes_per_delivery"]
    {
        assert!(table.contains(part), "{part}");
    }
}

#[tokio::test]
async fn latency_runs_by_the_clock_and_a_backlog_waits_for_its_agents() {
    let latency = document(&bench(&["latency", "--rate", "50", "--seconds", "1", "--output", "json"]).await);
    for name in ["unary", "pipe", "bare_loop"] {
        assert_eq!(latency["results"][name]["deliveries"], 50, "{name}");
        // The last event is due 0.98 s after the first.
        assert!(latency["results"][name]["seconds"].as_f64().unwrap() >= 0.98, "{name}");
    }
    let backlog = document(&bench(&["backlog", "--deliveries", "200", "--batch", "20", "--output", "json"]).await);
    for name in ["batched", "pipe", "bare_loop"] {
        assert_eq!(backlog["results"][name]["deliveries"], 200, "{name}");
    }
}

/// The document of a scenario with claims. Whether these are met is no matter here; that nothing is missing is.
async fn claims(args: &[&str], claims: usize) -> Value {
    let output = bench(&[args, &["--output", "json"]].concat()).await;
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["problems"], serde_json::json!([]));
    let judged = document["claims"].as_array().unwrap();
    assert_eq!(judged.len(), claims, "{judged:?}");
    for claim in judged {
        let (measured, met) = (&claim["measured"], claim["met"].as_bool().unwrap());
        assert!(measured.is_f64(), "{claim}");
        let (least, most) = (claim["at_least"].as_f64(), claim["at_most"].as_f64());
        let measured = measured.as_f64().unwrap();
        assert!(least.is_some() || most.is_some(), "{claim}");
        assert_eq!(met, least.is_none_or(|least| measured >= least) && most.is_none_or(|most| measured <= most));
    }
    let all_met = judged.iter().all(|claim| claim["met"] == true);
    assert_eq!(output.status.code(), Some(i32::from(!all_met)));
    document
}

#[tokio::test]
async fn isolation_delivers_everything_healthy_beside_what_hangs() {
    let small = ["--rate", "80", "--seconds", "1", "--endpoints", "8", "--hanging", "4", "--rounds", "1"];
    let document = claims(&[&["isolation", "--timeout-s", "1", "--shared-room", "4"], &small[..]].concat(), 5).await;
    let runs = document["runs"].as_array().unwrap();
    let healthy: Vec<&Value> = runs.iter().map(|run| &run["figures"]["arrived"]).collect();
    assert_eq!(healthy, [80.0, 80.0, 80.0, 40.0, 40.0, 40.0]);
    let others: Vec<f64> = runs.iter().map(|run| run["figures"]["requests_to_others"].as_f64().unwrap()).collect();
    assert_eq!((others[0], others[1], others[3]), (0.0, 40.0, 0.0), "{others:?}");
    assert!(others[2] > 0.0 && others[4] >= 8.0 && others[5] >= 4.0, "{others:?}");
    assert!(runs[5]["figures"]["p99_ms"].as_f64() > runs[4]["figures"]["p99_ms"].as_f64(), "{runs:?}");
}

#[tokio::test]
async fn fairness_finds_every_small_account_and_counts_two_weights() {
    let small = ["--deliveries", "3000", "--accounts", "5", "--rate", "50", "--weighed-deliveries", "6000"];
    let document = claims(&[&["fairness"], &small[..]].concat(), 2).await;
    let figure = |run: usize, name: &str| document["runs"][run]["figures"][name].as_f64().unwrap();
    assert_eq!(figure(1, "arrived"), 5.0);
    for run in [0, 2, 3] {
        assert!(figure(run, "deliveries_in_window") > 0.0, "{document}");
    }
}

#[tokio::test]
async fn limits_counts_the_time_of_both_sides() {
    let small = ["--pairs", "2", "--rate", "40", "--seconds", "1", "--accounts", "2"];
    let document = claims(&[&["limits"], &small[..]].concat(), 1).await;
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    let (free, limited) = ("without limits", "with limits");
    assert_eq!(names, [free, limited, limited, free, "median without limits", "median with limits"]);
    for run in runs {
        assert!(run["figures"]["cpu_us_all"].as_f64().unwrap() > 0.0, "{run}");
    }
    assert!(runs[..4].iter().all(|run| run["figures"]["arrived"] == 40.0), "{runs:?}");
}

#[tokio::test]
async fn what_cannot_be_measured_is_refused_at_once() {
    let output = bench(&["throughput", "--endpoints", "10", "--fan-out", "3", "--payload-bytes", "1"]).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("multiple of --fan-out") && said.contains("--payload-bytes"), "{said}");
}

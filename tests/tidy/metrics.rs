//! Metrics: each is declared in its program's `metrics.rs` and nowhere else, and stands in the page about them.

use std::collections::BTreeSet;

use crate::{
    rust::literals,
    tree::{File, assert_clean, assert_finds, file, files},
};

/// The one file of each program, and that of the metric which both have.
const HOMES: [&str; 3] = ["control-plane/src/metrics.rs", "agent/src/metrics.rs", "telemetry/src/metrics.rs"];

/// What the last word of a name may be: a unit, what is counted, or `total`.
const UNITS: [&str; 9] =
    ["total", "seconds", "bytes", "deliveries", "attempts", "results", "lanes", "shards", "sessions"];

/// The literals of these files that are names of metrics; tests declare some of their own.
fn declared(file: &File) -> Vec<(usize, String)> {
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = literals(code).into_iter().filter(|each| each.text.starts_with("posthaste_"));
    names.filter(|each| each.text.chars().all(plain)).map(|each| (each.line, each.text)).collect()
}

fn each_is_declared_once_and_documented(files: &[File], page: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    let rows = page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let documented: BTreeSet<String> = rows.filter(|name| name.starts_with("posthaste_")).map(str::to_owned).collect();
    for file in files.iter().filter(|file| HOMES.contains(&file.path.as_str())) {
        for (line, name) in declared(file) {
            if !documented.contains(&name) {
                problems.push(file.problem(line, format_args!("`{name}` has no row in {}", page.path)));
            }
            let unit = name.rsplit('_').next().unwrap_or_default();
            if !UNITS.contains(&unit) && !name.ends_with("_info") {
                problems.push(file.problem(line, format_args!("`{name}` does not end with a unit")));
            }
            if !known.insert(name.clone()) {
                problems.push(file.problem(line, format_args!("`{name}` is declared twice")));
            }
        }
    }
    problems.extend(documented.difference(&known).map(|name| format!("{}: nothing declares `{name}`", page.path)));
    let elsewhere = |file: &&File| file.is("rs") && file.path.contains("/src/") && !HOMES.contains(&file.path.as_str());
    for file in files.iter().filter(elsewhere) {
        let found = literals(&file.text).into_iter().filter(|each| known.contains(&each.text));
        problems.extend(found.map(|each| file.problem(each.line, format_args!("`{}` has one home", each.text))));
    }
    problems
}

#[test]
fn every_metric_has_one_home_and_a_row() {
    let count: usize = HOMES.iter().map(|path| declared(file(path)).len()).sum();
    assert!(count > 15, "only {count} metrics found");
    assert_clean(&each_is_declared_once_and_documented(files(), file("docs/observability.md")));
}

#[test]
fn planted_metrics_are_found() {
    let page = File::new("docs/observability.md", "| `posthaste_old_total` | x |\n| `posthaste_a_total{b}` | y |");
    let home = File::new(
        "agent/src/metrics.rs",
        "r.counter(\"posthaste_a_total\"); r.counter(\"posthaste_new_total\");\nr.gauge(\"posthaste_speed\")",
    );
    let other = File::new("agent/src/send.rs", "count(\"posthaste_a_total\")");
    let problems = each_is_declared_once_and_documented(&[home.clone(), home, other], &page);
    for words in [
        "metrics.rs:1: `posthaste_new_total` has no row",
        "metrics.rs:2: `posthaste_speed` does not end",
        "`posthaste_a_total` is declared twice",
        "nothing declares `posthaste_old_total`",
        "send.rs:1: `posthaste_a_total` has one home",
    ] {
        assert_finds(&problems, words);
    }
}

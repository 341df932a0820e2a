//! Faults of others and defences: each has its mark, and the tests that are named exist.

use std::collections::BTreeSet;

use crate::tree::{File, assert_clean, assert_finds, file, files};

/// Fewer would mean that the log's form has changed.
const REPORTS_MIN: usize = 140;

/// The rows of the log with their line numbers: report, what went wrong, mark.
fn rows(log: &File) -> Vec<(usize, Vec<&str>)> {
    let rows = log.text.lines().enumerate().filter_map(|(index, line)| {
        let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some((index + 1, inside.split(" | ").collect::<Vec<_>>()))
    });
    rows.filter(|(_, cells)| cells[0] != "report").collect()
}

/// Whether `module::function` is a test: a function with a test's attribute in a file or folder of that name.
fn is_test(name: &str, files: &[File]) -> bool {
    let Some((module, function)) = name.split_once("::") else { return false };
    let declared = format!("fn {function}(");
    files.iter().filter(|file| file.is("rs")).any(|file| {
        let within = file.path.trim_end_matches(".rs").split('/').any(|part| part == module);
        within
            && file.text.match_indices(&declared).any(|(at, _)| {
                let before = file.text[..at].trim_end().trim_end_matches("async").trim_end();
                let attribute = before.lines().next_back().unwrap_or_default().trim();
                attribute == "#[test]" || attribute.starts_with("#[tokio::test")
            })
    })
}

fn every_report_has_its_mark(log: &File, files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut reports = BTreeSet::new();
    for (line, cells) in rows(log) {
        let [report, words, mark] = cells[..] else {
            problems.push(log.problem(line, format_args!("has {} cells, not 3", cells.len())));
            continue;
        };
        if !reports.insert(report) {
            problems.push(log.problem(line, format_args!("{report} stands twice")));
        }
        if words.is_empty() {
            problems.push(log.problem(line, "says nothing"));
        }
        match mark.split_once(": ") {
            Some(("test", names)) => {
                let names: Vec<_> = names.split(", ").map(|name| name.trim_matches('`')).collect();
                let missing = names.iter().filter(|name| !is_test(name, files));
                problems.extend(missing.map(|name| log.problem(line, format_args!("there is no test {name}"))));
            }
            Some(("later" | "n/a", why)) if !why.trim().is_empty() => {}
            _ => problems.push(log.problem(line, format_args!("`{mark}` is no mark: test, later or n/a"))),
        }
    }
    problems
}

/// Tests that a page names as `module::function` and that don't exist.
fn missing_tests(page: &File, files: &[File]) -> Vec<String> {
    let named = page.text.lines().enumerate().flat_map(|(index, line)| {
        let spans = line.split('`').skip(1).step_by(2);
        spans.filter(|span| span.contains("::") && !span.contains([' ', '(', '/'])).map(move |span| (index + 1, span))
    });
    let missing = named.filter(|(_, name)| !is_test(name, files));
    missing.map(|(line, name)| page.problem(line, format_args!("there is no test {name}"))).collect()
}

#[test]
fn every_defence_names_tests_that_exist() {
    let page = file("docs/security.md");
    assert!(page.text.matches("::").count() >= 20, "the page names too few tests");
    assert_clean(&missing_tests(page, files()));
    let planted = File::new("docs/security.md", "| a defence | `none::such_test` |");
    assert_finds(&missing_tests(&planted, files()), "security.md:1: there is no test none::such_test");
}

#[test]
fn every_report_is_tested_or_says_why_not() {
    let log = file("docs/bug_log.md");
    assert!(rows(log).len() >= REPORTS_MIN, "only {} reports", rows(log).len());
    assert_clean(&every_report_has_its_mark(log, files()));
}

#[test]
fn planted_gaps_in_the_log_are_found() {
    let test = File::new("tests/a/b.rs", "//! A.\n#[tokio::test]\nasync fn holds() {}\nfn helper() {}\n");
    let find = |row: &str| {
        let log = File::new("docs/bug_log.md", &format!("| report | what | here |\n|---|---|---|\n{row}"));
        every_report_has_its_mark(&log, std::slice::from_ref(&test))
    };
    assert_clean(&find("| a/b#1 | it broke. | test: `b::holds`, `a::holds` |"));
    assert_clean(&find("| a/b#1 | it broke. | n/a: no such thing here |"));
    assert_finds(&find("| a/b#1 | it broke. | test: `b::helper` |"), "bug_log.md:3: there is no test b::helper");
    assert_finds(&find("| a/b#1 | it broke. | test: `c::holds` |"), "no test c::holds");
    assert_finds(&find("| a/b#1 | it broke. | soon |"), "`soon` is no mark");
    assert_finds(&find("| a/b#1 | it broke. | later:  |"), "is no mark");
    assert_finds(&find("| a/b#1 | test: `b::holds` |"), "has 2 cells");
    assert_finds(&find("| a/b#1 | x. | n/a: y |\n| a/b#1 | x. | n/a: y |"), "stands twice");
}

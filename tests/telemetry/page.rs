//! `docs/observability.md`: its tables say what is served, and what it shows was really seen. With `UPDATE_DOCS=1` the tests
//! write anew what they saw.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Statements whose durations are shown; the others look alike.
const STATEMENTS: [&str; 3] = ["emit", "claim", "settle"];

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/observability.md"))
}

fn text() -> String {
    fs::read_to_string(path()).expect("docs/observability.md can be read")
}

/// The metrics in the table below the heading `### Of the PROGRAM`.
pub(crate) fn documented(program: &str) -> BTreeSet<String> {
    let text = text();
    let heading = format!("### Of the {program}\n");
    let (_, section) = text.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
    let table = section.split("\n#").next().unwrap_or_default();
    let names = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    names.map(str::to_owned).collect()
}

/// What the page shows at this mark.
fn shown(text: &str, mark: &str) -> String {
    let (_, rest) = text.split_once(&begin(mark)).unwrap_or_else(|| panic!("no {}", begin(mark)));
    let (shown, _) = rest.split_once(&end(mark)).unwrap_or_else(|| panic!("no {}", end(mark)));
    shown.trim().trim_start_matches("```text").trim_end_matches("```").trim().to_owned()
}

fn begin(mark: &str) -> String {
    format!("<!-- {mark}: written by UPDATE_DOCS=1 ./test -E 'binary(telemetry)' -->")
}

fn end(mark: &str) -> String {
    format!("<!-- end of {mark} -->")
}

/// Writes what was seen, if that is asked for.
fn update(mark: &str, seen: &str) {
    if std::env::var_os("UPDATE_DOCS").is_none() {
        return;
    }
    let text = text();
    let (before, rest) = text.split_once(&begin(mark)).expect("the mark is there");
    let (_, after) = rest.split_once(&end(mark)).expect("the mark is there");
    let new = format!("{before}{}\n\n```text\n{seen}\n```\n\n{}{after}", begin(mark), end(mark));
    // In one step: another test may be reading it.
    let unfinished = path().with_extension("md.unfinished");
    fs::write(&unfinished, new).expect("writes docs/observability.md");
    fs::rename(&unfinished, path()).expect("writes docs/observability.md");
}

/// A scrape without buckets, of which there are too many to read.
fn readable(scrape: &str) -> String {
    let wanted = |line: &&str| {
        let statement = line.split("statement=\"").nth(1).and_then(|rest| rest.split('"').next());
        !line.contains("_bucket{") && statement.is_none_or(|name| STATEMENTS.contains(&name))
    };
    scrape.lines().filter(wanted).collect::<Vec<_>>().join("\n")
}

/// Shows both scrapes; a page that shows other series than these is out of date.
pub(crate) fn keep_scrapes(of_plane: &str, of_agent: &str) {
    for (mark, scrape) in [("scrape of a control plane", of_plane), ("scrape of an agent", of_agent)] {
        let seen = readable(scrape);
        update(mark, &seen);
        let series = |text: &str| -> BTreeSet<String> {
            text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
        };
        let (on_page, seen) = (series(&shown(&text(), mark)), series(&seen));
        let differ: Vec<_> = on_page.symmetric_difference(&seen).collect();
        assert!(differ.is_empty(), "docs/observability.md differs in {differ:?}: run the test with UPDATE_DOCS=1");
    }
}

/// Shows a trace, which is always the same.
pub(crate) fn keep_trace(tree: &str) {
    let mark = "trace of a delivery";
    update(mark, tree.trim_end());
    assert_eq!(
        shown(&text(), mark),
        tree.trim(),
        "docs/observability.md is out of date: run the test with UPDATE_DOCS=1"
    );
}

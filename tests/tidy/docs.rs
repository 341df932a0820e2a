//! Documents say what the code says: errors, settings, links.

use std::collections::BTreeSet;

use crate::{
    rust::literals,
    tree::{File, assert_clean, assert_finds, file, files, root},
};

/// The reasons of `error.proto` without their prefix, less the one that is never sent.
pub(crate) fn reasons(proto: &File) -> BTreeSet<String> {
    let values = proto.text.lines().filter_map(|line| line.trim().strip_prefix("ERROR_REASON_")?.split_once(" = "));
    values.map(|(name, _)| name.to_owned()).filter(|name| name != "UNSPECIFIED").collect()
}

fn every_reason_is_documented(proto: &File, document: &File) -> Vec<String> {
    let reasons = reasons(proto);
    let rows = document.text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<_> = rows.map(|(name, _)| name.to_owned()).collect();
    let missing = reasons.difference(&documented).map(|name| format!("{}: {name} has no row", document.path));
    let stale =
        documented.difference(&reasons).map(|name| format!("{}: no error has the reason {name}", document.path));
    missing.chain(stale).collect()
}

/// Names of environment variables that a program reads.
fn every_setting_is_documented(files: &[File], document: &File) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs") && file.path.contains("/src/") && !file.under(&["tests/"])) {
        for literal in literals(&file.text) {
            let is_name = literal.text.strip_prefix("POSTHASTE_").is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            });
            if is_name && !document.text.contains(&format!("`{}`", literal.text)) {
                problems
                    .push(file.problem(literal.line, format_args!("`{}` is not in {}", literal.text, document.path)));
            }
        }
    }
    problems
}

/// Links from one document to another file of the repository lead somewhere.
fn links_lead_somewhere(files: &[File], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in file.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let path = target.split('#').next().unwrap_or_default();
                if !path.is_empty() && !path.contains("://") && !exists(&resolve(folder, path)) {
                    problems.push(file.problem(index + 1, format_args!("the link to `{target}` leads nowhere")));
                }
            }
        }
    }
    problems
}

fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Paths that the map of the code names in backticks exist.
fn paths_exist(map: &File, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in map.text.lines().enumerate() {
        for path in line.split('`').skip(1).step_by(2).filter(|text| text.contains("/src") || text.ends_with('/')) {
            if !exists(path) {
                problems.push(map.problem(index + 1, format_args!("`{path}` does not exist")));
            }
        }
    }
    problems
}

#[test]
fn every_error_reason_is_documented() {
    let proto = file("proto/posthaste/v1/error.proto");
    assert!(reasons(proto).len() >= 20, "{:?}", reasons(proto));
    assert_clean(&every_reason_is_documented(proto, file("docs/errors.md")));
}

#[test]
fn every_environment_variable_is_documented() {
    assert_clean(&every_setting_is_documented(files(), file("docs/configuration.md")));
}

#[test]
fn every_link_leads_somewhere() {
    assert_clean(&links_lead_somewhere(files(), |path| root().join(path).exists()));
}

#[test]
fn the_map_of_the_code_is_true() {
    // Folders are named inside the crate that the row is about, too.
    let crates = ["", "control-plane/src/"];
    let exists = |path: &str| crates.iter().any(|within| root().join(format!("{within}{path}")).exists());
    assert_clean(&paths_exist(file("ARCHITECTURE.md"), exists));
}

#[test]
fn planted_gaps_in_documents_are_found() {
    let proto = File::new("error.proto", "  ERROR_REASON_UNSPECIFIED = 0;\n  ERROR_REASON_NEW = 1;");
    let errors = File::new("docs/errors.md", "| `OLD` | x |");
    assert_finds(&every_reason_is_documented(&proto, &errors), "NEW has no row");
    assert_finds(&every_reason_is_documented(&proto, &errors), "no error has the reason OLD");
    let source = File::new("cli/src/args.rs", "//! A.\n#[arg(env = \"POSTHASTE_SECRET\")]");
    assert_finds(&every_setting_is_documented(&[source], &errors), "args.rs:2: `POSTHASTE_SECRET`");
    let page = File::new("docs/a.md", "see [b](../b.md#x) and [c](https://example.com)");
    let map = File::new("ARCHITECTURE.md", "`domain/` and\n`domain/src/gone.rs`");
    assert_finds(&paths_exist(&map, |path| path == "domain/"), "ARCHITECTURE.md:2: `domain/src/gone.rs`");
    assert_finds(&links_lead_somewhere(&[page], |path| path != "b.md"), "leads nowhere");
}

//! What a source file looks like: it says what it is for, is short, and isn't a drawer for leftovers.

use crate::tree::{File, assert_clean, assert_finds, files};

const LINES_MAX: usize = 500;

/// Names that say nothing about what is inside.
const DRAWERS: [&str; 6] = ["utils", "util", "common", "helpers", "misc", "inner"];

fn opens_and_ends(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        if !file.text.starts_with("//! ") {
            problems.push(file.problem(1, "begins without a `//!` sentence that says what the file is for"));
        }
        if file.text.starts_with("//! Placeholder") {
            problems.push(file.problem(1, "is a placeholder"));
        }
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            problems.push(file.problem(lines, format_args!("is longer than {LINES_MAX} lines")));
        }
    }
    problems
}

/// Libraries answer with errors; they neither panic on one nor print. Clippy judges it where this line asks for it.
fn libraries_do_not_panic_or_print(files: &[File]) -> Vec<String> {
    let lints = ["clippy::expect_used", "clippy::print_stderr", "clippy::print_stdout", "clippy::unwrap_used"];
    let libraries = files.iter().filter(|file| file.path.ends_with("/src/lib.rs") && !file.under(&["tests/"]));
    libraries
        .flat_map(|file| lints.iter().filter(|lint| !file.text.contains(**lint)).map(move |lint| (file, lint)))
        .map(|(file, lint)| file.problem(1, format_args!("does not warn of {lint}")))
        .collect()
}

fn named_for_what_it_holds(files: &[File]) -> Vec<String> {
    let is_drawer = |part: &str| DRAWERS.iter().any(|name| part == *name || part == format!("{name}.rs"));
    let drawers = files.iter().filter(|file| file.is("rs") && file.path.split('/').any(is_drawer));
    drawers.map(|file| file.problem(1, "has a name that says nothing about what it holds")).collect()
}

#[test]
fn every_source_file_opens_with_its_purpose_and_is_short() {
    assert_clean(&opens_and_ends(files()));
}

#[test]
fn no_library_panics_or_prints() {
    assert_clean(&libraries_do_not_panic_or_print(files()));
}

#[test]
fn no_file_is_a_drawer() {
    assert_clean(&named_for_what_it_holds(files()));
}

#[test]
fn planted_bad_shapes_are_found() {
    assert_finds(&opens_and_ends(&[File::new("a/src/x.rs", "use std::fmt;\n")]), "begins without");
    assert_finds(&opens_and_ends(&[File::new("a/src/x.rs", "//! Placeholder.\n")]), "is a placeholder");
    let long = format!("//! Long.\n{}", "fn f() {}\n".repeat(LINES_MAX));
    assert_finds(&opens_and_ends(&[File::new("a/src/x.rs", &long)]), "x.rs:501: is longer");
    let careless = File::new("a/src/lib.rs", "//! A.\n#![warn(clippy::unwrap_used)]");
    assert_finds(&libraries_do_not_panic_or_print(&[careless]), "does not warn of clippy::print_stdout");
    assert_finds(&named_for_what_it_holds(&[File::new("a/src/utils/x.rs", "")]), "says nothing");
    assert_finds(&named_for_what_it_holds(&[File::new("a/src/common.rs", "")]), "says nothing");
}

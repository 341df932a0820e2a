//! Words that don't stand in this repository: loose ends, names of the place it was written in, and names for our nouns
//! that mean something else.

use crate::{
    rust::has_word,
    tree::{File, assert_clean, assert_finds, files},
};

/// What a line must not say anywhere.
const LOOSE_ENDS: [&str; 5] = ["TODO", "FIXME", "XXX", "HACK", "WIP"];

/// Where somebody worked is no fact about the product, and a registry's host goes stale.
const PLACES: [&str; 11] = [
    "../shared",
    "/work/",
    "DESIGN.md",
    "STYLE.md",
    "STACK.md",
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
    "static.crates.io",
    "index.crates.io",
    "deb.debian.org",
];

/// Another word for one of our nouns, and ours.
const SYNONYMS: [(&str, &str); 9] = [
    ("tenant", "account"),
    ("tenant_id", "account_id"),
    ("dlq", "ended, exhausted"),
    ("dead_letter", "ended, exhausted"),
    ("nack", "return"),
    ("next_attempt_at", "due_time"),
    ("run_at", "due_time"),
    ("reaper", "rescue"),
    ("visibility_timeout", "lease"),
];

fn judged(file: &File) -> bool {
    !file.under(&["tests/tidy/", "LICENSE", "Cargo.lock"])
}

fn no_loose_ends(files: &[File]) -> Vec<String> {
    find(files, |line| LOOSE_ENDS.iter().find(|word| has_word(line, word)).map(|word| format!("`{word}` is left over")))
}

fn no_places(files: &[File]) -> Vec<String> {
    find(files, |line| {
        PLACES.iter().find(|place| line.contains(**place)).map(|place| format!("`{place}` is no part of the product"))
    })
}

fn our_words(files: &[File]) -> Vec<String> {
    let code: Vec<_> = files.iter().filter(|f| f.is("rs") || f.is("proto") || f.is("sql")).cloned().collect();
    find(&code, |line| {
        let line = line.to_lowercase();
        SYNONYMS.iter().find(|(word, _)| has_word(&line, word)).map(|(word, ours)| format!("`{word}`: we say {ours}"))
    })
}

fn find(files: &[File], fault: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| judged(file)) {
        for (index, line) in file.text.lines().enumerate() {
            problems.extend(fault(line).map(|what| file.problem(index + 1, what)));
        }
    }
    problems
}

#[test]
fn nothing_is_left_for_later() {
    assert_clean(&no_loose_ends(files()));
}

#[test]
fn no_place_of_work_is_named() {
    assert_clean(&no_places(files()));
}

#[test]
fn our_nouns_have_one_name() {
    assert_clean(&our_words(files()));
}

#[test]
fn planted_words_are_found() {
    assert_finds(&no_loose_ends(&[File::new("a.rs", "x\n// TODO: later")]), "a.rs:2: `TODO`");
    assert_finds(&no_places(&[File::new("README.md", "see ../shared/x")]), "../shared");
    assert_finds(&no_places(&[File::new("a.toml", "https://pypi.org/simple")]), "pypi.org");
    assert_finds(&our_words(&[File::new("a.proto", "string tenant_id = 1;")]), "we say account_id");
    assert_clean(&our_words(&[File::new("a.rs", "let lieutenant = nackle;")]));
}

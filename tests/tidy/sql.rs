//! SQL: every statement has a name of its own, and a state that the schema allows is one that the domain knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    rust::literals,
    tree::{File, assert_clean, assert_finds, files},
};

const VERBS: [&str; 14] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "TRUNCATE", "LOCK", "NOTIFY", "LISTEN", "CALL", "COPY",
    "SET", "CREATE",
];

/// Columns whose allowed words are names of the domain.
const NAMED_COLUMNS: [&str; 5] = ["state", "verdict", "outcome", "reached", "disabled_reason"];

/// The name in `-- name` or `/* name */` at the start of a statement.
fn name(statement: &str) -> Option<&str> {
    let text = statement.trim_start();
    let name = match text.strip_prefix("--") {
        Some(rest) => rest.lines().next()?.trim(),
        None => text.strip_prefix("/*")?.split_once("*/")?.0.trim(),
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn is_statement(text: &str) -> bool {
    let text = text.trim_start();
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let continues = text[first.len()..].starts_with(char::is_whitespace);
    continues
        && VERBS
            .iter()
            .any(|verb| first.eq_ignore_ascii_case(verb) && first != first.to_lowercase() && first != capital(first))
}

/// `Select`, as a sentence may begin.
fn capital(word: &str) -> String {
    word.chars()
        .enumerate()
        .map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect()
}

fn every_statement_is_named(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut note = |name: &str, place: String, problems: &mut Vec<String>| {
        if let Some(first) = seen.insert(name.to_owned(), place.clone()) {
            problems.push(format!("{place}: the statement's name `{name}` is taken by {first}"));
        }
    };
    for file in files.iter().filter(|file| file.is("sql") && file.path.contains("/queries/")) {
        match name(&file.text) {
            Some(name) => note(name, format!("{}:1", file.path), &mut problems),
            None => problems.push(file.problem(1, "begins without `-- name`")),
        }
    }
    for file in files.iter().filter(|file| file.is("rs") && file.under(&["control-plane/src", "bench/src"])) {
        for literal in literals(&file.text) {
            if is_statement(&literal.text) {
                problems.push(file.problem(literal.line, "a statement begins without `-- name` or `/* name */`"));
            } else if let Some(name) = name(&literal.text) {
                note(name, format!("{}:{}", file.path, literal.line), &mut problems);
            }
        }
    }
    problems
}

/// The words of every `column IN ('a', 'b')` over a column that the domain names.
fn checked_words(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for column in NAMED_COLUMNS {
        for (at, _) in file.text.match_indices(&format!("{column} IN (")) {
            let part_of_a_name = file.text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let list = file.text[at..].split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            let Some((list, _)) = list.filter(|_| !part_of_a_name) else { continue };
            let line = file.text[..at].matches('\n').count() + 1;
            found.extend(list.split('\'').skip(1).step_by(2).map(|word| (line, word.to_owned())));
        }
    }
    found
}

fn the_domain_knows_every_checked_word(files: &[File]) -> Vec<String> {
    let of_domain = files.iter().filter(|file| file.is("rs") && file.under(&["domain/src"]));
    let known: BTreeSet<_> = of_domain.flat_map(|file| literals(&file.text)).map(|literal| literal.text).collect();
    let migrations = files.iter().filter(|file| file.is("sql") && file.under(&["migrations/"]));
    migrations
        .flat_map(|file| checked_words(file).into_iter().map(move |(line, word)| (file, line, word)))
        .filter(|(_, _, word)| !known.contains(word))
        .map(|(file, line, word)| file.problem(line, format_args!("`{word}` is no name that the domain gives")))
        .collect()
}

#[test]
fn every_statement_has_a_name_of_its_own() {
    assert_clean(&every_statement_is_named(files()));
}

#[test]
fn the_schema_allows_only_words_of_the_domain() {
    assert_clean(&the_domain_knows_every_checked_word(files()));
}

#[test]
fn planted_unnamed_statements_are_found() {
    let unnamed = File::new("control-plane/src/store/x.rs", "sqlx::query(\"SELECT 1\")");
    assert_finds(&every_statement_is_named(&[unnamed]), "x.rs:1: a statement begins without");
    let raw = File::new("bench/src/x.rs", "const Q: &str = r#\"\n  WITH a AS (SELECT 1) SELECT 2\"#;");
    assert_finds(&every_statement_is_named(&[raw]), "begins without");
    let file = File::new("control-plane/src/store/queries/claim.sql", "WITH a AS (SELECT 1) SELECT 2");
    assert_finds(&every_statement_is_named(&[file]), "claim.sql:1: begins without");
    let twice = File::new("control-plane/src/store/x.rs", "a(\"/* probe */ SELECT 1\"); b(\"-- probe\\nSELECT 2\")");
    let twice = File::new(&twice.path, &twice.text.replace("\\n", "\n"));
    assert_finds(&every_statement_is_named(&[twice]), "`probe` is taken by");
    let prose =
        File::new("bench/src/x.rs", "say(\"Select an endpoint\"); say(\"with care\"); say(\"/* probe */ SELECT 1\")");
    assert_clean(&every_statement_is_named(&[prose]));
}

#[test]
fn a_planted_unknown_state_is_found() {
    let domain = File::new("domain/src/delivery.rs", "//! D.\nconst A: &str = \"delivered\";");
    let sql =
        File::new("migrations/0001.sql", "CREATE TABLE e (\n  state text CHECK (state IN ('delivered', 'failed')))");
    let problems = the_domain_knows_every_checked_word(&[domain, sql]);
    assert_finds(&problems, "0001.sql:2: `failed` is no name");
    assert_eq!(problems.len(), 1);
}

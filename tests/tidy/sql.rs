//! SQL: every statement has a name of its own, and a state that the schema allows is one that the domain knows.

use std::collections::BTreeMap;

use posthaste_domain::{
    attempt::{Outcome, Reached},
    delivery, endpoint,
    verdict::Verdict,
};

use crate::{
    rust::literals,
    tree::{File, assert_clean, assert_finds, files},
};

const VERBS: [&str; 14] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "TRUNCATE", "LOCK", "NOTIFY", "LISTEN", "CALL", "COPY",
    "SET", "CREATE",
];

/// A column whose words are names of the domain, and every name that the domain gives.
type NamedColumn = (&'static str, Vec<&'static str>);

fn named_columns() -> Vec<NamedColumn> {
    let of_deliveries = delivery::State::ALL.map(delivery::State::as_str);
    let of_endpoints =
        ["enabled", "disabled"].into_iter().filter(|name| endpoint::State::parse(name, some_reason(name)).is_some());
    vec![
        ("state", of_deliveries.into_iter().chain(of_endpoints).collect()),
        ("verdict", Verdict::ALL.map(Verdict::as_str).to_vec()),
        ("outcome", Outcome::ALL.map(Outcome::as_str).to_vec()),
        ("reached", Reached::ALL.map(Reached::as_str).to_vec()),
        ("reason", delivery::EndReason::ALL.map(delivery::EndReason::as_str).to_vec()),
        ("disabled_reason", delivery::DisabledReason::ALL.map(delivery::DisabledReason::as_str).to_vec()),
    ]
}

fn some_reason(state: &str) -> Option<delivery::DisabledReason> {
    (state == "disabled").then_some(delivery::DisabledReason::Gone)
}

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

/// The words of every `column IN ('a', 'b')` and `column = 'a'`, with their lines.
fn checked_words(file: &File, column: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in file.text.match_indices(column) {
        let rest = &file.text[at + column.len()..];
        let part_of_a_name = file.text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let words = match (rest.strip_prefix(" IN ("), rest.strip_prefix(" = '")) {
            (Some(list), _) => list.split_once(')').map(|(list, _)| list),
            (None, Some(_)) => rest.split_inclusive('\'').nth(1).map(|word| &rest[..4 + word.len()]),
            (None, None) => None,
        };
        let Some(words) = words.filter(|_| !part_of_a_name) else { continue };
        let line = file.text[..at].matches('\n').count() + 1;
        found.extend(words.split('\'').skip(1).step_by(2).map(|word| (line, word.to_owned())));
    }
    found
}

fn the_domain_knows_every_checked_word(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("sql") && file.under(&["migrations/"])) {
        for (column, known) in named_columns() {
            let words = checked_words(file, column);
            let unknown = words.iter().filter(|(_, word)| !known.contains(&word.as_str()));
            problems.extend(unknown.map(|(line, word)| {
                file.problem(*line, format_args!("`{word}` is no {column} that the domain knows"))
            }));
        }
    }
    problems
}

#[test]
fn every_statement_has_a_name_of_its_own() {
    assert_clean(&every_statement_is_named(files()));
}

#[test]
fn the_schema_allows_only_words_of_the_domain() {
    assert_clean(&the_domain_knows_every_checked_word(files()));
}

/// Every way in which a delivery and an attempt can stand is one that the schema allows.
#[test]
fn the_schema_allows_every_verdict_and_every_end() {
    let of_schema = |column: &str| -> Vec<String> {
        let migrations = files().iter().filter(|file| file.is("sql") && file.under(&["migrations/"]));
        migrations.flat_map(|file| checked_words(file, column)).map(|(_, word)| word).collect()
    };
    let (verdicts, states) = (of_schema("verdict"), of_schema("state"));
    for verdict in Verdict::ALL.map(Verdict::as_str) {
        assert!(verdicts.iter().any(|word| word == verdict), "no CHECK allows the verdict {verdict}");
    }
    for state in
        delivery::State::ALL.map(delivery::State::as_str).iter().filter(|&&name| !matches!(name, "pending" | "leased"))
    {
        assert!(states.iter().any(|word| word == state), "no CHECK allows the state {state}");
    }
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
    let sql = "CREATE TABLE e (\n  state text CHECK (state IN ('delivered',\n 'failed')),\n CHECK (verdict = 'fine'))";
    let problems = the_domain_knows_every_checked_word(&[File::new("migrations/0001.sql", sql)]);
    assert_finds(&problems, "0001.sql:2: `failed` is no state");
    assert_finds(&problems, "0001.sql:4: `fine` is no verdict");
    assert_eq!(problems.len(), 2);
}

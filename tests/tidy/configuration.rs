//! `docs/configuration.md` says what the programs say of themselves with `--help`: each flag, its variable, its default.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use posthaste_tests::program;

use crate::tree::{File, assert_clean, assert_finds, file};

/// A heading of the document, the arguments that print the help, and flags that stand elsewhere in it.
const SECTIONS: [(&str, &[&str], &[&str]); 4] = [
    ("## posthaste-control-plane", &["internal", "control-plane", "--help"], &[]),
    ("## posthaste-agent", &["internal", "agent", "--help"], &[]),
    ("## posthaste", &["--help"], &[]),
    ("### posthaste up", &["up", "--help"], &["--server", "--output"]),
];
/// Every program has these.
const EVERYWHERE: [&str; 2] = ["--help", "--version"];

/// What is known of a flag: its variable and its default.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flag {
    variable: Option<String>,
    default: Option<String>,
}

/// The flags of a help text.
fn flags_of_help(help: &str) -> BTreeMap<String, Flag> {
    let mut found: BTreeMap<String, Flag> = BTreeMap::new();
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in help.lines() {
        let line = line.trim_start();
        let long = line.split_once(", ").map_or(line, |(short, rest)| if short.len() == 2 { rest } else { line });
        if long.starts_with("--") {
            let name = long.split([' ', '=', '[']).next().unwrap_or_default();
            texts.push((name.to_owned(), String::new()));
        }
        if let Some((_, text)) = texts.last_mut() {
            text.push_str(line);
            text.push(' ');
        }
    }
    for (name, text) in texts {
        let tagged = |tag: &str| {
            let (_, rest) = text.split_once(&format!("[{tag}: "))?;
            rest.split(']').next().map(|value| value.split('=').next().unwrap_or_default().trim().to_owned())
        };
        found.insert(name, Flag { variable: tagged("env"), default: tagged("default") });
    }
    found
}

/// The rows of a section's tables: the flags that they name, with variable and default as they stand there.
fn rows<'a>(document: &'a File, heading: &str) -> Vec<(usize, BTreeSet<&'a str>, &'a str, &'a str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in document.text.lines().enumerate() {
        if line.starts_with('#') {
            inside = line == heading;
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if let (true, [_, flags, variable, default, ..]) = (inside, &cells[..]) {
            let flags: BTreeSet<_> =
                flags.split('`').skip(1).step_by(2).filter(|flag| flag.starts_with("--")).collect();
            if !flags.is_empty() {
                found.push((index + 1, flags, *variable, *default));
            }
        }
    }
    found
}

/// A default without the signs that only one of both texts sets around values.
fn plain(text: &str) -> String {
    text.replace(['`', ','], "")
}

fn compare(document: &File, heading: &str, flags: &BTreeMap<String, Flag>, elsewhere: &[&str]) -> Vec<String> {
    let rows = rows(document, heading);
    let mut problems = Vec::new();
    for (name, flag) in flags {
        if EVERYWHERE.contains(&name.as_str()) || elsewhere.contains(&name.as_str()) {
            continue;
        }
        let Some((line, _, variable, default)) = rows.iter().find(|(_, named, ..)| named.contains(name.as_str()))
        else {
            problems.push(format!("{}: {heading} has no row for {name}", document.path));
            continue;
        };
        if let Some(wanted) = flag.variable.as_ref().filter(|wanted| !variable.contains(&format!("`{wanted}`"))) {
            problems.push(document.problem(*line, format_args!("{name} is read from {wanted}, not {variable}")));
        }
        let told = flag.default.as_ref().filter(|wanted| !plain(default).contains(&plain(wanted)));
        if let Some(wanted) = told.filter(|_| !default.contains("as for")) {
            problems.push(document.problem(*line, format_args!("the default of {name} is {wanted}, not {default}")));
        }
    }
    for (line, named, ..) in rows {
        let unknown = named.into_iter().filter(|name| !flags.contains_key(*name));
        problems.extend(unknown.map(|name| document.problem(line, format_args!("there is no flag {name}"))));
    }
    problems
}

#[test]
fn every_flag_is_documented_with_its_variable_and_default() {
    let document = file("docs/configuration.md");
    let mut problems = Vec::new();
    let mut count = 0;
    for (heading, args, elsewhere) in SECTIONS {
        let output = Command::new(program::path()).args(args).env_clear().output().expect("the program runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let flags = flags_of_help(&String::from_utf8(output.stdout).expect("help is text"));
        count += flags.len();
        problems.extend(compare(document, heading, &flags, elsewhere));
    }
    assert!(count > 40, "only {count} flags were found");
    assert_clean(&problems);
}

#[test]
fn planted_gaps_in_the_configuration_are_found() {
    let help = "Options:\n      --limit <L>  How much,\n                   in bytes [env: POSTHASTE_LIMIT=] [default: 9s]\n  \
                -q, --quiet  Say less\n  -h, --help  Print help\n";
    let flags = flags_of_help(help);
    let limit = Flag { variable: Some("POSTHASTE_LIMIT".into()), default: Some("9s".into()) };
    assert_eq!((flags.len(), &flags["--limit"], &flags["--quiet"]), (3, &limit, &Flag::default()));
    let find = |rows: &str| {
        let text = format!(
            "## x\n| flag | variable | default | meaning |\n|---|---|---|---|\n{rows}\n## y\n| `--quiet` | | | |"
        );
        compare(&File::new("docs/c.md", &text), "## x", &flags, &[])
    };
    assert_clean(&find("| `--limit` | `POSTHASTE_LIMIT` | `9s` | much |\n| `--quiet` | | off | less |"));
    assert_finds(&find("| `--limit` | `POSTHASTE_LIMIT` | `9s` | much |"), "no row for --quiet");
    assert_finds(&find("| `--limit` | | `9s` | much |"), "c.md:4: --limit is read from POSTHASTE_LIMIT");
    assert_finds(&find("| `--limit` | `POSTHASTE_LIMIT` | `8s` | much |"), "the default of --limit is 9s");
    assert_finds(&find("| `--loud` | | | more |"), "there is no flag --loud");
}

//! The graph of crates: who may depend on whom, what must not come in, under which licence, and only once.

use std::{collections::BTreeMap, process::Command, sync::LazyLock};

use serde_json::Value;

use crate::tree::{File, assert_clean, assert_finds, file, root};

/// Our crates, and which of our crates each may use. What isn't listed is forbidden.
const DIRECTION: [(&str, &[&str]); 8] = [
    ("posthaste-domain", &[]),
    ("posthaste-proto", &["posthaste-domain"]),
    ("posthaste-telemetry", &["posthaste-domain"]),
    ("posthaste-control-plane", &["posthaste-domain", "posthaste-proto", "posthaste-telemetry"]),
    ("posthaste-agent", &["posthaste-domain", "posthaste-proto", "posthaste-telemetry"]),
    ("posthaste-bench", &["posthaste-domain", "posthaste-proto"]),
    (
        "posthaste",
        &["posthaste-agent", "posthaste-bench", "posthaste-control-plane", "posthaste-domain", "posthaste-proto"],
    ),
    (
        "posthaste-tests",
        &[
            "posthaste",
            "posthaste-agent",
            "posthaste-bench",
            "posthaste-control-plane",
            "posthaste-domain",
            "posthaste-proto",
        ],
    ),
];

/// What one of our crates must not use, and why.
const FORBIDDEN: [(&str, &[&str], &str); 3] = [
    (
        "posthaste-domain",
        &["tokio", "futures", "rand", "chrono", "sqlx", "tonic", "reqwest", "hyper", "tracing", "prost"],
        "the domain is pure functions over values",
    ),
    ("posthaste-agent", &["sqlx"], "an agent has no database"),
    ("posthaste-control-plane", &["reqwest", "hickory-resolver"], "the control plane never calls a customer's URL"),
];

/// Crates that must not be anywhere in the graph.
const BANNED: [(&str, &str); 6] = [
    ("aws-lc-rs", "a second TLS provider: ring is installed once"),
    ("aws-lc-sys", "needs cmake and a C compiler of its own"),
    ("openssl", "rustls everywhere"),
    ("openssl-sys", "rustls everywhere"),
    ("native-tls", "rustls everywhere"),
    ("protobuf-src", "protox compiles the files in Rust"),
];

/// Two versions of these don't fit together: their types stand in each other's signatures.
const ONCE: [&str; 10] = ["http", "http-body", "hyper", "h2", "tower", "rustls", "prost", "tonic", "axum", "tokio"];

const LICENCES: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "BSL-1.0",
];

struct Package {
    name: String,
    version: String,
    licence: String,
    ours: bool,
    from_registry: bool,
    dependencies: Vec<String>,
}

/// What cargo resolves for this machine's platform.
fn packages() -> &'static [Package] {
    static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(|| {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &host()])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        read(&serde_json::from_slice(&output.stdout).expect("cargo prints JSON"))
    });
    &PACKAGES
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn read(metadata: &Value) -> Vec<Package> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let used: Vec<_> = list(&metadata["resolve"]["nodes"]).iter().map(|node| text(&node["id"])).collect();
    let all = list(&metadata["packages"]);
    all.iter()
        .filter(|package| used.contains(&text(&package["id"])))
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            ours: package["source"].is_null(),
            from_registry: text(&package["source"]).starts_with("registry+"),
            dependencies: list(&package["dependencies"]).iter().map(|each| text(&each["name"])).collect(),
        })
        .collect()
}

fn direction(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| package.ours) {
        let Some((_, allowed)) = DIRECTION.iter().find(|(name, _)| *name == package.name) else {
            problems.push(format!("{}: a crate without a place in the direction of crates", package.name));
            continue;
        };
        for used in &package.dependencies {
            let ours = DIRECTION.iter().any(|(name, _)| name == used);
            if ours && !allowed.contains(&used.as_str()) {
                problems.push(format!("{} must not use {used}: it stands beside or above it", package.name));
            }
            for (_, _, reason) in
                FORBIDDEN.iter().filter(|(name, words, _)| *name == package.name && words.contains(&used.as_str()))
            {
                problems.push(format!("{} must not use {used}: {reason}", package.name));
            }
        }
    }
    problems
}

fn bans_and_sources(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        problems.extend(
            BANNED
                .iter()
                .filter(|(name, _)| *name == package.name)
                .map(|(name, reason)| format!("{name} is banned: {reason}")),
        );
        if !package.ours && !package.from_registry {
            problems.push(format!("{} comes from outside the registry", package.name));
        }
    }
    problems
}

fn licences(packages: &[Package]) -> Vec<String> {
    let refused = packages.iter().filter(|package| !allowed(&package.licence));
    refused.map(|package| format!("{}: licence `{}` is not on the list", package.name, package.licence)).collect()
}

/// Any side of an OR, and every side of an AND; `/` is the old spelling of OR.
fn allowed(expression: &str) -> bool {
    let and = |part: &str| part.split(" AND ").all(|each| LICENCES.contains(&each.trim_matches(['(', ')', ' '])));
    match expression.strip_prefix('(').and_then(|rest| rest.split_once(") AND ")) {
        Some((left, right)) => allowed(left) && allowed(right),
        None => expression.replace('/', " OR ").split(" OR ").any(and),
    }
}

/// A crate in two versions is allowed only when `docs/dependencies.md` says why, and some never are.
fn versions(packages: &[Package], document: &File) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        found.entry(&package.name).or_default().push(&package.version);
    }
    let (_, reasons) = document.text.split_once("## In two versions").unwrap_or_default();
    let explained = |name: &str| reasons.contains(&format!("| `{name}` |"));
    found
        .iter()
        .filter(|(name, versions)| versions.len() > 1 && (ONCE.contains(name) || !explained(name)))
        .map(|(name, versions)| format!("{name} is here in the versions {}", versions.join(" and ")))
        .collect()
}

/// Each direct dependency has its line in `docs/dependencies.md`, and no line outlives its dependency.
fn documented(packages: &[Package], document: &File) -> Vec<String> {
    let ours = packages.iter().filter(|package| package.ours);
    let mut direct: Vec<_> = ours.flat_map(|package| &package.dependencies).filter(|name| !is_ours(name)).collect();
    direct.sort_unstable();
    direct.dedup();
    let (table, _) = document.text.split_once("## In two versions").unwrap_or((&document.text, ""));
    let lines: Vec<_> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    let missing = direct.iter().filter(|name| !lines.contains(&name.as_str()));
    let stale = lines.iter().filter(|line| !direct.iter().any(|name| name == *line));
    missing
        .map(|name| format!("{}: no line says why we use {name}", document.path))
        .chain(stale.map(|name| format!("{}: {name} is not a dependency", document.path)))
        .collect()
}

fn is_ours(name: &str) -> bool {
    DIRECTION.iter().any(|(ours, _)| *ours == name)
}

#[test]
fn crates_depend_in_one_direction() {
    assert!(packages().iter().filter(|package| package.ours).count() == DIRECTION.len());
    assert_clean(&direction(packages()));
}

#[test]
fn nothing_banned_comes_in() {
    assert_clean(&bans_and_sources(packages()));
}

#[test]
fn every_licence_is_on_the_list() {
    assert_clean(&licences(packages()));
}

#[test]
fn one_version_of_what_must_fit_together() {
    assert!(packages().iter().any(|package| package.name == "hyper"));
    assert_clean(&versions(packages(), file("docs/dependencies.md")));
}

#[test]
fn every_dependency_has_its_reason() {
    assert_clean(&documented(packages(), file("docs/dependencies.md")));
}

#[test]
fn planted_bad_crates_are_found() {
    let package = |name: &str, version: &str, licence: &str, dependencies: &[&str]| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        ours: name.starts_with("posthaste"),
        from_registry: false,
        dependencies: dependencies.iter().map(|&each| each.to_owned()).collect(),
    };
    assert_finds(&direction(&[package("posthaste-agent", "1", "MIT", &["posthaste-control-plane"])]), "must not use");
    assert_finds(&direction(&[package("posthaste-domain", "1", "MIT", &["tokio"])]), "pure functions");
    assert_finds(&direction(&[package("posthaste-agent", "1", "MIT", &["sqlx"])]), "no database");
    assert_finds(&direction(&[package("posthaste-new", "1", "MIT", &[])]), "without a place");
    assert_finds(&bans_and_sources(&[package("aws-lc-rs", "1", "MIT", &[])]), "is banned");
    assert_finds(&bans_and_sources(&[package("itoa", "1", "MIT", &[])]), "outside the registry");
    assert_finds(&licences(&[package("x", "1", "GPL-3.0", &[])]), "`GPL-3.0`");
    assert_finds(&licences(&[package("x", "1", "MIT AND GPL-3.0", &[])]), "is not on the list");
    assert_finds(&licences(&[package("x", "1", "", &[])]), "is not on the list");
    assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0") && !allowed("(MIT OR Apache-2.0) AND GPL-3.0"));
    let excused = File::new(
        "docs/dependencies.md",
        "| `itoa` | text |\n## In two versions\n| `http` | never |\n| `sha2` | old |",
    );
    let two = |name: &str| vec![package(name, "1.0.0", "MIT", &[]), package(name, "2.0.0", "MIT", &[])];
    assert_finds(&versions(&two("http"), &excused), "http is here in the versions 1.0.0 and 2.0.0");
    assert_finds(&versions(&two("itoa"), &excused), "itoa is here");
    assert_clean(&versions(&two("sha2"), &excused));
    assert_finds(&documented(&[package("posthaste", "1", "MIT", &["ryu"])], &excused), "why we use ryu");
    assert_finds(&documented(&[package("posthaste", "1", "MIT", &["ryu"])], &excused), "itoa is not a dependency");
}

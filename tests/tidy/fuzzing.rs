//! The fuzz targets stand outside the workspace, where the other rules don't see them: these hold for them instead.

use std::collections::BTreeSet;

use crate::tree::{File, assert_clean, assert_finds, file, files};

/// Inputs that a target must begin with.
const CORPUS_MIN: usize = 20;

/// Names of the tables of dependencies in a manifest, less our own.
fn dependencies(manifest: &File) -> Vec<&str> {
    let (_, rest) = manifest.text.split_once("\n[dependencies]\n").unwrap_or_default();
    let table = rest.split("\n[").next().unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
    names.filter(|name| !name.starts_with("posthaste")).collect()
}

fn documented(manifest: &File, document: &File) -> Vec<String> {
    let missing = dependencies(manifest);
    let missing = missing.iter().filter(|name| !document.text.contains(&format!("\n| `{name}` |")));
    missing.map(|name| format!("{}: no line says why we use {name}", document.path)).collect()
}

/// Names and versions in a lock file.
fn locked(lock: &File) -> BTreeSet<(&str, &str)> {
    let packages = lock.text.split("[[package]]\n").skip(1);
    packages.filter_map(|package| Some((quoted(package, "name")?, quoted(package, "version")?))).collect()
}

fn quoted<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let rest = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
    rest.strip_suffix('"')
}

/// What is fuzzed is what is shipped: a crate that both use has a version that we ship.
fn same_versions(fuzzed: &File, shipped: &File) -> Vec<String> {
    let shipped = locked(shipped);
    let differs = |(name, version): &(&str, &str)| {
        shipped.iter().any(|(ours, _)| ours == name) && !shipped.contains(&(*name, *version))
    };
    let differing = locked(fuzzed).into_iter().filter(differs);
    differing.map(|(name, version)| format!("{}: {name} {version} is not what we ship", fuzzed.path)).collect()
}

/// `fuzz/run` takes the lock as it is: whatever the domain uses is in it.
fn complete(fuzzed: &File, domain: &File) -> Vec<String> {
    let locked = locked(fuzzed);
    let missing = dependencies(domain).into_iter().map(|name| name.trim_end_matches(".workspace"));
    let missing = missing.filter(|name| !locked.iter().any(|(locked, _)| locked == name));
    missing.map(|name| format!("{}: {name} is missing; run `cargo metadata` in fuzz/", fuzzed.path)).collect()
}

/// Each target has a corpus, and the ordinary tests replay it.
fn replayed(files: &[File], replay: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let targets = files.iter().filter_map(|file| file.path.strip_prefix("fuzz/targets/")?.strip_suffix(".rs"));
    for target in targets {
        let folder = format!("fuzz/corpus/{target}/");
        let inputs = files.iter().filter(|file| file.path.starts_with(&folder)).count();
        if inputs < CORPUS_MIN {
            problems.push(format!("{folder}: {inputs} inputs are fewer than {CORPUS_MIN}"));
        }
        if !replay.text.contains(&format!("replay(\"{target}\", ")) {
            problems.push(format!("{}: does not replay the corpus of {target}", replay.path));
        }
    }
    problems
}

#[test]
fn what_only_fuzzing_uses_has_its_reason() {
    let manifest = file("fuzz/Cargo.toml");
    assert!(manifest.text.contains("\n[workspace]\n"), "the fuzz targets are a workspace of their own");
    assert!(dependencies(manifest).contains(&"libfuzzer-sys"));
    assert_clean(&documented(manifest, file("docs/dependencies.md")));
}

#[test]
fn what_is_fuzzed_is_what_is_shipped() {
    assert!(locked(file("fuzz/Cargo.lock")).len() > 10);
    assert_clean(&same_versions(file("fuzz/Cargo.lock"), file("Cargo.lock")));
    assert!(dependencies(file("domain/Cargo.toml")).contains(&"url.workspace"));
    assert_clean(&complete(file("fuzz/Cargo.lock"), file("domain/Cargo.toml")));
}

#[test]
fn every_target_has_a_corpus_that_is_replayed() {
    assert!(files().iter().any(|file| file.path == "fuzz/targets/url.rs"));
    assert_clean(&replayed(files(), file("domain/tests/hostile.rs")));
}

#[test]
fn planted_bad_targets_are_found() {
    let manifest = File::new("fuzz/Cargo.toml", "[package]\n\n[dependencies]\nryu = \"1\"\n\n[[bin]]\nname = \"x\"\n");
    let document = File::new("docs/dependencies.md", "\n| `itoa` | text |\n");
    assert_finds(&documented(&manifest, &document), "why we use ryu");
    let lock =
        |version| File::new("fuzz/Cargo.lock", &format!("[[package]]\nname = \"ryu\"\nversion = \"{version}\"\n"));
    assert_finds(&same_versions(&lock("2.0.0"), &lock("1.0.0")), "ryu 2.0.0 is not what we ship");
    assert_clean(&same_versions(&lock("1.0.0"), &lock("1.0.0")));
    let domain = File::new("domain/Cargo.toml", "[package]\n\n[dependencies]\nsfv.workspace = true\n");
    assert_finds(&complete(&lock("1.0.0"), &domain), "sfv is missing");
    let target = [File::new("fuzz/targets/x.rs", "")];
    assert_finds(&replayed(&target, &document), "0 inputs are fewer");
    assert_finds(&replayed(&target, &document), "does not replay the corpus of x");
}

//! The programs accept what the chart tells them: each container's arguments are given to the program itself.

use std::process::Command;
use std::time::Duration;

use posthaste_domain::time::parse_duration;
use posthaste_tests::process::SECRET_KEY;
use posthaste_tests::program;

use crate::rendered::{Container, containers};

/// `$(NAME)` as the kubelet fills it in.
fn filled(arg: &str, container: &Container, keys: &str) -> String {
    let ip = if container.set == "ipv6" { "fd00::7" } else { "10.0.0.7" };
    let filled = arg.replace("$(POD_NAME)", "posthaste-7d9f-x2x").replace("$(POD_IP)", ip);
    assert!(!filled.contains("$("), "{arg} names a variable that nobody fills in");
    match container.mounts.first() {
        Some(mount) => filled.replace(mount, keys),
        None => filled,
    }
}

fn duration(container: &Container, flag: &str) -> Duration {
    let value = container.args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
    parse_duration(value.unwrap_or_else(|| panic!("{} isn't told {flag}", container.component))).unwrap()
}

#[test]
fn the_programs_accept_every_argument() {
    let keys = tempfile::tempdir().unwrap();
    std::fs::write(keys.path().join("posthaste.key"), SECRET_KEY).unwrap();
    let keys = keys.path().to_str().unwrap();
    let containers = containers();
    for container in &containers {
        let name = if container.component == "agent" { "posthaste-agent" } else { "posthaste-control-plane" };
        let mut command = Command::new(program::beside(name));
        command.args(container.args.iter().map(|arg| filled(arg, container, keys))).arg("--check-config").env_clear();
        for variable in &container.env {
            let value = if variable == "POSTHASTE_DATABASE_URL" { "postgres://posthaste@db/posthaste" } else { "info" };
            command.env(variable, value);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{} in {}: {told}", container.component, container.set);
    }
    assert!(containers.len() >= 10, "only {} containers", containers.len());
    println!("{} containers start with arguments that their program accepts", containers.len());
}

/// An argument that a program doesn't know would end it with 2; so the test above can fail.
#[test]
fn a_planted_argument_is_refused() {
    let status = Command::new(program::beside("posthaste-agent")).args(["--check-config", "--replicas=2"]).status();
    assert_eq!(status.unwrap().code(), Some(2));
}

#[test]
fn every_pod_outlives_its_drain() {
    for container in containers() {
        let grace = Duration::from_secs(container.grace_s);
        let drain = match container.component.as_str() {
            "agent" => duration(&container, "--drain-limit"),
            // What is in flight, then the release of the shards: each may take the limit.
            "control-plane" => 2 * duration(&container, "--shutdown-limit"),
            _ => continue,
        };
        assert!(grace > drain, "{} in {}: {grace:?} for a drain of {drain:?}", container.component, container.set);
    }
}

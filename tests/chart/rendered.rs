//! What Helm makes of the chart, as the script in `tests/far_side` tells it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// One container of a rendered pod.
#[derive(Debug)]
pub(crate) struct Container {
    /// `control-plane`, `agent` or `migration`, and the value set.
    pub(crate) component: String,
    pub(crate) set: String,
    pub(crate) args: Vec<String>,
    /// The names of its variables.
    pub(crate) env: Vec<String>,
    /// Where secrets are mounted.
    pub(crate) mounts: Vec<String>,
    /// How long it has between SIGTERM and SIGKILL, in seconds.
    pub(crate) grace_s: u64,
}

/// A path from the repository's root.
pub(crate) fn repository(path: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path);
    assert!(path.exists(), "{} is missing; run ./test --prepare", path.display());
    path
}

/// Runs the script on a chart.
pub(crate) fn judge(chart: &Path) -> Output {
    let python = repository("target/python/bin/python");
    Command::new(python).arg(repository("tests/far_side/chart.py")).arg(chart).output().unwrap()
}

/// The script's lines for our chart, which it must find nothing wrong with.
pub(crate) fn lines() -> Vec<Value> {
    let output = judge(&repository("helm/posthaste"));
    let problems = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{problems}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every container of every value set.
pub(crate) fn containers() -> Vec<Container> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|each| each.as_str().unwrap().to_owned()).collect()
    };
    let mut found = Vec::new();
    for line in lines() {
        for container in line["containers"].as_array().into_iter().flatten() {
            let env = container["env"].as_array().unwrap().iter();
            found.push(Container {
                component: container["component"].as_str().unwrap().to_owned(),
                set: line["set"].as_str().unwrap().to_owned(),
                args: texts(&container["args"]),
                env: env.map(|variable| variable["name"].as_str().unwrap().to_owned()).collect(),
                mounts: texts(&container["mounts"]),
                grace_s: container["grace_s"].as_u64().unwrap(),
            });
        }
    }
    found
}

#[test]
fn every_value_set_is_sound_and_typos_are_refused() {
    let lines = lines();
    let (typos, sets) = lines.split_last().unwrap();
    for set in sets {
        let (objects, validated) = (set["objects"].as_u64().unwrap(), set["validated"].as_u64().unwrap());
        let foreign = set["kinds"].as_array().unwrap().iter().any(|kind| kind == "ServiceMonitor");
        assert!(validated >= 4 && (validated == objects || foreign), "{set}");
        println!("{}: {objects} objects, {validated} of them by Kubernetes' schemas", set["set"]);
    }
    assert!(sets.len() >= 5, "only {} value sets", sets.len());
    let kinds: Vec<_> = sets.iter().flat_map(|set| set["kinds"].as_array().unwrap()).collect();
    for kind in ["Deployment", "HorizontalPodAutoscaler", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"] {
        assert!(kinds.iter().any(|each| *each == kind), "no value set renders a {kind}");
    }
    assert!(
        typos["typos_refused"].as_u64().unwrap() >= 30 && typos["values_refused"].as_u64().unwrap() >= 8,
        "{typos}"
    );
    println!("{} typos and {} wrong values refused", typos["typos_refused"], typos["values_refused"]);
}

//! A judgement that can't fail proves nothing: each planted fault must be found in a copy of the chart.

use std::fs;
use std::path::Path;

use crate::rendered::{judge, repository};

/// A file of the chart, what stands there, what is planted instead, and words of the problem that must be told.
const PLANTS: [(&str, &str, &str, &str); 9] = [
    ("templates/_pod.tpl", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can be written"),
    ("templates/_pod.tpl", "runAsUser: 65532", "runAsUser: 0", "may run as root"),
    ("templates/_pod.tpl", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "a token"),
    ("templates/_pod.tpl", "periodSeconds: 10", "periodSecs: 10", "periodSecs"),
    ("templates/agents.yaml", "name: RUST_LOG", "name: POSTHASTE_KEY", "is a literal"),
    ("templates/control-plane.yaml", "targetPort: grpc", "targetPort: rpc", "a port nobody opens"),
    ("templates/network-policy.yaml", "\"10.0.0.0/8\" ", "", "agents reach private networks"),
    ("templates/scaling.yaml", "autoscaling/v2", "autoscaling/v2beta2", "v2beta2"),
    ("values.schema.json", "\"additionalProperties\": false", "\"additionalProperties\": true", "a typo in"),
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

#[test]
fn every_planted_fault_is_found() {
    for (file, stands, planted, words) in PLANTS {
        let folder = tempfile::tempdir().unwrap();
        copy(&repository("helm/posthaste"), folder.path());
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(stands), "{file} has no `{stands}`");
        fs::write(&path, text.replace(stands, planted)).unwrap();
        let output = judge(folder.path());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(words), "`{planted}` in {file}: {told}");
    }
}

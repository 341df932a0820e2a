//! The final stages of the Dockerfile, and a root folder with just the files that one of them has.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posthaste_tests::program;
use tempfile::TempDir;

use crate::rendered::repository;

/// The base of the final stages, and what our programs may use of it: the image's package list names glibc and libgcc.
const BASE: &str = "gcr.io/distroless/cc-debian12:nonroot";
const BASE_FILES: [&str; 4] = ["ld-linux", "libc.so.6", "libm.so.6", "libgcc_s.so.1"];

/// One final stage.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) entrypoint: String,
    /// From where to where; sources of an earlier stage begin with `/`.
    copies: Vec<(String, String)>,
}

/// Every stage that has an entry point.
pub(crate) fn stages() -> Vec<Stage> {
    let text = fs::read_to_string(repository("Dockerfile")).unwrap();
    let text = text.replace("\\\n", " ");
    let mut found: Vec<Stage> = Vec::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["FROM", base, "AS", name] => {
                let final_stage = *name != "build";
                assert!(!final_stage || *base == BASE, "{name} has the base {base}, of which nothing is known");
                let (user, entrypoint) = (String::new(), String::new());
                found.push(Stage { name: (*name).to_owned(), user, entrypoint, copies: Vec::new() });
            }
            ["COPY", rest @ ..] => {
                let sources = if rest[0].starts_with("--from=build") { &rest[1..] } else { rest };
                let (to, sources) = sources.split_last().unwrap();
                let stage = found.last_mut().unwrap();
                stage.copies.extend(sources.iter().map(|from| ((*from).to_owned(), (*to).to_owned())));
            }
            ["USER", user] => found.last_mut().unwrap().user = (*user).to_owned(),
            ["ENTRYPOINT", argv] => {
                let argv: Vec<String> = serde_json::from_str(argv).expect("is in exec form: there is no shell");
                found.last_mut().unwrap().entrypoint = argv[0].clone();
            }
            _ => {}
        }
    }
    found.retain(|stage| !stage.entrypoint.is_empty());
    found
}

impl Stage {
    /// A folder that anybody may enter, with the files of the stage.
    pub(crate) fn root(&self) -> TempDir {
        let root = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        for (from, to) in &self.copies {
            let source = match from.strip_prefix("/out/") {
                Some(name) => program::beside(name),
                None => repository(from),
            };
            let into = root.path().join(to.trim_start_matches('/'));
            let target = if to.ends_with('/') { into.join(source.file_name().unwrap()) } else { into };
            place(&source, &target);
        }
        for library in libraries(&root.path().join(self.entrypoint.trim_start_matches('/'))) {
            let name = library.file_name().unwrap().to_str().unwrap().to_owned();
            let known =
                BASE_FILES.iter().any(|base| name == *base || base.ends_with("linux") && name.starts_with(base));
            assert!(known, "{} needs {name}, which its image doesn't have", self.entrypoint);
            place(&library, &root.path().join(library.strip_prefix("/").unwrap()));
        }
        root
    }
}

fn place(source: &Path, target: &Path) {
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::copy(source, target).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
}

/// The files that a program is linked to, by this machine's loader.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = std::process::Command::new("ldd").arg(program).output().expect("ldd runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}

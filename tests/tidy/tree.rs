//! The files under judgement, and how a rule reports what it found.

use std::{path::PathBuf, process::Command, sync::LazyLock};

/// One file of the repository. Planted samples are made the same way.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// From the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }

    pub(crate) fn under(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.path.starts_with(prefix))
    }

    /// A problem at a line of this file, counted from 1.
    pub(crate) fn problem(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Every text file that is committed or would be.
pub(crate) fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root())
            .output()
            .expect("git lists the files");
        assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout)
            .expect("paths are UTF-8")
            .split_terminator('\0')
            .filter_map(|path| {
                let text = std::fs::read_to_string(root().join(path)).ok()?;
                Some(File { path: path.to_owned(), text })
            })
            .collect()
    });
    assert!(FILES.len() > 20, "only {} files found", FILES.len());
    &FILES
}

/// One file that must exist.
pub(crate) fn file(path: &str) -> &'static File {
    files().iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing"))
}

/// Fails with every problem on its own line.
pub(crate) fn assert_clean(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// A rule that can't fail proves nothing: the planted sample must be found, with these words.
pub(crate) fn assert_finds(problems: &[String], words: &str) {
    assert!(problems.iter().any(|problem| problem.contains(words)), "`{words}` not among {problems:#?}");
}

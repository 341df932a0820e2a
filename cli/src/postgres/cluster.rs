//! The folder of a server: its layout, and the making of a new cluster, which is there completely or not at all.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::user::User;
use super::{Binaries, DATABASE, Durability, Error, socket};

/// Where the files of a server are.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
    socket_folder: PathBuf,
}

impl Layout {
    /// Makes the folders that are missing and checks that `user` can reach them.
    pub(super) fn prepare(folder: &Path, user: &User) -> Result<Self, Error> {
        if !folder.exists() {
            // Open to enter, closed to list: as root, another user must get to `data/`, which is 0700 itself.
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o711).create(folder).map_err(Error::file("creating", folder))?;
            user.own(folder)?;
        }
        let root = fs::canonicalize(folder).map_err(Error::file("looking at", folder))?;
        user.check_reach(&root)?;
        let socket_folder = socket::folder(&root, user)?;
        Ok(Self { root, socket_folder })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn binaries(&self) -> PathBuf {
        self.root.join("binaries")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("server.log")
    }

    pub(super) fn socket_folder(&self) -> &Path {
        &self.socket_folder
    }

    /// The major version that made the cluster; none when there is no cluster yet.
    pub(super) fn major(&self) -> Result<Option<u32>, Error> {
        let path = self.data().join("PG_VERSION");
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(Error::file("reading", &path))?;
        Ok(text.trim().parse().ok())
    }
}

/// Makes the cluster beside its place and moves it there when it is complete, with the database [`DATABASE`] in it.
pub(super) fn create(layout: &Layout, binaries: &Binaries, user: &User, durability: Durability) -> Result<(), Error> {
    let unfinished = layout.root.join("data.unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(Error::file("removing", &unfinished))?;
    }
    fs::DirBuilder::new().mode(0o700).create(&unfinished).map_err(Error::file("creating", &unfinished))?;
    user.own(&unfinished)?;

    let mut initdb = user.command(binaries.program("initdb"));
    initdb.arg("-D").arg(&unfinished).args(["--no-locale", "-E", "UTF8", "-U", "postgres", "--no-instructions"]);
    initdb.args(["--auth-local=trust", "--auth-host=reject"]);
    if durability == Durability::Off {
        initdb.arg("--no-sync");
    }
    run("initdb", &mut initdb, "")?;

    let mut single = user.command(binaries.program("postgres"));
    single.args(["--single", "-D"]).arg(&unfinished).arg("postgres");
    run("postgres --single", &mut single, &format!("CREATE DATABASE {DATABASE};\n"))?;

    let data = layout.data();
    fs::rename(&unfinished, &data).map_err(Error::file("moving the new cluster to", &data))
}

fn run(program: &'static str, command: &mut Command, input: &str) -> Result<(), Error> {
    let failed = |output: String| Error::Create { program, output };
    let output = feed(command, input).map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Single-user mode exits 0 after a statement that failed.
    if output.status.success() && !said.contains("ERROR:") { Ok(()) } else { Err(failed(said)) }
}

fn feed(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

//! `postmaster.pid`: what a running server says about itself.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

/// How far the server is, from the last line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Accepts connections.
    Ready,
    /// Comes up, perhaps recovering from a crash; also a file that isn't complete yet.
    Starting,
    /// Shuts down.
    Stopping,
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Postmaster {
    /// The server's process id.
    pub(super) pid: u32,
    /// The folder of its Unix socket.
    pub(super) socket_folder: PathBuf,
    pub(super) status: Status,
}

impl Postmaster {
    /// The server that runs on the cluster in `data`; none when there is none or the file is left over.
    pub(super) fn running(data: &Path) -> Option<Self> {
        let found = Self::read(data)?;
        lives(found.pid, data).then_some(found)
    }

    /// Removes the file of a server that is gone, whose process id may belong to somebody else by now: Postgres would
    /// refuse to start. Processes that still use the cluster are found by Postgres itself, through its shared memory.
    pub(super) fn remove_stale(data: &Path) {
        if cfg!(target_os = "linux") && Self::read(data).is_some_and(|found| !lives(found.pid, data)) {
            // A file that stays only means that Postgres decides.
            let _ = fs::remove_file(data.join("postmaster.pid"));
        }
    }

    pub(super) fn read(data: &Path) -> Option<Self> {
        parse(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }
}

/// Sends a signal; a process that is gone already is no trouble.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn parse(text: &str) -> Option<Postmaster> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let status = match lines.get(7) {
        Some(&"ready") => Status::Ready,
        Some(&"stopping") => Status::Stopping,
        Some(_) | None => Status::Starting,
    };
    let socket_folder = PathBuf::from(lines.get(4).copied().unwrap_or_default());
    Some(Postmaster { pid: lines.first()?.parse().ok()?, socket_folder, status })
}

/// Whether `pid` is the server of `data`: it exists, isn't a zombie, and works in that folder.
#[cfg(target_os = "linux")]
fn lives(pid: u32, data: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let zombie = fs::read_to_string(process.join("stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])));
    !zombie && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == data)
}

/// Whether `pid` is the server of `data`: it exists and its socket answers.
#[cfg(not(target_os = "linux"))]
fn lives(pid: u32, data: &Path) -> bool {
    let exists = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    let answers = || {
        let folder = Postmaster::read(data)?.socket_folder;
        std::os::unix::net::UnixStream::connect(super::socket::path(&folder)).ok()
    };
    exists && answers().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |text: &str, expected: Option<(u32, &str, Status)>| {
            let expected =
                expected.map(|(pid, folder, status)| Postmaster { pid, socket_folder: folder.into(), status });
            assert_eq!(parse(text), expected, "{text}");
        };
        let head = "4711\n/d/data\n1700000000\n5432\n/d/run\n\n   1 2\n";
        check(&format!("{head}ready   \n"), Some((4711, "/d/run", Status::Ready)));
        check(&format!("{head}starting\n"), Some((4711, "/d/run", Status::Starting)));
        check(&format!("{head}stopping\n"), Some((4711, "/d/run", Status::Stopping)));
        check("4711\n/d/data\n", Some((4711, "", Status::Starting)));
        check("", None);
        check("not a number\n", None);
    }

    #[test]
    fn a_foreign_process_is_not_the_server() {
        let data = tempfile::tempdir().unwrap();
        let text = format!("{}\n{}\n1\n5432\n/nowhere\n\n1 2\nready\n", std::process::id(), data.path().display());
        fs::write(data.path().join("postmaster.pid"), text).unwrap();
        assert_eq!(Postmaster::running(data.path()), None);
    }
}

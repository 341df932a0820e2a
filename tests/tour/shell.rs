//! The newcomer's terminals: a shell that types block after block, and programs that run until Ctrl-C.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use posthaste_tests::program;
use posthaste_tests::wait::wait_until;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::BLOCK_LIMIT;
use crate::page::repository;

/// Printed behind each block, with the shell's status.
const MARK: &str = "--- block ended with ";

/// The programs that a newcomer has by now: ours, Python with its packages, and what stands for `cargo run`.
fn search_path(clone: &Path) -> OsString {
    let bin = clone.join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        symlink(program::path(), bin.join("posthaste")).unwrap();
        // `cargo run --bin emit-example` would build it; it is built together with this test.
        let example = program::path().with_file_name("emit-example");
        assert!(example.is_file(), "{} is missing", example.display());
        let cargo =
            format!("#!/bin/sh\n[ \"$*\" = 'run --quiet --bin emit-example' ] && exec {}\nexit 1\n", example.display());
        fs::write(bin.join("cargo"), cargo).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bin.join("cargo"), mode).unwrap();
    }
    let python = repository("target/python/bin");
    assert!(python.join("grpcurl").exists(), "grpcurl is missing; run ./test --prepare");
    let inherited = env::var_os("PATH").unwrap_or_default();
    env::join_paths([bin, python].into_iter().chain(env::split_paths(&inherited))).unwrap()
}

fn bash(clone: &Path, server: &str) -> Command {
    let mut command = Command::new("bash");
    command.current_dir(clone).env("PATH", search_path(clone)).env("POSTHASTE_SERVER", server);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// One shell for all blocks, so that variables last.
pub(crate) struct Shell {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    pub(crate) async fn start(clone: &Path, server: &str) -> Self {
        let mut child = bash(clone, server).spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        input.write_all(b"exec 2>&1\n").await.unwrap();
        Self { _child: child, input, lines: BufReader::new(output).lines() }
    }

    /// Types a block line by line; every command in it must succeed. Returns what was printed.
    pub(crate) async fn type_in(&mut self, block: &str) -> String {
        // A subshell would lose the variables: a trap reports a failure instead of ending the shell.
        let typed = format!("failed=0; trap 'failed=$?' ERR\n{block}trap - ERR\necho \"{MARK}$failed\"\n");
        self.input.write_all(typed.as_bytes()).await.unwrap();
        let mut said = String::new();
        loop {
            let line = timeout(BLOCK_LIMIT, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no end of {block}\n{said}")).unwrap().expect("the shell lives");
            if let Some(status) = line.strip_prefix(MARK) {
                assert_eq!(status, "0", "{block}\n{said}");
                println!("$ {block}{said}");
                return said;
            }
            said.push_str(&line);
            said.push('\n');
        }
    }
}

/// A program in a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
}

impl Terminal {
    /// Starts it and waits until something listens on `port`.
    pub(crate) async fn start(clone: &Path, server: &str, block: &str, port: u16) -> Self {
        let mut command = bash(clone, server);
        // Its last line is the program, which takes the shell's place and with it its signals.
        let (before, last) = block.trim_end().rsplit_once('\n').unwrap_or(("", block.trim_end()));
        command.arg("-c").arg(format!("set -e\nexec 2>&1\n{before}\nexec {last}"));
        let child = command.spawn().unwrap();
        let terminal = Self { child };
        wait_until(&format!("a listener: {block}"), async || TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        terminal
    }

    /// Ctrl-C, and everything that it printed.
    pub(crate) async fn interrupt(self) -> String {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("still runs");
        rustix::process::kill_process(pid, Signal::INT).expect("takes the signal");
        let output = timeout(BLOCK_LIMIT, self.child.wait_with_output()).await.expect("ends").unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}");
        said
    }
}

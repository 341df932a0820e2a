//! The images as far as they can be checked without a container engine: each program runs with just the files of its
//! image, as the image's user, and without a certificate store.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use posthaste_tests::process::SECRET_KEY;
use posthaste_tests::{database, wait::LIMIT};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::dockerfile::{Stage, stages};

/// A program in its image's root, without a variable of this machine.
fn run(stage: &Stage, root: &TempDir, args: &[&str]) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={}", stage.user));
        command
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-current-user", "--root"]);
        command
    };
    command.arg(root.path()).arg(&stage.entrypoint).args(args);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn ended(mut command: Command) -> (Option<i32>, String) {
    let output = timeout(LIMIT, command.output()).await.expect("ends by itself").unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Starts it, and returns the line that says it is ready with it.
async fn ready(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(LIMIT, lines.next_line()).await.expect("gets ready").unwrap();
    (child, line.expect("goes on"))
}

fn stage(name: &str) -> Stage {
    stages().into_iter().find(|stage| stage.name == name).unwrap_or_else(|| panic!("no stage {name}"))
}

/// Where TCP reaches the test server, which listens on a socket in a folder of its own.
async fn by_tcp(database_url: &str) -> (SocketAddr, String) {
    let (path, name) = {
        let rest = database_url.strip_prefix("postgres:///").unwrap();
        let (name, query) = rest.split_once('?').unwrap();
        let value = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)).unwrap().to_owned();
        let folder = value("host=").replace("%2F", "/");
        (Path::new(&folder).join(format!(".s.PGSQL.{}", value("port="))), name.to_owned())
    };
    assert!(path.exists(), "{} is no socket", path.display());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = UnixStream::connect(&path).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (address, format!("postgres://postgres@{address}/{name}?sslmode=disable"))
}

#[tokio::test]
async fn no_image_runs_as_root_and_each_program_says_its_version() {
    let stages = stages();
    assert_eq!(stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), ["control-plane", "agent"]);
    for stage in stages {
        assert_eq!(stage.user, "65532:65532", "{}", stage.name);
        let (code, text) = ended(run(&stage, &stage.root(), &["--version"])).await;
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(text, format!("posthaste-{} {}\n", stage.name, env!("CARGO_PKG_VERSION")));
    }
}

#[tokio::test]
async fn a_control_plane_refuses_to_start_without_a_database() {
    let stage = stage("control-plane");
    let root = stage.root();
    let (code, text) = ended(run(&stage, &root, &[])).await;
    assert!(code == Some(64) && text.contains("--database-url is missing"), "{code:?} {text}");
    let mut command = run(&stage, &root, &["--database-url", "postgres://127.0.0.1:1/x"]);
    command.env("POSTHASTE_SECRET_KEY", SECRET_KEY);
    let (code, text) = ended(command).await;
    assert!(code == Some(69) && text.contains("the database can't be reached"), "{code:?} {text}");
}

#[tokio::test]
async fn both_get_ready_and_find_each_other_by_name() {
    let (database, plane, agent) = (database().await, stage("control-plane"), stage("agent"));
    let (plane_root, agent_root) = (plane.root(), agent.root());
    let (_, url) = by_tcp(database.url()).await;
    let args = ["--accept-loss", "--grpc-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--database-url", &url];
    let mut command = run(&plane, &plane_root, &args);
    command.env("POSTHASTE_SECRET_KEY", SECRET_KEY);
    let (_plane, line) = ready(command).await;
    let port = line.split_whitespace().find_map(|part| part.strip_prefix("grpc=127.0.0.1:")).expect("says its port");

    // What an engine adds to every container.
    std::fs::create_dir_all(agent_root.path().join("etc")).unwrap();
    std::fs::write(agent_root.path().join("etc/hosts"), "127.0.0.1 control-plane\n").unwrap();
    let url = format!("--control-plane=http://control-plane:{port}");
    let (_agent, line) =
        ready(run(&agent, &agent_root, &[&url, "--agent-id=in-a-box", "--admin-listen=127.0.0.1:0"])).await;
    assert!(line.starts_with("ready agent=in-a-box admin=127.0.0.1:"), "{line}");
}

//! The program as its operator meets it: the line that says it is ready, signals, exit codes.

#[expect(dead_code, reason = "this file needs only the replica")]
mod harness;

use std::{process::Stdio, time::Duration};

use harness::Planes;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

fn agent(args: &[&str]) -> Child {
    command(args).spawn().unwrap()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste-agent"));
    command
        .args(args)
        .env_remove("POSTHASTE_CONTROL_PLANE")
        // Agents of other tests run at the same time.
        .env("POSTHASTE_AGENT_ADMIN_LISTEN", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn code(child: &mut Child) -> Option<i32> {
    timeout(Duration::from_secs(10), child.wait()).await.expect("it goes on").unwrap().code()
}

async fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
    timeout(Duration::from_secs(10), stdout.read_line(&mut line)).await.expect("it says nothing").unwrap();
    line
}

#[tokio::test]
async fn it_is_ready_at_its_first_welcome_and_drains_on_a_signal() {
    let mut planes = Planes::start("replica-1").await;
    let mut child = agent(&["--control-plane", &planes.url, "--agent-id", "a1"]);
    let plane = planes.session().await;
    assert_eq!(plane.hello.agent_id, "a1");
    assert_eq!(first_line(&mut child).await, "ready agent=a1\n");
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    drop(plane);
    assert_eq!(code(&mut child).await, Some(0));
}

#[tokio::test]
async fn its_admin_port_tells_whether_it_takes_deliveries() {
    let mut planes = Planes::start("replica-1").await;
    let args = ["--control-plane", &planes.url, "--agent-id", "a3", "--admin-listen", "127.0.0.1:0"];
    let mut child = agent(&args);
    let plane = planes.session().await;
    let line = first_line(&mut child).await;
    let address = line.trim().strip_prefix("ready agent=a3 admin=").unwrap_or_else(|| panic!("{line}")).to_owned();
    assert!(get(&address, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/metrics").await.contains("\nposthaste_agent_sessions 1\n"));
    let mut second = agent(&["--control-plane", &planes.url, "--admin-listen", &address]);
    assert_eq!(code(&mut second).await, Some(1));
    let mut told = String::new();
    second.stderr.take().unwrap().read_to_string(&mut told).await.unwrap();
    assert!(told.contains(&address) && told.contains("--admin-listen"), "{told}");
    drop((plane, planes));
    let unready = async { while get(&address, "/readyz").await.starts_with("HTTP/1.1 200") {} };
    timeout(Duration::from_secs(10), unready).await.expect("it stays ready without any session");
    assert!(get(&address, "/livez").await.starts_with("HTTP/1.1 200"));
}

async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_goes_with_its_parent_if_told_to() {
    let mut planes = Planes::start("replica-1").await;
    let mut child = agent(&["--control-plane", &planes.url, "--exit-with-parent"]);
    drop(planes.session().await);
    drop(child.stdin.take());
    assert_eq!(code(&mut child).await, Some(0));
}

#[tokio::test]
async fn it_runs_where_the_machine_has_no_certificates() {
    let (mut planes, empty) =
        (Planes::start("replica-1").await, std::env::temp_dir().join("posthaste-no-certificates"));
    let mut command = command(&["--control-plane", &planes.url, "--agent-id", "a2", "--exit-with-parent"]);
    let mut child = command.env("SSL_CERT_FILE", &empty).env("SSL_CERT_DIR", &empty).spawn().unwrap();
    let plane = planes.session().await;
    assert_eq!(first_line(&mut child).await, "ready agent=a2\n");
    drop((plane, child.stdin.take()));
    assert_eq!(code(&mut child).await, Some(0));
}

#[tokio::test]
async fn every_problem_is_told_at_once() {
    let mut child =
        agent(&["--drain-limit", "5", "--allow-cidr", "x", "--max-in-flight", "0", "--admin-listen", "7431"]);
    assert_eq!(code(&mut child).await, Some(64));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).await.unwrap();
    for flag in ["--control-plane", "--drain-limit", "--allow-cidr", "--max-in-flight", "--admin-listen"] {
        assert!(told.contains(&format!("{flag}: ")), "{flag}: {told}");
    }
    assert_eq!(code(&mut agent(&["--check-config"])).await, Some(64));
    for limit in ["0s", "1ns", "-1s", "100000d", "1e9s", ""] {
        let mut child = agent(&["--control-plane", "http://127.0.0.1:1", &format!("--drain-limit={limit}")]);
        assert_eq!(code(&mut child).await, Some(64), "{limit}");
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).await.unwrap();
        assert_eq!(told.matches("--drain-limit: ").count(), 1, "{limit}: {told}");
    }
    assert_eq!(code(&mut agent(&["--check-config", "--control-plane", "http://127.0.0.1:1"])).await, Some(0));
    assert_eq!(code(&mut agent(&["--colour", "red"])).await, Some(2));
    assert_eq!(code(&mut agent(&["--version"])).await, Some(0));
}

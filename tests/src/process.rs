//! The parts of a system as real processes of the program under test, each on a free port.

use std::ffi::OsString;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::ExitStatus;
use std::time::Duration;

use posthaste::system::{Part, Spec};
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::delivery_service_client::DeliveryServiceClient;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::program;

/// The key that seals secrets in all control planes of the tests, so that a second one reads what a first one wrote.
pub const SECRET_KEY: &str = "test-1:cG9zdGhhc3RlIHRlc3QgbWFzdGVyIGtleSAwMDAwMDE=";

/// A drain that takes longer has gone wrong.
const DRAIN_LIMIT: Duration = Duration::from_secs(40);

/// A process that can be killed, stopped and resumed at will. It ends with this value; when the test fails, its log
/// is printed.
#[derive(Debug)]
pub struct Process {
    part: Part,
    _folder: TempDir,
}

impl Process {
    async fn start(part: &'static str, args: Vec<OsString>, envs: Vec<(&'static str, OsString)>) -> Self {
        let folder = tempfile::tempdir().expect("makes a temporary folder");
        let (log, lock) = (folder.path().join("part.log"), folder.path().join("part.lock"));
        let spec = Spec { program: program::path(), name: part.to_owned(), part, args, envs, log, lock };
        let part = Part::start(spec).await.unwrap_or_else(|error| panic!("{error}"));
        Self { part, _folder: folder }
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it has ended.
    pub fn pid(&self) -> u32 {
        self.part.pid().expect("still runs")
    }

    /// Ends it without any warning (SIGKILL).
    ///
    /// # Panics
    /// When the system can't tell how it ended.
    pub async fn kill(&mut self) {
        self.part.kill().await.expect("is waited for");
    }

    /// Lets it drain (SIGTERM) and returns how it ended.
    ///
    /// # Panics
    /// When the system can't tell how it ended.
    pub async fn stop(&mut self) -> ExitStatus {
        self.part.stop(DRAIN_LIMIT).await.expect("is waited for")
    }

    /// Asks it to drain (SIGTERM) and doesn't wait.
    pub fn terminate(&self) {
        self.part.signal(Signal::TERM);
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When the system can't tell how it ended.
    pub async fn ended(&mut self) -> ExitStatus {
        self.part.ended().await.expect("is waited for")
    }

    /// Freezes it (SIGSTOP): it neither runs nor answers, but its connections stand.
    pub fn freeze(&self) {
        self.part.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) {
        self.part.signal(Signal::CONT);
    }

    /// Starts it again after it has ended, at the same addresses.
    ///
    /// # Panics
    /// When it doesn't get ready.
    pub async fn start_again(&mut self) {
        self.part.start_again().await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The line in which it said that it is ready.
    pub fn ready_line(&self) -> &str {
        self.part.ready_line()
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.part.spec().log).unwrap_or_default()
    }

    fn address(&self, key: &str) -> String {
        self.part.ready(key).unwrap_or_else(|| panic!("names no {key} address")).to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}--- end ---", self.part.name(), self.log());
        }
    }
}

/// A control plane.
#[derive(Debug)]
pub struct Plane {
    process: Process,
    channel: Channel,
}

impl Plane {
    /// One that takes http URLs and loopback addresses, on a database that may forget.
    pub async fn start(database_url: &str) -> Self {
        Self::with(database_url, &[]).await
    }

    /// The same with further arguments, such as `["--lease-ttl", "3s"]`.
    pub async fn with(database_url: &str, args: &[&str]) -> Self {
        let usual = ["--accept-loss", "--allow-http", "--allow-cidr", "127.0.0.0/8"];
        Self::bare(database_url, &[&usual, args].concat()).await
    }

    /// One that takes only what production does, with these arguments.
    ///
    /// # Panics
    /// When it doesn't get ready.
    pub async fn bare(database_url: &str, args: &[&str]) -> Self {
        Self::spawn(database_url, args, &[]).await
    }

    /// The same as [`Plane::start`] with further variables, such as `RUST_LOG`.
    ///
    /// # Panics
    /// When it doesn't get ready.
    pub async fn with_env(database_url: &str, envs: &[(&'static str, &str)]) -> Self {
        let usual = ["--accept-loss", "--allow-http", "--allow-cidr", "127.0.0.0/8"];
        Self::spawn(database_url, &usual, envs).await
    }

    async fn spawn(database_url: &str, args: &[&str], envs: &[(&'static str, &str)]) -> Self {
        let free = ["--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let args = free.iter().chain(args).map(Into::into).collect();
        let own =
            [("POSTHASTE_DATABASE_URL", database_url), ("POSTHASTE_SECRET_KEY", SECRET_KEY), ("RUST_BACKTRACE", "1")];
        let envs = own.iter().chain(envs).map(|(name, value)| (*name, value.into())).collect();
        let process = Process::start("control-plane", args, envs).await;
        let channel = channel(&format!("http://{}", process.address("grpc")));
        Self { process, channel }
    }

    /// The URL of its API; the same after [`Process::start_again`].
    pub fn url(&self) -> String {
        format!("http://{}", self.address("grpc"))
    }

    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub fn admin(&self) -> String {
        self.address("admin")
    }

    /// A connection to its API, made when it is used and made anew when it is lost.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Callers of its services.
    pub fn accounts(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.channel())
    }

    /// See [`Plane::accounts`].
    pub fn endpoints(&self) -> EndpointServiceClient<Channel> {
        EndpointServiceClient::new(self.channel())
    }

    /// See [`Plane::accounts`].
    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel())
    }

    /// See [`Plane::accounts`].
    pub fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.channel())
    }
}

/// A connection that is made when it is used.
///
/// # Panics
/// When `url` is none.
pub fn channel(url: &str) -> Channel {
    Endpoint::from_shared(url.to_owned()).expect("is a URL").connect_lazy()
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    process: Process,
}

impl Agent {
    /// One that sends to http URLs and loopback addresses, for this control plane; it has been welcomed.
    pub async fn start(plane: &Plane) -> Self {
        Self::with(&[&plane.url()], &[]).await
    }

    /// The same for these URLs and with further arguments.
    pub async fn with(urls: &[&str], args: &[&str]) -> Self {
        let usual = ["--allow-http", "--allow-cidr", "127.0.0.0/8"];
        Self::bare(urls, &[&usual, args].concat()).await
    }

    /// The same with further variables, such as `RUST_LOG`.
    ///
    /// # Panics
    /// When it isn't welcomed.
    pub async fn with_env(urls: &[&str], args: &[&str], envs: &[(&'static str, &str)]) -> Self {
        let usual = ["--allow-http", "--allow-cidr", "127.0.0.0/8"];
        Self::spawn(urls, &[&usual, args].concat(), envs).await
    }

    /// One that sends only where production does, with these arguments.
    ///
    /// # Panics
    /// When it isn't welcomed.
    pub async fn bare(urls: &[&str], args: &[&str]) -> Self {
        Self::spawn(urls, args, &[]).await
    }

    async fn spawn(urls: &[&str], args: &[&str], envs: &[(&'static str, &str)]) -> Self {
        let planes = urls.iter().flat_map(|url| ["--control-plane", url]);
        let admin = if args.contains(&"--admin-listen") { &[][..] } else { &["--admin-listen", "127.0.0.1:0"] };
        let args = planes.chain(admin.iter().copied()).chain(args.iter().copied()).map(Into::into).collect();
        let envs = envs.iter().map(|(name, value)| (*name, value.into()));
        let envs = envs.chain([("RUST_BACKTRACE", "1".into())]).collect();
        Self { process: Process::start("agent", args, envs).await }
    }

    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub fn admin(&self) -> String {
        self.address("admin")
    }

    /// What it calls itself.
    pub fn id(&self) -> String {
        self.address("agent")
    }
}

impl Deref for Plane {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Plane {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Deref for Agent {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

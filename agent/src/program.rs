//! The program: flags, logs, signals, exit codes.

use std::{
    ffi::OsString,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use clap::{Parser, ValueEnum};
use posthaste_domain::{
    address::{Nat64, Policy},
    time::parse_duration,
};
use posthaste_telemetry::traces::Collector;
use rand::RngExt;
use rustls::pki_types::CertificateDer;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{
    agent::Drained,
    config::{Config, DRAIN_LIMIT_MIN},
    guard::{Proxy, certificates},
};

const FAILED: u8 = 1;
const CONFIGURATION: u8 = 64;

/// Sends webhooks for a control plane: resolves, guards, signs, posts and reports.
#[derive(Debug, Parser)]
#[command(name = "posthaste-agent", version)]
struct Flags {
    /// URL of a control plane's gRPC port; repeat it for more than one.
    #[arg(long = "control-plane", env = "POSTHASTE_CONTROL_PLANE", value_name = "URL", value_delimiter = ',')]
    control_planes: Vec<String>,
    /// A name that no other living agent has [default: host name and a random number].
    #[arg(long, env = "POSTHASTE_AGENT_ID", value_name = "ID")]
    agent_id: Option<String>,
    /// Deliveries in hand at once.
    #[arg(long, env = "POSTHASTE_MAX_IN_FLIGHT", value_name = "N", default_value_t = 256)]
    max_in_flight: u64,
    /// Bytes of payload in hand at once.
    #[arg(long, env = "POSTHASTE_BYTES_MAX", value_name = "BYTES", default_value_t = 67_108_864)]
    bytes_max: u64,
    /// Also send to http:// URLs.
    #[arg(long, env = "POSTHASTE_ALLOW_HTTP")]
    allow_http: bool,
    /// Also send to addresses of this network, although they aren't public; repeat it for more than one.
    #[arg(long = "allow-cidr", env = "POSTHASTE_ALLOW_CIDR", value_name = "CIDR", value_delimiter = ',')]
    allow_cidrs: Vec<String>,
    /// Send to these ports only; repeat it for more than one [default: every port but those of other protocols]
    #[arg(long = "allow-port", env = "POSTHASTE_ALLOW_PORT", value_name = "PORT", value_delimiter = ',')]
    allow_ports: Vec<u16>,
    /// This network translates 64:ff9b::/96: judge such an address by the IPv4 address inside it.
    #[arg(long, env = "POSTHASTE_NAT64")]
    nat64: bool,
    /// The proxy through which receivers are reached, http://host:port [default: none]
    #[arg(long, env = "POSTHASTE_EGRESS_PROXY", value_name = "URL", default_value = "", hide_default_value = true)]
    egress_proxy: String,
    /// Ask this name server instead of those that this machine is configured for; repeat it for more than one.
    #[arg(long = "name-server", env = "POSTHASTE_NAME_SERVER", value_name = "ADDRESS", value_delimiter = ',')]
    name_servers: Vec<SocketAddr>,
    /// A file of certificates in PEM whose authorities are trusted beside Mozilla's.
    #[arg(long, env = "POSTHASTE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long a drain may take.
    #[arg(long, env = "POSTHASTE_DRAIN_LIMIT", value_name = "DURATION", default_value = "30s")]
    drain_limit: String,
    /// Where /livez, /readyz and /metrics are answered; empty: nowhere.
    #[arg(long, env = "POSTHASTE_AGENT_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7431")]
    admin_listen: String,
    /// Where spans are sent by OTLP over gRPC, such as http://127.0.0.1:4317 [default: nowhere]
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    otlp_endpoint: String,
    /// What this program is called in spans.
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME", default_value = "posthaste-agent")]
    service_name: String,
    /// How logs are written to stderr; RUST_LOG says how much.
    #[arg(long, env = "POSTHASTE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Check the configuration and end; connects to nothing.
    #[arg(long)]
    check_config: bool,
    /// Drain when stdin ends, as it does when the parent process is gone.
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Runs the program with its arguments, of which the first is its name, until it is told to stop.
///
/// Exit codes: 0 after a drain that told everything, 1 on failure, 2 for unknown flags, 64 for a wrong configuration.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let flags = match Flags::try_parse_from(args) {
        Ok(flags) => flags,
        Err(error) => {
            // Nowhere is left to say that stdout or stderr is closed.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    start_logs(flags.log_format);
    // Another part of the same process may have installed it; it is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (check_config, exit_with_parent) = (flags.check_config, flags.exit_with_parent);
    let config = match config(flags) {
        Ok(config) => config,
        Err(problems) => {
            tracing::error!("the configuration is wrong:\n{}", problems.join("\n"));
            return ExitCode::from(CONFIGURATION);
        }
    };
    if check_config {
        return ExitCode::SUCCESS;
    }
    match run(config, exit_with_parent) {
        Ok(drained) if drained.complete => ExitCode::SUCCESS,
        Ok(drained) => {
            let unacknowledged = drained.unacknowledged;
            tracing::error!(unacknowledged, "the drain limit passed before everything was told");
            ExitCode::from(FAILED)
        }
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// The configuration, or every problem with it.
fn config(flags: Flags) -> Result<Config, Vec<String>> {
    let mut problems = Vec::new();
    let drain_limit = parse_duration(&flags.drain_limit).unwrap_or_else(|error| {
        problems.push(format!("--drain-limit: {error}"));
        DRAIN_LIMIT_MIN
    });
    let policy = Policy::new(flags.allow_http, &flags.allow_cidrs).unwrap_or_else(|error| {
        problems.push(format!("--allow-cidr: {error}"));
        Policy::default()
    });
    let nat64 = if flags.nat64 { Nat64::JudgeEmbedded } else { Nat64::Refuse };
    let policy = policy.with_nat64(nat64).with_ports(flags.allow_ports);
    let egress_proxy = match flags.egress_proxy.trim() {
        "" => None,
        text => Proxy::parse(text).map_err(|error| problems.push(format!("--egress-proxy: {error}"))).ok(),
    };
    let authorities = flags.ca_file.as_deref().map_or_else(|| Ok(Vec::new()), authorities).unwrap_or_else(|problem| {
        problems.push(format!("--ca-file: {problem}"));
        Vec::new()
    });
    let admin_listen = match flags.admin_listen.trim() {
        "" => None,
        text => text
            .parse()
            .map_err(|_| problems.push(format!("--admin-listen: `{text}` is no address such as 127.0.0.1:7431")))
            .ok(),
    };
    let collector = Collector::new(&flags.otlp_endpoint, &flags.service_name).unwrap_or_else(|_| {
        problems.push(format!("--otlp-endpoint: `{}` is no URL such as http://127.0.0.1:4317", flags.otlp_endpoint));
        None
    });
    let config = Config {
        control_planes: flags.control_planes,
        agent_id: flags.agent_id.unwrap_or_else(default_agent_id),
        max_in_flight: flags.max_in_flight,
        bytes_max: flags.bytes_max,
        policy,
        egress_proxy,
        name_servers: flags.name_servers,
        authorities,
        drain_limit,
        admin_listen,
        collector,
    };
    problems.extend(config.problems());
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = std::fs::read(file).map_err(|error| format!("`{}` can't be read: {error}", file.display()))?;
    certificates(&pem).map_err(|problem| format!("`{}`: {problem}", file.display()))
}

fn default_agent_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "agent" } else { host.trim() };
    format!("{host}-{:08x}", rand::rng().random::<u32>())
}

fn start_logs(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    // A subscriber that is there already, such as a test's, stays.
    let _ = match format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
}

fn run(config: Config, exit_with_parent: bool) -> anyhow::Result<Drained> {
    let relaxed = config.policy.is_relaxed();
    tracing::info!(
        agent_id = %config.agent_id,
        control_planes = ?config.control_planes,
        max_in_flight = config.max_in_flight,
        bytes_max = config.bytes_max,
        drain_limit_s = config.drain_limit.as_secs_f64(),
        relaxed_address_policy = relaxed,
        "starting"
    );
    let ready = format!("ready agent={}", config.agent_id);
    let agent = config.build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let shutdown = CancellationToken::new();
    if exit_with_parent {
        let shutdown = shutdown.clone();
        thread::Builder::new().name("parent".to_owned()).spawn(move || {
            // Whether it ends or breaks, the parent is gone.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            shutdown.cancel();
        })?;
    }
    let drained = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let stop = shutdown.clone();
        let signals = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stop.cancel();
            std::future::pending::<()>().await;
        };
        let announce = move |admin: Option<SocketAddr>| {
            let admin = admin.map(|address| format!(" admin={address}")).unwrap_or_default();
            let mut stdout = std::io::stdout();
            // Nobody listens if stdout is closed.
            let _ = stdout.write_all(format!("{ready}{admin}\n").as_bytes()).and_then(|()| stdout.flush());
        };
        tokio::select! {
            drained = agent.run(shutdown, announce) => anyhow::Ok(drained?),
            () = signals => anyhow::bail!("the signals ended"),
        }
    });
    // Attempts beyond the drain limit are abandoned: their leases end unreported.
    runtime.shutdown_background();
    drained
}

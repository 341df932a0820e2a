//! What the control plane is told at start: flags and environment, read once and checked whole.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use posthaste_domain::{address::Policy, time::parse_duration};

use posthaste_telemetry::traces::Collector;

use crate::{dispatch, secret::KeyRing, store::StoreConfig};

/// Accepts events, keeps them in Postgres, leases deliveries to agents and settles the attempts.
#[derive(Clone, Debug, Parser)]
#[command(name = "posthaste-control-plane", version)]
pub(crate) struct Arguments {
    /// Postgres 15 or newer, as postgres://user@host/database.
    #[arg(long, env = "POSTHASTE_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Where the gRPC services listen.
    #[arg(long, env = "POSTHASTE_GRPC_LISTEN", default_value = "127.0.0.1:7420")]
    pub(crate) grpc_listen: SocketAddr,
    /// Where /livez, /readyz and /metrics are answered.
    #[arg(long, env = "POSTHASTE_ADMIN_LISTEN", default_value = "127.0.0.1:7421")]
    pub(crate) admin_listen: SocketAddr,
    /// The URL under which agents reach this replica's gRPC port; default: the listen address.
    #[arg(long, env = "POSTHASTE_ADVERTISE_URL")]
    pub(crate) advertise_url: Option<String>,
    /// The name of this replica; default: drawn at random.
    #[arg(long, env = "POSTHASTE_REPLICA_ID")]
    pub(crate) replica_id: Option<String>,
    /// File with the keys that encrypt endpoint secrets: a line `key_id:base64 of 32 bytes` each, the first encrypts.
    #[arg(long, env = "POSTHASTE_SECRET_KEY_FILE")]
    pub(crate) secret_key_file: Option<PathBuf>,
    /// The same keys given directly, separated by line ends.
    #[arg(long, env = "POSTHASTE_SECRET_KEY", hide_env_values = true, hide = true)]
    pub(crate) secret_key: Option<String>,
    /// Allow endpoint URLs with http.
    #[arg(long, env = "POSTHASTE_ALLOW_HTTP")]
    pub(crate) allow_http: bool,
    /// Allow endpoint addresses in this range that the address policy refuses; may be repeated.
    #[arg(long, env = "POSTHASTE_ALLOW_CIDR", value_delimiter = ',')]
    pub(crate) allow_cidr: Vec<String>,
    /// Accept a database that can lose what it has acknowledged.
    #[arg(long, env = "POSTHASTE_ACCEPT_LOSS")]
    pub(crate) accept_loss: bool,
    /// How long a lease lives without renewal.
    #[arg(long, env = "POSTHASTE_LEASE_TTL", default_value = "9s", value_parser = parse_duration)]
    pub(crate) lease_ttl: Duration,
    /// How long after its first due time a delivery is given up, at most 30 days.
    #[arg(long, env = "POSTHASTE_DELIVERY_LIFE", default_value = "7d", value_parser = parse_duration)]
    pub(crate) delivery_life: Duration,
    /// How many bytes of an answer's body are kept.
    #[arg(long, env = "POSTHASTE_RESPONSE_BODY_BYTES", default_value_t = 1_024)]
    pub(crate) response_body_bytes: u32,
    /// The longest Retry-After that is obeyed, at most 7 days.
    #[arg(long, env = "POSTHASTE_RETRY_AFTER_CAP", default_value = "24h", value_parser = parse_duration)]
    pub(crate) retry_after_cap: Duration,
    /// How long events and attempts are kept after their deliveries must have ended.
    #[arg(long, env = "POSTHASTE_EVENT_RETENTION", default_value = "30d", value_parser = parse_duration)]
    pub(crate) event_retention: Duration,
    /// Connections to the database.
    #[arg(long, env = "POSTHASTE_POOL_SIZE", default_value_t = 16)]
    pub(crate) pool_size: u32,
    /// How long a shutdown may take before the process ends anyway.
    #[arg(long, env = "POSTHASTE_SHUTDOWN_LIMIT", default_value = "30s", value_parser = parse_duration)]
    pub(crate) shutdown_limit: Duration,
    /// Where spans are sent by OTLP over gRPC, such as http://127.0.0.1:4317; default: nowhere.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", default_value = "", hide_default_value = true)]
    pub(crate) otlp_endpoint: String,
    /// What this program is called in spans.
    #[arg(long, env = "OTEL_SERVICE_NAME", default_value = "posthaste-control-plane")]
    pub(crate) service_name: String,
    /// `text` or `json`.
    #[arg(long, env = "POSTHASTE_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: String,
    /// Bring the schema up to date and end; needs the database alone, and no secret key.
    #[arg(long)]
    pub(crate) migrate_only: bool,
    /// Check the configuration and end; touches neither the database nor a port.
    #[arg(long)]
    pub(crate) check_config: bool,
}

/// Checked arguments.
#[derive(Debug)]
pub(crate) struct Config {
    /// How to reach the database.
    pub(crate) store: StoreConfig,
    /// Where the gRPC services listen.
    pub(crate) grpc_listen: SocketAddr,
    /// Where health and metrics are answered.
    pub(crate) admin_listen: SocketAddr,
    /// What agents are told to connect to; `None`: the address that was bound.
    pub(crate) advertise_url: Option<String>,
    /// Keys for endpoint secrets.
    pub(crate) keys: Arc<KeyRing>,
    /// Which URLs endpoints may have.
    pub(crate) policy: Policy,
    /// What the dispatcher is told.
    pub(crate) dispatch: dispatch::Settings,
    /// How long a delivery lives when the event doesn't say.
    pub(crate) delivery_life: Duration,
    /// How long ended things are kept.
    pub(crate) event_retention: Duration,
    /// The hard limit of a shutdown.
    pub(crate) shutdown_limit: Duration,
    /// Who gets spans, if anybody.
    pub(crate) collector: Option<Collector>,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Arguments {
    /// Checks everything; the error lists every problem, a line each.
    pub(crate) fn check(self) -> Result<Config, ConfigError> {
        let mut problems = Vec::new();
        let database_url = self.database_url().map_err(|problem| problems.push(problem)).ok();
        let keys = self.keys().map_err(|problem| problems.push(problem)).ok();
        let policy = Policy::new(self.allow_http, &self.allow_cidr);
        let policy = policy.map_err(|error| problems.push(format!("--allow-cidr: {error}"))).ok();
        let mut demand = |holds: bool, problem: &str| {
            if !holds {
                problems.push(problem.to_owned());
            }
        };
        demand(
            (Duration::from_secs(3)..=Duration::from_secs(300)).contains(&self.lease_ttl),
            "--lease-ttl must be 3 s to 5 min: a lease is renewed every third of it",
        );
        demand(
            (Duration::from_secs(60)..=30 * DAY).contains(&self.delivery_life),
            "--delivery-life must be 1 min to 30 days",
        );
        demand(self.response_body_bytes <= 65_536, "--response-body-bytes must be at most 65536");
        demand(
            (Duration::from_secs(1)..=7 * DAY).contains(&self.retry_after_cap),
            "--retry-after-cap must be 1 s to 7 days",
        );
        demand(
            self.event_retention >= DAY && self.event_retention <= 3650 * DAY,
            "--event-retention must be 1 to 3650 days",
        );
        demand((4..=200).contains(&self.pool_size), "--pool-size must be 4 to 200");
        demand(matches!(self.log_format.as_str(), "text" | "json"), "--log-format must be text or json");
        demand(
            (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.shutdown_limit),
            "--shutdown-limit must be 1 s to 1 h",
        );
        let collector = Collector::new(&self.otlp_endpoint, &self.service_name);
        demand(collector.is_ok(), "--otlp-endpoint must be an http URL, such as http://127.0.0.1:4317");
        let replica_id = self.replica_id.unwrap_or_else(|| format!("replica-{:016x}", rand::random::<u64>()));
        demand((1..=255).contains(&replica_id.len()), "--replica-id must be 1 to 255 bytes");
        match (database_url, keys, policy) {
            (Some(database_url), Some(keys), Some(policy)) if problems.is_empty() => Ok(Config {
                store: StoreConfig {
                    database_url,
                    accept_loss: self.accept_loss,
                    replica_id: replica_id.clone(),
                    pool_size: self.pool_size,
                },
                grpc_listen: self.grpc_listen,
                admin_listen: self.admin_listen,
                advertise_url: self.advertise_url,
                keys: Arc::new(keys),
                policy,
                dispatch: dispatch::Settings {
                    replica_id,
                    lease_ttl: self.lease_ttl,
                    retry_after_cap: self.retry_after_cap,
                    response_body_bytes: self.response_body_bytes,
                    ..dispatch::Settings::default()
                },
                delivery_life: self.delivery_life,
                event_retention: self.event_retention,
                shutdown_limit: self.shutdown_limit,
                collector: collector.unwrap_or_default(),
            }),
            _ => Err(ConfigError { problems }),
        }
    }

    /// What a migration needs, and nothing else; the error lists every problem.
    pub(crate) fn check_migration(self) -> Result<StoreConfig, ConfigError> {
        let database_url = self.database_url().map_err(|problem| ConfigError { problems: vec![problem] })?;
        let replica_id = self.replica_id.unwrap_or_else(|| "migration".to_owned());
        Ok(StoreConfig { database_url, accept_loss: self.accept_loss, replica_id, pool_size: 2 })
    }

    fn database_url(&self) -> Result<String, String> {
        let url = self.database_url.as_deref().unwrap_or_default();
        if url.is_empty() {
            return Err("--database-url is missing: events are kept in Postgres, such as \
                        postgres://posthaste@localhost/posthaste"
                .to_owned());
        }
        let known = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if known { Ok(url.to_owned()) } else { Err("--database-url must begin with postgres://".to_owned()) }
    }

    fn keys(&self) -> Result<KeyRing, String> {
        let text = match (&self.secret_key, &self.secret_key_file) {
            (Some(text), _) => text.clone(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("--secret-key-file {} can't be read: {error}", file.display()))?,
            (None, None) => {
                return Err("--secret-key-file is missing: endpoint secrets are kept encrypted. Make a key with \
                     `echo \"k1:$(openssl rand -base64 32)\" > posthaste.key`"
                    .to_owned());
            }
        };
        KeyRing::parse(&text).map_err(|error| format!("--secret-key-file: {error}"))
    }
}

/// Every problem of the configuration.
#[derive(Debug, thiserror::Error)]
#[error("the configuration can't be used:{}", list(.problems))]
pub(crate) struct ConfigError {
    problems: Vec<String>,
}

fn list(problems: &[String]) -> String {
    problems.iter().map(|problem| format!("\n  - {problem}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(more: &[&str]) -> Arguments {
        let mut all = vec!["x", "--database-url", "postgres://localhost/x"];
        all.extend(more);
        Arguments::parse_from(all)
    }

    #[test]
    fn all_problems_come_in_one_message() {
        let bad = ["--lease-ttl", "1s", "--delivery-life", "31d", "--allow-cidr", "nonsense", "--pool-size", "1"];
        let text = arguments(&bad).check().map(|_| ()).unwrap_err().to_string();
        for part in ["--lease-ttl", "--delivery-life", "--allow-cidr", "--pool-size", "--secret-key-file is missing"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_missing_database_is_one_of_the_problems() {
        let text = Arguments::parse_from(["x"]).check().map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("--database-url is missing") && text.contains("--secret-key-file is missing"), "{text}");
    }

    #[test]
    fn a_migration_needs_the_database_alone() {
        assert_eq!(arguments(&["--migrate-only"]).check_migration().unwrap().database_url, "postgres://localhost/x");
        for url in ["", "mysql://localhost/x"] {
            let arguments = Arguments::parse_from(["x", "--migrate-only", "--database-url", url]);
            assert!(arguments.check_migration().unwrap_err().to_string().contains("--database-url"), "{url}");
        }
    }

    #[test]
    fn a_duration_of_nothing_or_for_ever_is_refused_by_name() {
        let key = format!("k1:{}=", "A".repeat(43));
        let flags = ["--lease-ttl", "--delivery-life", "--retry-after-cap", "--event-retention", "--shutdown-limit"];
        for flag in flags {
            for value in ["0s", "1ns", "100000d"] {
                let text = arguments(&["--secret-key", &key, flag, value]).check().map(|_| ()).unwrap_err().to_string();
                assert!(text.contains(flag), "{flag} {value}: {text}");
            }
            for value in ["", "-1s", "9", "1e9s", "99999999999999999999d", "NaN"] {
                let all = ["x", &format!("{flag}={value}")];
                let text = Arguments::try_parse_from(all).unwrap_err().to_string();
                assert!(text.contains(flag), "{flag} {value}: {text}");
            }
        }
    }

    #[test]
    fn the_defaults_and_a_key_are_enough() {
        let key = format!("k1:{}=", "A".repeat(43));
        let config = arguments(&["--secret-key", &key]).check().unwrap();
        assert_eq!(config.grpc_listen.port(), 7420);
        assert!(config.grpc_listen.ip().is_loopback() && config.admin_listen.ip().is_loopback());
        assert_eq!(config.dispatch.lease_ttl, Duration::from_secs(9));
    }
}

//! What the control plane is told at start: flags and environment, read once and checked whole.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use posthaste_domain::{
    address::{Nat64, Policy},
    time::parse_duration,
};

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
    pub(crate) grpc_listen: String,
    /// Where /livez, /readyz and /metrics are answered.
    #[arg(long, env = "POSTHASTE_ADMIN_LISTEN", default_value = "127.0.0.1:7421")]
    pub(crate) admin_listen: String,
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
    /// Allow these ports in endpoint URLs only; may be repeated [default: every port but those of other protocols].
    #[arg(long, env = "POSTHASTE_ALLOW_PORT", value_delimiter = ',')]
    pub(crate) allow_port: Vec<u16>,
    /// The agents' network translates 64:ff9b::/96: judge such an address by the IPv4 address inside it.
    #[arg(long, env = "POSTHASTE_NAT64")]
    pub(crate) nat64: bool,
    /// Accept a database that can lose what it has acknowledged.
    #[arg(long, env = "POSTHASTE_ACCEPT_LOSS")]
    pub(crate) accept_loss: bool,
    /// How long a lease lives without renewal.
    #[arg(long, env = "POSTHASTE_LEASE_TTL", default_value = "9s")]
    pub(crate) lease_ttl: String,
    /// How long after its first due time a delivery is given up, at most 30 days.
    #[arg(long, env = "POSTHASTE_DELIVERY_LIFE", default_value = "7d")]
    pub(crate) delivery_life: String,
    /// How many bytes of an answer's body are kept.
    #[arg(long, env = "POSTHASTE_RESPONSE_BODY_BYTES", default_value = "1024")]
    pub(crate) response_body_bytes: String,
    /// The longest Retry-After that is obeyed, at most 7 days.
    #[arg(long, env = "POSTHASTE_RETRY_AFTER_CAP", default_value = "24h")]
    pub(crate) retry_after_cap: String,
    /// How long events and attempts are kept after their deliveries must have ended.
    #[arg(long, env = "POSTHASTE_EVENT_RETENTION", default_value = "30d")]
    pub(crate) event_retention: String,
    /// Connections to the database.
    #[arg(long, env = "POSTHASTE_POOL_SIZE", default_value = "16")]
    pub(crate) pool_size: String,
    /// A session with an agent is replaced by a new one when it is between half as old and so old.
    #[arg(long, env = "POSTHASTE_SESSION_AGE", default_value = "60m")]
    pub(crate) session_age: String,
    /// How long a shutdown may take before the process ends anyway.
    #[arg(long, env = "POSTHASTE_SHUTDOWN_LIMIT", default_value = "30s")]
    pub(crate) shutdown_limit: String,
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
    /// Encrypt every stored secret again that the first key doesn't encrypt, and end; needs the database and the keys.
    #[arg(long, conflicts_with = "migrate_only")]
    pub(crate) rotate_master_key: bool,
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

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Arguments {
    /// Checks everything; the error lists every problem, a line each.
    pub(crate) fn check(self) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let database_url = self.database_url().map_err(|problem| problems.0.push(problem)).ok();
        let keys = self.keys().map_err(|problem| problems.0.push(problem)).ok();
        let policy = Policy::new(self.allow_http, &self.allow_cidr);
        let nat64 = if self.nat64 { Nat64::JudgeEmbedded } else { Nat64::Refuse };
        let policy = policy.map(|policy| policy.with_nat64(nat64).with_ports(self.allow_port.clone()));
        let policy = policy.map_err(|error| problems.0.push(format!("--allow-cidr: {error}"))).ok();
        let grpc_listen = problems.address("--grpc-listen", &self.grpc_listen);
        let admin_listen = problems.address("--admin-listen", &self.admin_listen);
        let lease_ttl = problems.duration("--lease-ttl", &self.lease_ttl, 3 * SECOND..=300 * SECOND, "3 s to 5 min");
        let delivery_life =
            problems.duration("--delivery-life", &self.delivery_life, 60 * SECOND..=30 * DAY, "1 min to 30 days");
        let response_body_bytes = problems.number("--response-body-bytes", &self.response_body_bytes, 0..=65_536);
        let retry_after_cap =
            problems.duration("--retry-after-cap", &self.retry_after_cap, SECOND..=7 * DAY, "1 s to 7 days");
        let event_retention =
            problems.duration("--event-retention", &self.event_retention, DAY..=3650 * DAY, "1 to 3650 days");
        let pool_size = problems.number("--pool-size", &self.pool_size, 4..=200);
        let session_age = problems.duration("--session-age", &self.session_age, SECOND..=30 * DAY, "1 s to 30 days");
        let shutdown_limit =
            problems.duration("--shutdown-limit", &self.shutdown_limit, SECOND..=3600 * SECOND, "1 s to 1 h");
        problems.demand(matches!(self.log_format.as_str(), "text" | "json"), "--log-format must be text or json");
        let collector = Collector::new(&self.otlp_endpoint, &self.service_name);
        problems.demand(collector.is_ok(), "--otlp-endpoint must be an http URL, such as http://127.0.0.1:4317");
        let replica_id = self.replica_id.unwrap_or_else(|| format!("replica-{:016x}", rand::random::<u64>()));
        problems.demand((1..=255).contains(&replica_id.len()), "--replica-id must be 1 to 255 bytes");
        let (Some(database_url), Some(keys), Some(policy), true) = (database_url, keys, policy, problems.0.is_empty())
        else {
            return Err(ConfigError { problems: problems.0 });
        };
        Ok(Config {
            store: StoreConfig {
                database_url,
                accept_loss: self.accept_loss,
                replica_id: replica_id.clone(),
                pool_size,
            },
            grpc_listen,
            admin_listen,
            advertise_url: self.advertise_url,
            keys: Arc::new(keys),
            policy,
            dispatch: dispatch::Settings {
                replica_id,
                lease_ttl,
                retry_after_cap,
                response_body_bytes,
                session_age,
                ..dispatch::Settings::default()
            },
            delivery_life,
            event_retention,
            shutdown_limit,
            collector: collector.unwrap_or_default(),
        })
    }

    /// What a migration needs, and nothing else; the error lists every problem.
    pub(crate) fn check_migration(self) -> Result<StoreConfig, ConfigError> {
        let database_url = self.database_url().map_err(|problem| ConfigError { problems: vec![problem] })?;
        let replica_id = self.replica_id.unwrap_or_else(|| "migration".to_owned());
        Ok(StoreConfig { database_url, accept_loss: self.accept_loss, replica_id, pool_size: 2 })
    }

    /// What a rotation of the master key needs, and nothing else; the error lists every problem.
    pub(crate) fn check_rotation(self) -> Result<(StoreConfig, KeyRing), ConfigError> {
        let mut problems = Problems::default();
        let database_url = self.database_url().map_err(|problem| problems.0.push(problem));
        let keys = self.keys().map_err(|problem| problems.0.push(problem));
        let (Ok(database_url), Ok(keys)) = (database_url, keys) else {
            return Err(ConfigError { problems: problems.0 });
        };
        let replica_id = self.replica_id.unwrap_or_else(|| "master-key-rotation".to_owned());
        Ok((StoreConfig { database_url, accept_loss: self.accept_loss, replica_id, pool_size: 2 }, keys))
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

/// What is wrong so far. What can't be read is replaced by something that is never used.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn demand(&mut self, holds: bool, problem: &str) {
        if !holds {
            self.0.push(problem.to_owned());
        }
    }

    fn address(&mut self, flag: &str, text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| {
            self.0.push(format!("{flag} must be an address and a port such as 127.0.0.1:7420, and is `{text}`"));
            SocketAddr::from(([127, 0, 0, 1], 0))
        })
    }

    fn number(&mut self, flag: &str, text: &str, range: RangeInclusive<u32>) -> u32 {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.unwrap_or_else(|| {
            self.0.push(format!("{flag} must be {} to {}, and is `{text}`", range.start(), range.end()));
            *range.start()
        })
    }

    fn duration(&mut self, flag: &str, text: &str, range: RangeInclusive<Duration>, words: &str) -> Duration {
        let read = parse_duration(text).map_err(|error| format!("{flag}: {error}"));
        let read = read.and_then(|duration| {
            let problem = || format!("{flag} must be {words}, and is `{text}`");
            range.contains(&duration).then_some(duration).ok_or_else(problem)
        });
        read.unwrap_or_else(|problem| {
            self.0.push(problem);
            Duration::ZERO
        })
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
        Arguments::parse_from(["x"].iter().chain(more))
    }

    #[test]
    fn all_problems_come_in_one_message() {
        let bad = ["--lease-ttl", "1s", "--delivery-life", "31x", "--allow-cidr", "nonsense", "--pool-size", "many"];
        let bad = [&bad[..], &["--grpc-listen", "7420", "--log-format", "xml"]].concat();
        let text = arguments(&bad).check().map(|_| ()).unwrap_err().to_string();
        let flags = bad.iter().step_by(2).chain(&["--secret-key-file is missing", "--database-url"]);
        for part in flags {
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
        let good = arguments(&["--migrate-only", "--database-url", "postgres://localhost/x"]);
        assert_eq!(good.check_migration().unwrap().database_url, "postgres://localhost/x");
        for url in ["", "mysql://localhost/x"] {
            let arguments = Arguments::parse_from(["x", "--migrate-only", "--database-url", url]);
            assert!(arguments.check_migration().unwrap_err().to_string().contains("--database-url"), "{url}");
        }
    }

    #[test]
    fn a_rotation_needs_the_database_and_the_keys() {
        let key = format!("k1:{}=", "A".repeat(43));
        let good = ["--rotate-master-key", "--database-url", "postgres://localhost/x", "--secret-key", &key];
        let (store, keys) = arguments(&good).check_rotation().unwrap();
        assert_eq!((store.database_url.as_str(), keys.first_id()), ("postgres://localhost/x", "k1"));
        let text = Arguments::parse_from(["x", "--rotate-master-key"]).check_rotation().unwrap_err().to_string();
        assert!(text.contains("--database-url is missing") && text.contains("--secret-key-file is missing"), "{text}");
        assert!(Arguments::try_parse_from(["x", "--rotate-master-key", "--migrate-only"]).is_err());
    }

    #[test]
    fn a_duration_of_nothing_or_for_ever_is_refused_by_name() {
        let key = format!("k1:{}=", "A".repeat(43));
        let flags = ["--lease-ttl", "--delivery-life", "--retry-after-cap", "--event-retention", "--shutdown-limit"];
        for flag in flags {
            for value in ["0s", "1ns", "100000d", "", "-1s", "9", "1e9s", "99999999999999999999d", "NaN"] {
                let flagged = format!("{flag}={value}");
                let text = arguments(&["--secret-key", &key, &flagged]).check().map(|_| ()).unwrap_err().to_string();
                assert!(text.contains(flag), "{flag} {value}: {text}");
            }
        }
    }

    #[test]
    fn the_defaults_and_a_key_are_enough() {
        let key = format!("k1:{}=", "A".repeat(43));
        let config = arguments(&["--database-url", "postgres://localhost/x", "--secret-key", &key]).check().unwrap();
        assert_eq!(config.grpc_listen.port(), 7420);
        assert!(config.grpc_listen.ip().is_loopback() && config.admin_listen.ip().is_loopback());
        assert_eq!(config.dispatch.lease_ttl, Duration::from_secs(9));
    }
}

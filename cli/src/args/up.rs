//! Arguments of `up` and `demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};
use ipnet::IpNet;

#[derive(Debug, Clone, Args)]
pub(crate) struct UpArgs {
    /// The folder that keeps everything between runs [default: $XDG_DATA_HOME/posthaste, else ./.posthaste].
    #[arg(long, env = "POSTHASTE_DATA_DIR", value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Use this database instead of running one.
    #[arg(long, env = "POSTHASTE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
    /// Keys that encrypt the endpoints' secrets [default: secret.key in the data folder, made when missing].
    #[arg(long, env = "POSTHASTE_SECRET_KEY_FILE", value_name = "FILE")]
    pub(crate) secret_key_file: Option<PathBuf>,
    /// How many agents send.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=64), value_name = "N")]
    pub(crate) agents: u16,
    /// Where the API listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7420", value_name = "ADDRESS")]
    pub(crate) grpc_listen: SocketAddr,
    /// Where /livez, /readyz and /metrics of the control plane listen.
    #[arg(long, default_value = "127.0.0.1:7421", value_name = "ADDRESS")]
    pub(crate) admin_listen: SocketAddr,
    /// Let endpoints have http URLs.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(crate) allow_http: bool,
    /// Private addresses that endpoints may have; replaces the default.
    #[arg(long, default_values = ["127.0.0.0/8", "::1/128"], value_name = "CIDR")]
    pub(crate) allow_cidr: Vec<IpNet>,
    /// Use a database that may forget what it has acknowledged.
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) postgres: PostgresArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PostgresArgs {
    /// The folder of `initdb` and `postgres` to run a database with [default: found, else fetched].
    #[arg(long, env = "POSTHASTE_POSTGRES_BIN", value_name = "FOLDER")]
    pub(crate) postgres_bin: Option<PathBuf>,
}

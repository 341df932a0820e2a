//! Start and stop of the process: arguments, log, signals, and the line that says it serves.

use std::{error::Error, ffi::OsString, io::Write, process::ExitCode};

use clap::Parser;
use posthaste_telemetry::traces::{Sampling, Traces};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Arguments, Config, ConfigError},
    master_key::{self, RotateError},
    secret::KeyRing,
    server::{Server, ServerError},
    store::{Store, StoreConfig},
};

/// Exit code for a configuration that can't be used.
const EXIT_CONFIGURATION: u8 = 64;
/// Exit code for a database or port that can't be reached.
const EXIT_UNAVAILABLE: u8 = 69;

/// Runs the control plane with these arguments, the program's name first, until a signal ends it.
///
/// Exit codes: 0 after an orderly end, 1 on failure, 2 for unknown flags, 64 for a configuration or a database that is
/// refused, 69 for a database or port that can't be reached.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            let usage = error.use_stderr();
            // Printing can only fail when nobody reads it.
            let _ = error.print();
            return if usage { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    start_log(&arguments.log_format);
    let (migrate_only, check_config) = (arguments.migrate_only, arguments.check_config);
    if migrate_only {
        return match arguments.check_migration() {
            Ok(_) if check_config => ExitCode::SUCCESS,
            Ok(store) => block_on(migrate(store)),
            Err(error) => misconfigured(&error),
        };
    }
    if arguments.rotate_master_key {
        return match arguments.check_rotation() {
            Ok(_) if check_config => ExitCode::SUCCESS,
            Ok((store, keys)) => block_on(rotate_master_key(store, keys)),
            Err(error) => misconfigured(&error),
        };
    }
    match arguments.check() {
        Ok(_) if check_config => ExitCode::SUCCESS,
        Ok(config) => block_on(serve(config)),
        Err(error) => misconfigured(&error),
    }
}

fn misconfigured(error: &ConfigError) -> ExitCode {
    tracing::error!("{error}");
    ExitCode::from(EXIT_CONFIGURATION)
}

/// Runs to the end what needs a runtime.
fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime can be started");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(work);
    runtime.shutdown_background();
    code
}

async fn migrate(config: StoreConfig) -> ExitCode {
    match Server::migrate(&config).await {
        Ok(()) => {
            tracing::info!("the schema is up to date");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

async fn rotate_master_key(config: StoreConfig, keys: KeyRing) -> ExitCode {
    let store = match Store::connect(&config).await {
        Ok(store) => store,
        Err(error) => return failed(&ServerError::of_database(error)),
    };
    match master_key::rotate(&store, &keys).await {
        Ok(rotated) => {
            print(&rotated.report());
            let Some(problem) = rotated.problem() else { return ExitCode::SUCCESS };
            tracing::error!("{problem}");
            ExitCode::FAILURE
        }
        Err(error @ RotateError::KeysMissing(_)) => {
            tracing::error!("{}", chain(&error));
            ExitCode::from(EXIT_CONFIGURATION)
        }
        Err(error @ RotateError::Store(_)) => {
            tracing::error!("{}", chain(&error));
            ExitCode::from(EXIT_UNAVAILABLE)
        }
    }
}

async fn serve(config: Config) -> ExitCode {
    let stop = CancellationToken::new();
    tokio::spawn(watch_signals(stop.clone()));
    let traces = match Traces::start(config.collector.as_ref(), Sampling::OfCallers) {
        Ok(traces) => traces,
        Err(error) => {
            tracing::error!(%error, "no spans can be sent");
            return ExitCode::from(EXIT_CONFIGURATION);
        }
    };
    let server = match Server::build(config, traces.clone()).await {
        Ok(server) => server,
        Err(error) => return failed(&error),
    };
    print(&format!("ready grpc={} admin={}\n", server.grpc_address(), server.admin_address()));
    let ended = server.run(stop).await;
    traces.stop().await;
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn print(text: &str) {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        tracing::warn!(%error, "nobody reads standard output");
    }
}

/// An error and its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn failed(error: &ServerError) -> ExitCode {
    tracing::error!("{}", chain(error));
    match error {
        ServerError::Refused(_) => ExitCode::from(EXIT_CONFIGURATION),
        ServerError::Database(_) | ServerError::Config(_) | ServerError::Listen(_) => ExitCode::from(EXIT_UNAVAILABLE),
        ServerError::Serve(_) => ExitCode::FAILURE,
    }
}

fn start_log(format: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr);
    // A second start in one process keeps the first log.
    let _ = if format == "json" { log.json().try_init() } else { log.try_init() };
}

async fn watch_signals(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("signals can't be watched: only a kill will end this process");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
}

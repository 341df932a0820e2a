//! The command line.

mod bench;
mod claims;
mod internal;
mod receiver;
mod top;
mod up;

use clap::{Parser, Subcommand};

use crate::commands::{Call, Connection};

pub(crate) use bench::{BenchArgs, BenchScenario, MeasureArgs, StatisticsArgs};
pub(crate) use claims::{FairnessArgs, HostileArgs, IsolationArgs, LimitsArgs};
pub(crate) use internal::{InternalArgs, InternalPart};
pub(crate) use receiver::ReceiverArgs;
pub(crate) use top::TopArgs;
pub(crate) use up::{DemoArgs, UpArgs};

/// Delivers events to HTTP endpoints: at least once, signed, retried, accounted for.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole system on this machine: database, control plane, agents.
    Up(UpArgs),
    /// Show what becomes of events when endpoints are overloaded, silent or gone.
    Demo(DemoArgs),
    /// Be an endpoint: answer by a script, show and check each request.
    Receiver(ReceiverArgs),
    /// Measure a system that is started for it.
    Bench(BenchArgs),
    /// Watch which accounts wait longest, and what the agents do.
    Top(TopArgs),
    /// Run one part of a system in this process.
    #[command(hide = true)]
    Internal(InternalArgs),
    #[command(flatten)]
    Call(Call),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Args, clap::error::ErrorKind> {
        Args::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    /// Scripts rely on these.
    #[test]
    fn the_stable_forms_parse() {
        let forms = [
            "posthaste account create acme",
            "posthaste account create acme --rate 2.5 --burst 10 --max-in-flight 4",
            "posthaste account list --output json",
            "posthaste account update acme --rate 3 --clear max_in_flight,schedule",
            "posthaste account pause acme",
            "posthaste endpoint create --account a --id e --url https://example.com/h",
            "posthaste endpoint create --account a --id e --url https://example.com/h --events t.one,t.two --events three",
            "posthaste endpoint create --account a --id e --url https://example.com/h --signature-scheme ed25519",
            "posthaste endpoint rotate-secret --account a e --overlap 1h",
            "posthaste endpoint secret --account a e",
            "posthaste endpoint disable --account a e",
            "posthaste endpoint disable --account a e --keep-deliveries",
            "posthaste emit --account a --type t --data {}",
            "posthaste emit --account a --type t --data - --key k --deliver-in 10s",
            "posthaste emit --account a --type t --data @f --time-to-live 1h --endpoint e --endpoint f --label a=b",
            "posthaste event list --account a --type t --page-size 3 --page-token x",
            "posthaste event cancel --account a evt_1",
            "posthaste delivery list --account a",
            "posthaste delivery list --account a --state pending,leased --endpoint e",
            "posthaste delivery replay --account a dlv_1",
            "posthaste attempts --account a evt_1",
            "posthaste explain --account a dlv_1",
            "posthaste backlog --account a",
            "posthaste backlog --account a --endpoint e --output json",
            "posthaste account update acme --weight 3 --throttle-scope account --clear burst",
            "posthaste endpoint update --account a e --rate 0.5 --burst 2 --clear max_in_flight",
            "posthaste ping --account a e",
            "posthaste top",
            "posthaste top --once --output json",
            "posthaste top --interval 500ms --accounts 5",
            "posthaste receiver",
            "posthaste receiver --listen 127.0.0.1:0 --account a /orders=503,503,200 /slow=hang /busy=429:10",
            "posthaste receiver --secret /a=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "posthaste bench statistics --deliveries 1000",
            "posthaste bench throughput --deliveries 1000 --endpoints 10 --fan-out 10 --room 8 --compare old.json",
            "posthaste bench latency --rate 100 --seconds 10 --payload-bytes 500 --output json",
            "posthaste bench isolation --rate 100 --seconds 5 --rounds 1 --output json",
            "posthaste bench fairness --deliveries 1000 --accounts 10 --weighed-deliveries 1000",
            "posthaste bench limits --pairs 12 --rate 300 --seconds 5 --accounts 10",
            "posthaste bench backlog --agents 1 --batch 50 --batch-callers 2 --callers 8",
            "posthaste --server http://127.0.0.1:1 --output json attempts --account a dlv_1",
            "posthaste attempts --account a dlv_1 --server http://127.0.0.1:1 --output table",
        ];
        for form in forms {
            assert!(parse(form).is_ok(), "{form}: {:?}", parse(form));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_any_call() {
        use clap::error::ErrorKind::{InvalidSubcommand, InvalidValue, MissingRequiredArgument, ValueValidation};
        let cases = [
            ("posthaste emit --account a --type t", MissingRequiredArgument),
            ("posthaste emit --type t --data {}", MissingRequiredArgument),
            ("posthaste emit --account a --type t --data {} --deliver-in soon", ValueValidation),
            ("posthaste account create a --rate fast", ValueValidation),
            ("posthaste account create a --throttle-scope all", InvalidValue),
            ("posthaste account create a --weight heavy", ValueValidation),
            ("posthaste account create a --overload-wait 1s", MissingRequiredArgument),
            ("posthaste account update a --clear account_id", InvalidValue),
            ("posthaste delivery list --account a --state failed", InvalidValue),
            ("posthaste account list --output xml", InvalidValue),
            ("posthaste account list --server 127.0.0.1:7420", ValueValidation),
            ("posthaste receiver orders=200", ValueValidation),
            ("posthaste receiver /orders=maybe", ValueValidation),
            ("posthaste receiver --secret whsec_short", ValueValidation),
            ("posthaste endpoint create --account a --url https://e.com/h --signature-scheme rsa", InvalidValue),
            ("posthaste webhook list", InvalidSubcommand),
        ];
        for (line, kind) in cases {
            assert_eq!(parse(line).err(), Some(kind), "{line}");
        }
    }
}

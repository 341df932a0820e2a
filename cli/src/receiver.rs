//! `posthaste receiver`: an endpoint for trying things out, which answers by a script, shows each request, and holds the
//! sender to what it has promised.

use std::collections::HashMap;

use anyhow::Result;
use chrono::{DateTime, Utc};
use posthaste_bench::receiver::check::{Checks, Findings, Mark, Summary};
use posthaste_bench::receiver::{Received, Receiver};
use posthaste_domain::signature::Secret;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ReceiverArgs;
use crate::commands::{Connection, endpoint_secrets};
use crate::exit::{Exit, Refused};
use crate::output::{Format, printable};
use crate::terminal::{note, say};

/// Runs until Ctrl-C or SIGTERM; success only if every check held.
pub(crate) async fn run(connection: &Connection, args: ReceiverArgs) -> Result<Exit> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let secrets = secrets(connection, &args).await?;
    let receiver = Receiver::start(args.listen).await.map_err(|error| Refused {
        exit: Exit::Failed,
        message: format!(
            "can't listen on {}: {error}\n  choose another with --listen; port 0 takes a free one",
            args.listen
        ),
    })?;
    let output = connection.output();
    announce(output, &receiver, &args, &secrets);
    for script in args.scripts {
        receiver.script(&script.path, script.answers);
    }
    for (path, secrets) in secrets {
        match path {
            Some(path) => receiver.trust(&path, secrets),
            None => receiver.trust_everywhere(secrets),
        }
    }
    let mut checks = Checks::default();
    let mut arrivals = receiver.arrivals();
    loop {
        for request in receiver.take_received() {
            let findings = checks.look(&request);
            say(&match output {
                Format::Table => row(&request, &findings),
                Format::Json => line(&request, &findings),
            });
        }
        tokio::select! {
            _ = arrivals.changed() => {}
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    let summary = checks.summary();
    say(&match output {
        Format::Table => sum(summary),
        Format::Json => json!({ "summary": summary }).to_string(),
    });
    Ok(if summary.failed == 0 { Exit::Success } else { Exit::Failed })
}

/// By path; none: for every path without secrets of its own.
type Secrets = HashMap<Option<String>, Vec<Secret>>;

async fn secrets(connection: &Connection, args: &ReceiverArgs) -> Result<Secrets> {
    let mut secrets = Secrets::new();
    for trusted in &args.secrets {
        secrets.entry(trusted.path.clone()).or_default().push(trusted.secret.clone());
    }
    if let Some(account) = &args.account {
        for (path, secret) in endpoint_secrets(connection, account).await? {
            secrets.entry(Some(path)).or_default().push(secret);
        }
    }
    Ok(secrets)
}

fn announce(output: Format, receiver: &Receiver, args: &ReceiverArgs, secrets: &Secrets) {
    let address = receiver.address();
    if output == Format::Json {
        return say(&json!({ "ready": { "receiver": address } }).to_string());
    }
    say(&format!("ready receiver={address}"));
    if secrets.is_empty() {
        note("no secret is known, so signatures are not checked: name one with --secret, or --account to ask for them");
    }
    let mut known: Vec<&str> = secrets.keys().flatten().map(String::as_str).collect();
    known.extend(args.scripts.iter().map(|script| script.path.as_str()));
    known.sort_unstable();
    known.dedup();
    for path in known {
        let answers = args.scripts.iter().rfind(|script| script.path == path).map_or_else(
            || "200".to_owned(),
            |script| script.answers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", then "),
        );
        note(&format!("http://{address}{} answers {answers}", printable(path)));
    }
    say(
        "time          path              webhook-id                            attempt  signature  skew  answer   bytes",
    );
}

fn row(request: &Received, findings: &Findings) -> String {
    let time = DateTime::<Utc>::from(request.arrival_time).format("%H:%M:%S%.3f");
    let attempt = findings.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string());
    let skew = findings.skew_s.map_or_else(|| "-".to_owned(), |skew_s| format!("{skew_s}s"));
    let signature = match findings.signature {
        Mark::Ok => "ok",
        Mark::Bad => "bad",
        Mark::Missing => "missing",
        Mark::Unchecked => "unchecked",
    };
    let (path, id) = (printable(request.path()), printable(request.webhook_id()));
    let answer = request.answer.to_string();
    let bytes = request.body.len();
    let mut row =
        format!("{time}  {path:<16}  {id:<36}  {attempt:<7}  {signature:<9}  {skew:<4}  {answer:<7}  {bytes:>5}");
    if findings.duplicate {
        row.push_str("  duplicate");
    }
    for problem in &findings.problems {
        row.push_str("\n  problem: ");
        row.push_str(&printable(problem));
    }
    row
}

fn line(request: &Received, findings: &Findings) -> String {
    json!({
        "arrival_time": DateTime::<Utc>::from(request.arrival_time).to_rfc3339(),
        "path": request.path(),
        "webhook_id": request.webhook_id(),
        "attempt": findings.attempt,
        "signature": findings.signature,
        "skew_s": findings.skew_s,
        "answer": request.answer.to_string(),
        "body_bytes": request.body.len(),
        "duplicate": findings.duplicate,
        "problems": findings.problems,
    })
    .to_string()
}

fn sum(summary: &Summary) -> String {
    let Summary { requests, distinct_ids, duplicates, bad_signatures, unchecked_signatures, failed } = summary;
    let count =
        |number: &usize, noun: &str| if *number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") };
    let mut sum = [
        count(requests, "request"),
        count(distinct_ids, "distinct webhook-id"),
        count(duplicates, "duplicate"),
        count(bad_signatures, "bad signature"),
    ]
    .join(", ");
    if *unchecked_signatures > 0 {
        sum.push_str(&format!(", {unchecked_signatures} unchecked"));
    }
    sum.push_str(&match failed {
        0 => ": every check held".to_owned(),
        failed => format!(": problems with {}", count(failed, "request")),
    });
    sum
}

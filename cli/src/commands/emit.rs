//! `posthaste emit`: one event, from the command line, a file or standard input.

use std::{
    fs::File,
    io::{self, Read},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use clap::Args;
use posthaste_proto::{convert::time::duration_to_wire, v1::EmitRequest};

use super::{Account, Session, values};
use crate::exit::{Exit, Refused};

/// What is read at most; the service takes less, and says so by its own limit.
const READ_BYTES_MAX: u64 = 2 * 1_024 * 1_024;

#[derive(Debug, Args)]
pub(crate) struct Emit {
    #[command(flatten)]
    account: Account,
    /// The event's type, such as invoice.paid.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The payload: the text itself, @FILE, or - for standard input. Sent byte for byte.
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    data: String,
    /// The same key again answers with the same event instead of emitting another.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "KEY")]
    key: String,
    /// Deliver no sooner than this from now, by this machine's clock.
    #[arg(long, value_parser = values::duration, allow_hyphen_values = true, value_name = "DURATION")]
    deliver_in: Option<Duration>,
    /// Give up this long after the delivery first fell due.
    #[arg(long, value_parser = values::duration, allow_hyphen_values = true, value_name = "DURATION")]
    time_to_live: Option<Duration>,
    /// Deliver to this endpoint whatever its filter says; may be repeated.
    #[arg(long = "endpoint", value_name = "ENDPOINT")]
    endpoints: Vec<String>,
    /// What the payload is; the service's default is application/json.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TYPE")]
    content_type: String,
    /// A label kept with the event, name=value; may be repeated.
    #[arg(long = "label", value_parser = values::label, value_name = "LABEL")]
    labels: Vec<(String, String)>,
    /// Check everything, store nothing.
    #[arg(long)]
    validate_only: bool,
}

impl Emit {
    pub(super) async fn run(self, session: &Session) -> Result<(), Refused> {
        let payload = payload(&self.data)?;
        check_json(&payload, &self.content_type, &self.data)?;
        let request = self.into_request(payload, SystemTime::now());
        session.show(session.events().emit(request).await)
    }

    fn into_request(self, payload: Bytes, now: SystemTime) -> EmitRequest {
        EmitRequest {
            account_id: self.account.id,
            r#type: self.event_type,
            payload,
            content_type: self.content_type,
            idempotency_key: self.key,
            deliver_time: self.deliver_in.and_then(|wait| now.checked_add(wait)).map(Into::into),
            time_to_live: self.time_to_live.map(duration_to_wire),
            endpoint_ids: self.endpoints,
            labels: self.labels.into_iter().collect(),
            validate_only: self.validate_only,
            ..Default::default()
        }
    }
}

/// The bytes that `--data` stands for.
fn payload(data: &str) -> Result<Bytes, Refused> {
    let read = match (data, data.strip_prefix('@')) {
        ("-", _) => bounded(io::stdin().lock()),
        (_, Some(path)) => File::open(path).and_then(bounded),
        (text, None) => return Ok(Bytes::copy_from_slice(text.as_bytes())),
    };
    let refused = |why: String| {
        let mut message = format!("can't read the payload from {data}: {why}");
        if data != "-" {
            message.push_str(
                "\n  @ names a file, relative to the folder that you are in; without it, --data is the text itself",
            );
        }
        Refused { exit: Exit::Failed, message }
    };
    let bytes = read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        return Err(refused(format!("it has more than {READ_BYTES_MAX} bytes")));
    }
    Ok(bytes.into())
}

/// A slip in a payload that is typed by hand shows here; the service itself never looks inside.
fn check_json(payload: &[u8], content_type: &str, data: &str) -> Result<(), Refused> {
    if !content_type.is_empty() && content_type != "application/json" {
        return Ok(());
    }
    let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(payload) else { return Ok(()) };
    let place = match data.strip_prefix('@') {
        Some(path) => path,
        None if data == "-" => "what came on standard input",
        None => "the payload",
    };
    let message = format!(
        "{place} is no JSON: {error}\n  mend it, or say what it is with --content-type, such as text/plain: then it is sent \
         as it stands"
    );
    Err(Refused { exit: Exit::Failed, message })
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_payload_is_the_text_or_what_a_file_holds() {
        assert_eq!(payload("{\"a\": 1}").expect("text"), "{\"a\": 1}");
        assert_eq!(payload("").expect("nothing"), "");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"\xff\0 {}\n").expect("written");
        let name = format!("@{}", file.path().display());
        assert_eq!(payload(&name).expect("a file"), &b"\xff\0 {}\n"[..]);
    }

    #[test]
    fn what_is_sent_as_json_must_be_json() {
        let refused = check_json(b"{\"a\": 1,}", "", "@a.json").expect_err("a comma too many");
        assert!(
            refused.message.starts_with("a.json is no JSON: key must be a string at line 1"),
            "{}",
            refused.message
        );
        assert!(check_json(b"", "application/json", "-").is_err());
        for (payload, content_type) in [("{\"a\": 1e999, \"a\": \"\\ud800\"}\n", ""), ("{a}", "text/plain")] {
            assert!(check_json(payload.as_bytes(), content_type, "{a}").is_ok(), "{payload}");
        }
    }

    #[test]
    fn a_missing_or_endless_file_is_refused_by_name() {
        for (data, words) in [("@/no/such/file", "No such file"), ("@/dev/zero", "more than 2097152 bytes")] {
            let refused = payload(data).expect_err("refused");
            assert_eq!(refused.exit, Exit::Failed);
            assert!(refused.message.contains(words) && refused.message.contains(data), "{}", refused.message);
        }
    }
}

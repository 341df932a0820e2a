//! Arguments that several commands read the same way.

use std::time::Duration;

use clap::Args;
use posthaste_domain::time::{DurationError, parse_duration};
use posthaste_proto::{convert::time::duration_to_wire, v1::RetrySchedule};

/// A duration as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, DurationError> {
    parse_duration(text)
}

/// Requests a second.
pub(super) fn rate(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "a rate is a number of requests a second, such as 50 or 0.5")
}

/// `name=value`, for labels.
pub(super) fn label(text: &str) -> Result<(String, String), &'static str> {
    pair(text, '=').ok_or("a label is written name=value")
}

/// `Name: value`, for headers.
pub(super) fn header(text: &str) -> Result<(String, String), &'static str> {
    pair(text, ':').ok_or("a header is written 'Name: value'")
}

fn pair(text: &str, between: char) -> Option<(String, String)> {
    let (name, value) = text.split_once(between)?;
    (!name.is_empty()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
}

/// The waits between attempts.
#[derive(Debug, Args)]
pub(super) struct Schedule {
    /// The waits between attempts, such as 5s,5m,30m.
    #[arg(long, value_delimiter = ',', value_parser = duration, value_name = "WAIT")]
    waits: Vec<Duration>,
    /// The least wait after a 502, a 504 or a timeout.
    #[arg(long, requires = "waits", value_parser = duration, value_name = "WAIT")]
    overload_wait: Option<Duration>,
}

impl Schedule {
    /// For the wire; none when nothing was said.
    pub(super) fn into_wire(self) -> Option<RetrySchedule> {
        (!self.waits.is_empty()).then(|| RetrySchedule {
            waits: self.waits.into_iter().map(duration_to_wire).collect(),
            overload_wait: self.overload_wait.map(duration_to_wire),
        })
    }
}

/// The update mask: what was given, and what is to be cleared.
pub(super) fn mask(given: &[(&str, bool)], cleared: Vec<String>) -> prost_types::FieldMask {
    let given = given.iter().filter(|(_, is_given)| *is_given).map(|(field, _)| (*field).to_owned());
    let mut paths: Vec<_> = given.chain(cleared).collect();
    paths.sort_unstable();
    paths.dedup();
    prost_types::FieldMask { paths }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_cut_at_the_first_sign() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(header("X-Url: http://a"), Ok(("X-Url".to_owned(), "http://a".to_owned())));
        assert!(label("a").is_err() && label("=b").is_err() && header("a=b").is_err());
    }

    #[test]
    fn a_mask_names_each_field_once() {
        let mask = mask(&[("burst", true), ("schedule", false)], vec!["burst".to_owned(), "a".to_owned()]);
        assert_eq!(mask.paths, ["a", "burst"]);
    }
}

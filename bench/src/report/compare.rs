//! Two documents side by side: old → new, in percent.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Document, profile};
use crate::options::Options;

/// Every figure that both documents have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison(Vec<Change>);

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Its place in the document's results, such as `batched.emit_to_answer_ms.p99`.
    pub figure: String,
    /// In the earlier document.
    pub old: f64,
    /// In the later one.
    pub new: f64,
    /// The difference, in percent of the old; none when that was 0.
    pub percent: Option<f64>,
}

/// Why two documents can't be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// They were asked for different things.
    #[error("the runs can't be compared, they differ in: {}", .0.join(", "))]
    Different(Vec<String>),
    /// One can't be read as values.
    #[error("a document has another form")]
    Form(#[from] serde_json::Error),
}

/// Compares two runs of the same options and profile.
///
/// # Errors
/// When they differ in anything that was asked for.
pub fn compare(old: &Document, new: &Document) -> Result<Comparison, Error> {
    same(old, &new.options)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    flatten("", &serde_json::to_value(&old.results)?, &mut before);
    flatten("", &serde_json::to_value(&new.results)?, &mut after);
    let changes = after.into_iter().filter_map(|(figure, new)| {
        let (_, old) = before.iter().find(|(name, _)| *name == figure)?;
        let percent = (*old != 0.0).then(|| 100.0 * (new - old) / old);
        Some(Change { figure, old: *old, new, percent })
    });
    Ok(Comparison(changes.collect()))
}

/// Whether a run of this build with these options can be compared with an earlier one.
///
/// # Errors
/// What they differ in.
pub fn same(old: &Document, options: &Options) -> Result<(), Error> {
    let (before, after) = (serde_json::to_value(&old.options)?, serde_json::to_value(options)?);
    let mut differences = Vec::new();
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        for (name, value) in &after {
            let other = before.get(name).unwrap_or(&Value::Null);
            if other != value {
                differences.push(format!("{name} ({other} → {value})"));
            }
        }
    }
    if old.profile != profile() {
        differences.push(format!("build profile ({} → {})", old.profile, profile()));
    }
    if differences.is_empty() { Ok(()) } else { Err(Error::Different(differences)) }
}

fn flatten(name: &str, value: &Value, into: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&name, value, into);
            }
        }
        Value::Number(number) => into.extend(number.as_f64().map(|number| (name.to_owned(), number))),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|change| change.figure.chars().count()).max().unwrap_or(0);
        for (index, Change { figure, old, new, percent }) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let percent = percent.map_or(String::new(), |percent| format!("  {percent:+.1} %"));
            write!(f, "{end}{figure:width$}  {} → {}{percent}", short(*old), short(*new))?;
        }
        Ok(())
    }
}

/// As many digits as say something.
fn short(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Figures, Machine};
    use super::*;
    use crate::options::tests::options;
    use crate::quantile::Spread;

    fn document(options: Options, per_s: f64, p99: f64) -> Document {
        let figures = Figures {
            deliveries: 60,
            duplicates: 0,
            missing: 0,
            unexpected: 0,
            seconds: 1.0,
            deliveries_per_s: per_s,
            events_per_s: None,
            emit_to_answer_ms: Some(Spread { p50: 1.0, p99 }),
            emit_to_arrival_ms: None,
            cpu_us_per_delivery: BTreeMap::from([("agents".into(), 80.0)]),
            memory_peak_bytes: BTreeMap::new(),
            wal_bytes_per_delivery: Some(0.0),
            commits_per_delivery: None,
            hot_percent: None,
        };
        let machine = Machine { processors: 2, model: "x".into(), postgres: "18.1".into() };
        let baseline = Figures { deliveries_per_s: 1_000.0, ..figures.clone() };
        let results = BTreeMap::from([("batched".to_owned(), figures), ("pipe".to_owned(), baseline)]);
        Document::new(options, machine, results)
    }

    #[test]
    fn every_figure_goes_from_old_to_new() {
        let comparison = compare(&document(options(), 500.0, 4.0), &document(options(), 750.0, 3.0)).unwrap();
        let text = comparison.to_string();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
            line[name.len()..].trim().to_owned()
        };
        assert_eq!(line("batched.deliveries_per_s"), "500 → 750  +50.0 %");
        assert_eq!(line("batched.emit_to_answer_ms.p99"), "4 → 3  -25.0 %");
        assert_eq!(line("pipe.deliveries_per_s"), "1000 → 1000  +0.0 %");
        // Nothing can be said in percent of nothing.
        assert_eq!(line("batched.wal_bytes_per_delivery"), "0 → 0");
        assert!(!text.contains("hot_percent"), "{text}");
    }

    #[test]
    fn runs_that_were_asked_for_something_else_are_refused() {
        let old = document(options(), 1.0, 1.0);
        let other = document(Options { endpoints: 12, rate_per_s: Some(5.0), ..options() }, 1.0, 1.0);
        let message = compare(&old, &other).unwrap_err().to_string();
        assert!(message.contains("endpoints (6 → 12)") && message.contains("rate_per_s (null → 5.0)"), "{message}");
        let optimized = Document { profile: "another".into(), ..old.clone() };
        assert!(compare(&optimized, &old).unwrap_err().to_string().contains("build profile"));
        same(&old, &old.options).unwrap();
    }

    #[test]
    fn a_document_survives_json_and_reads_as_a_table() {
        let document = document(options(), 500.0, 4.0);
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        assert_eq!(document.ratios, BTreeMap::from([("batched_to_pipe".to_owned(), 0.5)]));
        let table = document.to_string();
        for part in ["throughput, debug build", "NOT OPTIMIZED", "fan-out 3", "deliveries/s", "naive pipe", "0.50"] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(document.inexact().is_empty());
    }
}

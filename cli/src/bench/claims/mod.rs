//! Scenarios that hold the product to what is said of it. Each makes the systems that it needs, one after another, before
//! one receiver.

pub(super) mod fairness;
pub(super) mod hostile;
pub(super) mod isolation;
pub(super) mod limits;
mod stage;

use anyhow::Result;
use posthaste_bench::claims::Document;

use crate::exit::Exit;
use crate::output::Format;
use crate::terminal::{note, say};

/// Prints it: success only if every claim is met and nothing is missing.
pub(super) fn show(format: Format, document: &Document) -> Result<Exit> {
    say(&match format {
        Format::Table => document.to_string(),
        Format::Json => serde_json::to_string_pretty(document)?,
    });
    document.problems.iter().for_each(|problem| note(problem));
    Ok(if document.holds() { Exit::Success } else { Exit::Failed })
}

//! How an answer is shown: a table for people, one ProtoJSON document for programs.

mod backlog;
mod deliveries;
mod events;
mod json;
mod owners;
mod table;
mod text;

use clap::ValueEnum;
use prost::Message;

pub(crate) use backlog::{OVERVIEW_HEADINGS, overview_row, since};
pub(crate) use json::JsonError;
pub(crate) use table::Table;
pub(crate) use text::printable;

/// How to show an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// One ProtoJSON document with the fields' names as the .proto files write them.
    Json,
}

/// An answer that can be shown.
pub(crate) trait Shown: Message + Sized {
    /// Its name in the .proto files, with the package.
    const NAME: &'static str;

    /// For people: what matters, not all of it.
    fn table(&self) -> Table;

    /// Where a list goes on, unless this is its last page.
    fn next_page_token(&self) -> Option<&str> {
        None
    }
}

/// The answer as text, without a line end.
pub(crate) fn render<T: Shown>(format: Format, answer: &T) -> Result<String, JsonError> {
    match format {
        Format::Table => Ok(answer.table().to_string()),
        Format::Json => json::document(T::NAME, answer),
    }
}

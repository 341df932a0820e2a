//! How one request is answered.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One answer. As JSON every field may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The status, 200–999.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body, or its beginning.
    pub body: String,
    /// How long the answer is held back, in ms.
    pub delay_ms: u64,
    /// What happens instead of a good end.
    pub ending: Ending,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With the whole body.
    #[default]
    Complete,
    /// Nothing is ever answered; the connection stays open.
    Hang,
    /// Nothing is answered; the connection is closed.
    Close,
    /// The body goes on for ever.
    EndlessBody,
    /// The body comes byte by byte, slowly, and never ends.
    Drip,
    /// The connection breaks within the body.
    BrokenBody,
}

impl Default for Answer {
    fn default() -> Self {
        Self::status(200)
    }
}

impl Answer {
    /// An answer with this status and an empty body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), delay_ms: 0, ending: Ending::Complete }
    }

    /// No answer at all, on a connection that stays open.
    pub fn hang() -> Self {
        Self::status(200).ending(Ending::Hang)
    }

    /// With this body.
    #[must_use]
    pub fn body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Held back for `delay`, in whole ms.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    /// Ending like this.
    #[must_use]
    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// Whether a sender that gets it may forget the event.
    pub fn acknowledges(&self) -> bool {
        (200..300).contains(&self.status) && !matches!(self.ending, Ending::Hang | Ending::Close)
    }
}

//! The one place that writes to the terminal.

use std::io::{self, IsTerminal, Write};

/// A line of the answer, on standard output, at once. A reader that went away ends nothing.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line about the work, on standard error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// How a word is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
}

/// The text in a color, if standard output is a terminal and nobody has asked for none (`NO_COLOR`).
pub(crate) fn colored(tone: Tone, text: &str) -> String {
    let wanted = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    painted(tone, text, wanted)
}

fn painted(tone: Tone, text: &str, wanted: bool) -> String {
    match tone {
        Tone::Good if wanted => format!("\u{1b}[32m{text}\u{1b}[0m"),
        Tone::Bad if wanted => format!("\u{1b}[31m{text}\u{1b}[0m"),
        Tone::Good | Tone::Bad => text.to_owned(),
    }
}

/// A line on standard error that says how far the work is, written over and over, and gone with this value. Where
/// standard error is no terminal, nothing at all.
#[derive(Debug)]
pub(crate) struct Progress {
    visible: bool,
    shown: String,
}

impl Progress {
    pub(crate) fn start() -> Self {
        Self { visible: io::stderr().is_terminal(), shown: String::new() }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.visible && self.shown != text {
            text.clone_into(&mut self.shown);
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\u{1b}[K{text}").and_then(|()| err.flush());
        }
    }

    /// Makes place for a line of the answer.
    pub(crate) fn clear(&mut self) {
        if !self.shown.is_empty() {
            self.shown.clear();
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\u{1b}[K").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_only_where_they_are_wanted() {
        assert_eq!(painted(Tone::Good, "200", true), "\u{1b}[32m200\u{1b}[0m");
        assert_eq!(painted(Tone::Bad, "503", true), "\u{1b}[31m503\u{1b}[0m");
        assert_eq!(painted(Tone::Good, "200", false), "200");
    }
}

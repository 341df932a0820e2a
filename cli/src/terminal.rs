//! The one place that writes to the terminal.

use std::io::{self, Write};

/// A line of the answer, on standard output, at once. A reader that went away ends nothing.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line about the work, on standard error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

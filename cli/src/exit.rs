//! How the command ends.

use std::process::ExitCode;

use crate::system;

/// The exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0.
    Success,
    /// 1: it was tried and did not succeed.
    Failed,
    /// 2: the command line makes no sense.
    Usage,
    /// 64: the configuration is refused.
    Configuration,
    /// 69: the server or the database can't be reached now.
    Unavailable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Configuration => 64,
            Exit::Unavailable => 69,
        })
    }
}

/// An error that ends the command with a code of its own; as the context of another error or alone.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Refused {
    /// A configuration that can't work.
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self { exit: Exit::Configuration, message: message.into() }
    }
}

impl Exit {
    /// The code of an error: its own if it is a [`Refused`], that of the part that could not start, else [`Exit::Failed`].
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return refused.exit;
        }
        match error.downcast_ref::<system::Error>().and_then(system::Error::exit_code) {
            Some(64) => Self::Configuration,
            Some(69) => Self::Unavailable,
            Some(_) | None => Self::Failed,
        }
    }
}

//! Exit codes, and the only place that maps errors to them.

#![expect(clippy::disallowed_methods, reason = "the command line reads NO_COLOR")]

use std::io::{IsTerminal, Write};

use forebay_core::{Error, ErrorKind};

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// Failure: the message has the reason.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A service, a worker or a storage did not answer: try again.
    Unavailable = 3,
    /// A job, a file or a column of that name does not exist, or may not be read.
    NotFound = 4,
    /// The data is corrupt, or changed.
    Data = 5,
    /// A user's function raised.
    Function = 6,
    /// The two sides are of different versions.
    Version = 7,
}

impl Exit {
    /// Returns the code of an error.
    pub fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Self::NotFound,
            ErrorKind::Data => Self::Data,
            ErrorKind::Function => Self::Function,
            ErrorKind::Version => Self::Version,
            ErrorKind::Invalid
            | ErrorKind::Conflict
            | ErrorKind::Exhausted
            | ErrorKind::Closed
            | ErrorKind::Internal => Self::Failed,
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its arguments are incompatible: nothing was tried.
    Usage(Error),
    /// An error of the command.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Failure {
    /// Prints the error, and returns the exit code.
    pub(crate) fn report(&self) -> i32 {
        match self {
            Self::Usage(error) => {
                report(error);
                Exit::Usage as i32
            }
            Self::Failed(error) => report(error),
        }
    }
}

/// Prints the error, and returns the exit code.
pub(crate) fn report(error: &Error) -> i32 {
    let mut stderr = std::io::stderr();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let label = if colour { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
    // If stderr is closed, there is no reader for the error.
    let _ = writeln!(stderr, "{label} {error}");
    Exit::of(error) as i32
}

//! One error type for all crates, processes and languages, with everything that its reader needs.
//!
//! An error has a [`kind`](ErrorKind) that tells the reader what to do, a one-line message, and named context (`op`,
//! `site`, `file`, `offset`, `sample`, `traceback`, `hint`, …) gathered on its way up. It is plain data, so a Python
//! user catches the same error that a worker raised.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A result with Forebay's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the reader of an error must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Fix the pipeline or the argument.
    Invalid,
    /// Fix the name or path: it does not exist.
    NotFound,
    /// Get permission to read it.
    PermissionDenied,
    /// Pick another name, or end its present owner.
    Conflict,
    /// Fix the data: it is corrupt, or changed under the job.
    Data,
    /// Fix the user's function: it raised, returned the wrong thing, died or never returned.
    Function,
    /// Retry, or start the process that does not answer.
    Unavailable,
    /// Request less, or raise the limit.
    Exhausted,
    /// Install the same version on both sides.
    Version,
    /// The object has ended: the job is finished, or was closed.
    Closed,
    /// Report a bug.
    Internal,
}

/// The fault of an error: it decides whether a row may be skipped because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The sample's: it fails on every machine and at every try.
    Sample,
    /// Presumably the sample's: its process died or was stopped. At another try it may not.
    Process,
    /// No fault: a user's function skipped the sample.
    Skip,
    /// The pipeline's, the machine's, or the storage's: every other row would fail too, or this one may pass later.
    Other,
}

/// An error: what happened, where, and what to do. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(String, String)>,
}

impl Error {
    /// Makes an error; `message` is lowercase, without a trailing period, and names the thing and the limit.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new() }
    }

    /// Makes an error as [`Error::new`] with [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Makes an error as [`Error::new`] with [`ErrorKind::Data`].
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, message)
    }

    /// Makes an error as [`Error::new`] with [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Makes an error as [`Error::new`] with [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Adds named context, unless an inner layer, with better knowledge, has already added it.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        if self.get(key).is_none() {
            self.context.push((key.to_owned(), value.to_string()));
        }
        self
    }

    /// Sets named context, and replaces an earlier value.
    #[must_use]
    pub fn replace(mut self, key: &str, value: impl fmt::Display) -> Self {
        match self.context.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value.to_string(),
            None => self.context.push((key.to_owned(), value.to_string())),
        }
        self
    }

    /// Adds a hint for the reader.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        self.with("hint", hint)
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the fault, as far as the error of a single row shows it. The context `fault` decides if the kind alone
    /// does not.
    pub fn fault(&self) -> Fault {
        match (self.kind, self.get("fault")) {
            (ErrorKind::Function, Some("process")) => Fault::Process,
            (ErrorKind::Function, Some("skip")) => Fault::Skip,
            (ErrorKind::Data | ErrorKind::Function, None) | (ErrorKind::Exhausted, Some("sample")) => Fault::Sample,
            _ => Fault::Other,
        }
    }

    /// Returns the one-line message without context.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the context in the order in which it was added.
    pub fn context(&self) -> &[(String, String)] {
        &self.context
    }

    /// Returns one piece of context.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.context.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Reads an error written by [`Error::to_json`]; anything else becomes the message of an internal error.
    pub fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::internal(text))
    }

    /// Writes the error for another process to read.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| self.message.clone())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        // The fault decides how the error is handled; it does not interest a reader.
        for (key, value) in self.context.iter().filter(|(key, _)| key != "fault") {
            if value.contains('\n') {
                write!(f, "\n  {key}:\n    {}", value.trim_end().replace('\n', "\n    "))?;
            } else {
                write!(f, "\n  {key}: {value}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        // ENFILE and EMFILE have no kind.
        if let Some(23 | 24) = e.raw_os_error() {
            return Error::new(ErrorKind::Exhausted, "no more files and sockets may be open").hint(
                "raise the limit of open files: `ulimit -n`, or LimitNOFILE= of the service; 1024 is enough for most",
            );
        }
        let kind = match e.kind() {
            // A part of the path is a file.
            Io::NotFound | Io::NotADirectory => ErrorKind::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            // Names that no file can have: too long, with a nul byte, or links in a circle (ELOOP, which has no kind).
            Io::InvalidInput | Io::InvalidFilename | Io::IsADirectory => ErrorKind::Invalid,
            _ if e.raw_os_error() == Some(40) => ErrorKind::Invalid,
            Io::AlreadyExists | Io::DirectoryNotEmpty | Io::AddrInUse => ErrorKind::Conflict,
            Io::StorageFull | Io::OutOfMemory | Io::QuotaExceeded => ErrorKind::Exhausted,
            Io::UnexpectedEof | Io::InvalidData => ErrorKind::Data,
            Io::ConnectionRefused | Io::ConnectionReset | Io::ConnectionAborted | Io::NotConnected => {
                ErrorKind::Unavailable
            }
            Io::TimedOut
            | Io::BrokenPipe
            | Io::HostUnreachable
            | Io::NetworkUnreachable
            | Io::StaleNetworkFileHandle => ErrorKind::Unavailable,
            _ => ErrorKind::Internal,
        };
        match kind {
            ErrorKind::NotFound => Error::new(kind, "there is no such file or folder"),
            ErrorKind::PermissionDenied if e.kind() == Io::PermissionDenied => {
                Error::new(kind, "the system does not permit it")
            }
            _ => Error::new(kind, e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_context_wins_and_json_keeps_everything() {
        let e = Error::data("bad crc").with("file", "a.tar").with("file", "outer").hint("rewrite it");
        assert_eq!(e.get("file"), Some("a.tar"));
        assert_eq!(Error::from_json(&e.to_json()), e);
        assert_eq!(e.to_string(), "bad crc\n  file: a.tar\n  hint: rewrite it");
    }

    #[test]
    fn what_the_system_says_of_a_users_path_is_no_bug_of_ours() {
        let kind = |code| Error::from(std::io::Error::from_raw_os_error(code)).kind();
        // ENOTDIR, ENAMETOOLONG, ELOOP, EISDIR, EROFS, EEXIST.
        let found = [20, 36, 40, 21, 30, 17].map(kind);
        let invalid = ErrorKind::Invalid;
        let (missing, denied, taken) = (ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::Conflict);
        assert_eq!(found, [missing, invalid, invalid, invalid, denied, taken]);
    }

    #[test]
    fn a_limit_of_open_files_has_its_name() {
        for code in [23, 24] {
            let e = Error::from(std::io::Error::from_raw_os_error(code));
            assert_eq!(e.kind(), ErrorKind::Exhausted);
            assert!(e.get("hint").is_some_and(|hint| hint.contains("ulimit -n")), "{e}");
        }
    }

    #[test]
    fn unreadable_json_is_still_an_error() {
        assert_eq!(Error::from_json("boom").kind(), ErrorKind::Internal);
    }
}

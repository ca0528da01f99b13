//! Errors on the wire: a gRPC status whose details are the error as JSON, so that no field is lost.
//!
//! Both functions are total. A status without details does not come from Forebay but from the transport or from another
//! server, and the resulting error says so. Statuses travel in HTTP/2 headers, which are bounded: the longest texts of
//! an error that is too long are truncated in the middle, and marked.

use bytes::Bytes;
use forebay_core::{Error, ErrorKind};
use tonic::{Code, Status};

use crate::net::listen::speaks_tls_only;
use crate::net::tls::carried;

/// The error key of a failure to reach a worker. A consumer that reports it gets splits of other workers.
pub const UNREACHED: &str = "unreached";

/// The error key of a file that a worker cannot read. A consumer that reports it gets the split from another worker.
pub const UNREADABLE: &str = "unreadable";

/// The error key of a call with the number of a job that the dispatcher does not have.
pub const NO_JOB: &str = "unknown";

/// The most bytes of an error as JSON. In base64 it fits the header list that [`crate::attempt`] sets.
const DETAILS_BYTES_MAX: usize = 256 << 10;
/// The most bytes of a status's message, which is for tools that do not read the details.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Returns an error with its cause, or its file, in one line.
pub fn in_one_line(error: &Error) -> String {
    let detail = error.get("cause").or(error.get("file")).map_or_else(String::new, |detail| format!(": {detail}"));
    format!("{}{detail}", error.message())
}

/// Writes an error for the wire.
pub fn to_status(error: &Error) -> Status {
    let json = to_json(error);
    let message = Error::new(error.kind(), error.message()).within(MESSAGE_BYTES_MAX, usize::MAX);
    Status::with_details(code(error.kind()), message.message(), Bytes::from(json))
}

/// Writes an error as JSON of a bounded length.
pub fn to_json(error: &Error) -> String {
    error.clone().within(DETAILS_BYTES_MAX / 4, DETAILS_BYTES_MAX).to_json()
}

/// Reads an error from the wire; `address` is its sender's.
pub fn to_error(status: &Status, address: &str) -> Error {
    if let Some(error) = std::str::from_utf8(status.details()).ok().and_then(|t| serde_json::from_str(t).ok()) {
        return error;
    }
    // A status with a cause was made on this side: the connection is gone, or was never made.
    let local = std::error::Error::source(status).is_some();
    if local {
        if let Some(error) = carried(&cause(status)) {
            return error.with("address", address);
        }
        // The answer of a port with TLS to a peer without it (see `listen`).
        if status.code() == Code::PermissionDenied {
            return speaks_tls_only().with("address", address);
        }
    }
    let kind = match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Ok => ErrorKind::Unavailable,
        Code::Internal | Code::Unknown if local => ErrorKind::Unavailable,
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => ErrorKind::Invalid,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => ErrorKind::Conflict,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::PermissionDenied,
        Code::ResourceExhausted => ErrorKind::Exhausted,
        Code::DataLoss => ErrorKind::Data,
        Code::Internal | Code::Unknown => ErrorKind::Internal,
    };
    match kind {
        ErrorKind::Unavailable => Error::unavailable(format!("lost the connection to {address}"))
            .with("address", address)
            .with("cause", cause(status)),
        _ => Error::new(kind, format!("{address} answered: {}", cause(status))).with("address", address),
    }
}

/// Returns the code that other gRPC tools get.
fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Conflict => Code::AlreadyExists,
        ErrorKind::Data => Code::DataLoss,
        ErrorKind::Function => Code::Aborted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Version => Code::FailedPrecondition,
        ErrorKind::Closed => Code::OutOfRange,
        ErrorKind::Internal => Code::Internal,
    }
}

/// Returns the innermost reason, because people can act on it.
fn cause(status: &Status) -> String {
    let mut cause = std::error::Error::source(status);
    let mut text = status.message().to_owned();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    if text.is_empty() { status.code().description().to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ErrorKind; 11] = [
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::Conflict,
        ErrorKind::Data,
        ErrorKind::Function,
        ErrorKind::Unavailable,
        ErrorKind::Exhausted,
        ErrorKind::Version,
        ErrorKind::Closed,
        ErrorKind::Internal,
    ];

    #[test]
    fn every_error_comes_back_whole() {
        for kind in KINDS {
            let error = Error::new(kind, "ünï\ncode").with("file", "a.tar").with("traceback", "x\n".repeat(9000));
            assert_eq!(to_error(&to_status(&error), "h:1"), error);
        }
    }

    #[test]
    fn an_error_too_long_for_a_header_is_cut_not_lost() {
        let long = "é".repeat(1 << 20);
        let mut error = Error::data(long.clone()).with("traceback", &long);
        for i in 0..2000 {
            error = error.with(&format!("key {i}"), &long[..2000]);
        }
        let status = to_status(&error);
        assert!(status.details().len() <= DETAILS_BYTES_MAX && status.message().len() < 2 * MESSAGE_BYTES_MAX);
        let back = to_error(&status, "h:1");
        assert_eq!(back.kind(), ErrorKind::Data);
        assert!(back.message().contains("bytes in all)"));
    }

    #[test]
    fn a_status_of_a_stranger_names_its_address() {
        for code in 0..=16 {
            let error = to_error(&Status::new(Code::from_i32(code), "no"), "h:1");
            assert!(error.message().contains("h:1") && error.get("address") == Some("h:1"), "{error}");
        }
        let broken = Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert_eq!(to_error(&broken, "h:1").kind(), ErrorKind::Unavailable);
    }
}

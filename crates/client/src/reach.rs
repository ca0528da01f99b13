//! Reaches a dispatcher: once, or until a deadline. Connected is not yet answered: a stopped process has its
//! connections accepted by the kernel, so it is asked for its version.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{GetVersionRequest, check_version, client, endpoint, to_error};
use tonic::transport::Channel;

/// One attempt.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LAST: Duration = Duration::from_millis(500);

/// Connects to a dispatcher and checks its version.
///
/// # Errors
/// Invalid when it is no address; Version; Unavailable.
pub(crate) async fn attempt(address: &str) -> Result<Channel> {
    let endpoint = endpoint(address)?;
    let answered = async {
        let channel = endpoint.connect().await.map_err(|e| Error::unavailable(innermost(&e)))?;
        let answer = client(channel.clone()).get_version(GetVersionRequest {}).await;
        let answer = answer.map_err(|status| to_error(&status, address))?;
        check_version(&format!("the dispatcher at {address}"), &answer.into_inner().version)?;
        Ok(channel)
    };
    let silent = |_| Error::unavailable("it accepted the connection and said nothing");
    tokio::time::timeout(ATTEMPT, answered).await.map_err(silent)?
}

/// Connects to a dispatcher, again and again until the deadline.
///
/// # Errors
/// As [`attempt`].
pub(crate) async fn reach(address: &str, deadline: Duration) -> Result<Channel> {
    let end = tokio::time::Instant::now() + deadline;
    let mut pause = PAUSE_FIRST;
    loop {
        let error = match attempt(address).await {
            Err(e) if e.kind() == ErrorKind::Unavailable => e,
            done => return done,
        };
        if tokio::time::Instant::now() + pause >= end {
            return Err(unanswered(address, deadline).with("cause", error.get("cause").unwrap_or(error.message())));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

/// Says who did not answer for how long, and what to do.
pub(crate) fn unanswered(address: &str, deadline: Duration) -> Error {
    let seconds = deadline.as_secs_f64();
    Error::unavailable(format!("the dispatcher at {address} did not answer within {seconds:.1} s"))
        .with("address", address)
        .hint("is `forebay dispatcher` (or `forebay up`) running there, and is the port open to this machine?")
}

/// The reason that people can act on: "connection refused", not "transport error".
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

//! Connecting to a dispatcher, with retries up to a deadline.
//!
//! A client calls all dispatchers of a service at once, each over TLS and with the token if there is one. One of them
//! leads; the others name it.

#![expect(clippy::disallowed_methods, reason = "connecting is tried again within a bound")]

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use tokio::task::JoinSet;

use crate::net::address::Address;
use crate::net::leader::leader;
use crate::net::remote::{Link, Remote};
use crate::net::tls::carried;
use crate::{DispatcherClient, GetVersionRequest, check_version, to_error};

/// The time limit of one attempt: to connect, and to get an answer.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The most redirects to a leader in one attempt.
const REDIRECTS_MAX: usize = 3;
/// The error key of a tenant that currently exceeds its rate of calls.
pub const TOO_FAST: &str = "calls per second";
/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LAST: Duration = Duration::from_millis(500);

/// Returns the dispatcher's client over a connection, with messages of any size.
pub fn client(link: Link) -> DispatcherClient<Link> {
    DispatcherClient::new(link).max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX)
}

/// Connects once to a dispatcher, or to the one of several that leads, and checks its version.
///
/// # Errors
/// Invalid for anything but addresses; Version; PermissionDenied when the two do not trust each other, or the
/// dispatcher does not know the token; Unavailable when none leads: the most informative error of all dispatchers.
///
/// # Cancel safety
/// Safe: a dropped attempt leaves nothing behind.
pub async fn attempt(to: &Remote) -> Result<Link> {
    let mut asked = to.addresses()?;
    let told = asked.len();
    let mut attempts: JoinSet<_> = asked.iter().cloned().map(|address| attempt_one(to.clone(), address)).collect();
    let mut refusal: Option<Error> = None;
    while let Some(outcome) = attempts.join_next().await {
        let error = match outcome.map_err(|e| Error::internal(format!("an attempt to connect ended: {e}")))? {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        // The leader may be at an address that is not in the list.
        let elsewhere = leader(&error).flatten().filter(|a| !asked.contains(a));
        if let Some(address) = elsewhere.filter(|_| asked.len() < told + REDIRECTS_MAX) {
            asked.push(address.clone());
            attempts.spawn(attempt_one(to.clone(), address));
        }
        // The most informative error: one that a retry cannot cure; then a rate limit; then a dispatcher that does not
        // lead; then one that does not answer.
        let telling = |e: &Error| (!may_pass(e), e.kind() != ErrorKind::Unavailable, leader(e).is_some());
        if refusal.as_ref().is_none_or(|known| telling(&error) > telling(known)) {
            refusal = Some(error);
        }
    }
    let refusal = refusal.unwrap_or_else(|| Error::internal("no dispatcher was asked"));
    Err(match refusal.kind() {
        // All of them share this cause.
        ErrorKind::Unavailable => refusal.replace("address", &to.address),
        _ => refusal,
    })
}

/// Connects to one dispatcher and requests its version. A connection alone is no answer: the kernel accepts
/// connections of a stopped process.
async fn attempt_one(to: Remote, address: Address) -> Result<Link> {
    let (endpoint, connector) = to.parts(&address)?;
    let address = address.to_string();
    let answered = async {
        let channel = endpoint.connect_with_connector(connector).await;
        let link = to.link(channel.map_err(|e| failed(&innermost(&e), &address))?);
        let answer = client(link.clone()).get_version(GetVersionRequest {}).await;
        let answer = answer.map_err(|status| to_error(&status, &address))?;
        let answer = answer.into_inner();
        check_version(&format!("the dispatcher at {address}"), &answer.version, answer.build.as_ref())?;
        Ok(link)
    };
    let silent = |_| Error::unavailable("the dispatcher accepted the connection and said nothing");
    tokio::time::timeout(ATTEMPT, answered).await.map_err(silent)?
}

/// Repeats [`attempt`] until the deadline.
///
/// # Errors
/// Errors of [`attempt`].
///
/// # Cancel safety
/// Safe.
pub async fn reach(to: &Remote, deadline: Duration) -> Result<Link> {
    let end = tokio::time::Instant::now() + deadline;
    let (mut pause, mut said) = (PAUSE_FIRST, None);
    loop {
        let error = match tokio::time::timeout_at(end, attempt(to)).await {
            Ok(Err(e)) if may_pass(&e) => e,
            Ok(done) => return done,
            // An earlier error is more informative than a timeout.
            Err(_) => said.unwrap_or_else(|| Error::unavailable("it accepted the connection and said nothing")),
        };
        if tokio::time::Instant::now() + pause >= end {
            return Err(match error.kind() {
                ErrorKind::Unavailable => {
                    let cause = error.get("cause").unwrap_or(error.message());
                    unanswered(&to.address, deadline).with("cause", cause)
                }
                _ => error,
            });
        }
        said = Some(error);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

/// Returns whether a retry of the same call may help: after no answer, or a rate limit.
pub fn may_pass(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable || error.get(TOO_FAST).is_some()
}

/// Returns the error of a failed connection.
fn failed(cause: &str, address: &str) -> Error {
    carried(cause).unwrap_or_else(|| Error::unavailable(cause)).with("address", address)
}

/// Returns the error of a dispatcher that did not answer, with a hint.
pub fn unanswered(address: &str, deadline: Duration) -> Error {
    let seconds = deadline.as_secs_f64();
    Error::unavailable(format!("the dispatcher at {address} did not answer within {seconds:.1} s"))
        .with("address", address)
        .hint("is `forebay dispatcher` (or `forebay up`) running there, and is the port open to this machine?")
}

/// Returns the reason that people can act on: "Connection refused", not "transport error".
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn an_absent_dispatcher_is_unavailable_with_its_address_and_a_hint() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let error = block_on(reach(&Remote::new(unused.to_string()), Duration::from_millis(100))).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.message(), format!("the dispatcher at {unused} did not answer within 0.1 s"));
        assert!(error.get("cause").is_some_and(|c| c.contains("refused")), "{error}");
        assert!(error.get("hint").is_some_and(|h| h.contains("forebay dispatcher")), "{error}");
    }

    #[test]
    fn a_process_that_listens_and_never_answers_is_given_up_in_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let error = block_on(reach(&Remote::new(&*address), Duration::from_millis(200))).expect_err("silent");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.get("cause").is_some_and(|c| c.contains("said nothing")), "{error}");
    }
}

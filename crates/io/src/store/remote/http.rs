//! The seam to HTTP: checks each answer before `object_store`, which does not report these properties.
//!
//! They are a store's `Retry-After`, and answers that do not match the request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Result};

use super::guard::{Guard, REDIRECTS_MAX};
use super::retry::{Budget, Failure};

/// A fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The store requests a later attempt.
    Busy(Failure),
    /// Other bytes than requested.
    OtherRange(Failure),
    /// The whole object instead of a range.
    NoRanges,
    /// The object ends before the range.
    Shorter,
    /// A server redirects to another host.
    Elsewhere(String),
    /// The address is one of this machine, or of its link.
    Own(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Busy(failure) | Wrong::OtherRange(failure) => f.write_str(&failure.seen),
            Wrong::NoRanges => f.write_str("the server sends whole files only"),
            Wrong::Shorter => f.write_str("the object ends before the range"),
            Wrong::Elsewhere(to) => write!(f, "the server redirects to {to}"),
            Wrong::Own(address) => {
                write!(f, "this is an address of the machine itself, of its link or of a cloud's metadata: {address}")
            }
        }
    }
}

impl std::error::Error for Wrong {}

/// Says whether a status is transient. 501 and 505 to 599 are not: the server cannot serve the request.
fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..=504)
}

/// Checks an answer's status and headers; `range` is the requested range.
fn check(status: u16, reason: &str, header: impl Fn(&str) -> Option<String>, range: Option<&str>) -> Option<Wrong> {
    if is_passing(status) {
        // A date instead of seconds is ignored: this machine's clock may differ from the store's.
        let asked = header("retry-after").and_then(|s| s.trim().parse().ok()).map(Duration::from_secs);
        return Some(Wrong::Busy(Failure { asked, ..Failure::new(format!("status {status} {reason}").trim_end()) }));
    }
    let (first, last) = range?.strip_prefix("bytes=")?.split_once('-')?;
    match status {
        200 => Some(Wrong::NoRanges),
        206 => {
            let sent = header("content-range").unwrap_or_default();
            let (from, to, size) = content_range(&sent).unwrap_or_default();
            // A range beyond the end of the object is cut there; the etag shows whether it is the right object.
            let right = from == first && (to == last || to.parse::<u64>().ok().map(|n| n + 1) == size.parse().ok());
            let other = || Wrong::OtherRange(Failure::odd(format!("asked for bytes {first}-{last}, got {sent:?}")));
            // A body of another length may begin anywhere. Its bytes are used as they arrive, so this is checked first.
            let length = header("content-length").and_then(|length| length.parse::<u64>().ok());
            let said =
                from.parse::<u64>().ok().zip(to.parse::<u64>().ok()).map(|(from, to)| (to + 1).saturating_sub(from));
            let is_long = length.zip(said).is_some_and(|(length, said)| length != said);
            let long = || Wrong::OtherRange(Failure::odd(format!("{sent:?} came as {} bytes", length.unwrap_or(0))));
            if right { is_long.then(long) } else { Some(other()) }
        }
        416 => Some(Wrong::Shorter),
        _ => None,
    }
}

/// Splits `bytes 0-9/100`.
fn content_range(text: &str) -> Option<(&str, &str, &str)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first, last, size))
}

/// Makes clients that check every answer.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) budget: Arc<Budget>,
    /// The limits of connections, if there are any.
    pub(super) guard: Option<Guard>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = match &self.guard {
            None => ReqwestConnector::default().connect(options)?,
            Some(guard) => {
                let failed = |e| object_store::Error::Generic { store: "HTTP", source: Box::new(e) };
                HttpClient::new(guard.client().map_err(failed)?)
            }
        };
        Ok(HttpClient::new(Watched { client, budget: self.budget.clone(), guard: self.guard.clone() }))
    }
}

#[derive(Debug)]
struct Watched {
    client: HttpClient,
    budget: Arc<Budget>,
    guard: Option<Guard>,
}

impl Watched {
    /// Sends a request, and follows allowed redirects.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Some(guard) = &self.guard else { return self.client.execute(request).await };
        let refused = |wrong| HttpError::new(HttpErrorKind::Unknown, wrong);
        let mut request = request;
        for _ in 0..REDIRECTS_MAX {
            guard.check(&request).map_err(refused)?;
            let (parts, body) = request.into_parts();
            let answer = self.client.execute(HttpRequest::from_parts(parts.clone(), body.clone())).await?;
            let Some(to) = guard.follow(&parts.uri.to_string(), &answer).map_err(refused)? else { return Ok(answer) };
            request = HttpRequest::from_parts(parts, body);
            *request.uri_mut() = to.as_str().parse().map_err(|_| refused(Wrong::Elsewhere(to.to_string())))?;
        }
        Err(refused(Wrong::Elsewhere(format!("{REDIRECTS_MAX} places, one after the other"))))
    }
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let range = request.headers().get("range").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let answer = self.send(request).await?;
        self.budget.answered();
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let status = answer.status();
        match check(status.as_u16(), status.canonical_reason().unwrap_or(""), header, range.as_deref()) {
            None => Ok(answer),
            Some(wrong) => Err(HttpError::new(HttpErrorKind::Unknown, wrong)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_looked_at() {
        let look = |status, headers: &'static [(&str, &str)], range| {
            check(status, "", |name| headers.iter().find(|h| h.0 == name).map(|h| h.1.to_owned()), range)
        };
        let asked = |wrong: Option<Wrong>| match wrong {
            Some(Wrong::Busy(failure)) => failure.asked.map(|d| d.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(asked(look(503, &[("retry-after", "7")], None)), Some(7));
        assert_eq!(asked(look(429, &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], Some("bytes=0-1"))), None);
        for status in [200, 301, 400, 403, 404, 408, 412, 501, 505] {
            assert_eq!(look(status, &[], None), None, "{status}");
        }
        let part = |sent: &'static [(&str, &str)]| look(206, sent, Some("bytes=5-9"));
        assert_eq!(part(&[("content-range", "bytes 5-9/100")]), None);
        assert_eq!(part(&[("content-range", "bytes 5-7/8")]), None, "a shorter object");
        for sent in [&[("content-range", "bytes 0-9/100")][..], &[("content-range", "bytes 5-8/100")], &[]] {
            let sent: &'static [(&str, &str)] = Box::leak(sent.to_vec().into_boxed_slice());
            assert!(matches!(part(sent), Some(Wrong::OtherRange(_))), "{sent:?}");
        }
        let longer = part(&[("content-range", "bytes 5-9/100"), ("content-length", "10")]);
        assert!(matches!(longer, Some(Wrong::OtherRange(_))), "{longer:?}");
        assert_eq!(part(&[("content-range", "bytes 5-9/100"), ("content-length", "5")]), None);
        assert_eq!(look(200, &[], Some("bytes=5-9")), Some(Wrong::NoRanges));
        assert_eq!(look(416, &[], Some("bytes=5-9")), Some(Wrong::Shorter));
    }
}

//! Answers: bodies, status codes, and the headers that every answer has.

use bytes::Bytes;
use forebay_core::{Error, ErrorKind};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;

/// A body: whole, or a stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Answer = Response<Body>;

const JSON: &str = "application/json; charset=utf-8";
/// Allows embedded scripts only, no content of other sites, and no page that shows these pages in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The headers that every answer has.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// Makes an answer.
pub(super) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// Answers with JSON.
pub(super) fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(text) => answer(StatusCode::OK, JSON, whole(text)),
        Err(error) => failure(&Error::internal(error.to_string())),
    }
}

/// Answers with an encoded JSON text.
pub(super) fn json_text(text: &'static [u8]) -> Answer {
    answer(StatusCode::OK, JSON, whole(text))
}

/// The JSON of an error.
#[derive(Serialize)]
pub(super) struct Failure<'a> {
    error: Reason<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    kind: ErrorKind,
    message: &'a str,
    /// The remedy; `null` if none is known.
    hint: Option<&'a str>,
    /// The address of the dispatcher that leads, if this one does not.
    leader: Option<&'a str>,
}

impl<'a> Failure<'a> {
    pub(super) fn of(error: &'a Error) -> Self {
        let filled = |key| error.get(key).filter(|text| !text.is_empty());
        let reason =
            Reason { kind: error.kind(), message: error.message(), hint: filled("hint"), leader: filled("leader") };
        Self { error: reason }
    }
}

/// Answers with an error.
pub(super) fn failure(error: &Error) -> Answer {
    let status = match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::PermissionDenied => StatusCode::UNAUTHORIZED,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Version => StatusCode::BAD_GATEWAY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refusal(status, error)
}

/// Answers with an error and this status.
pub(super) fn refusal(status: StatusCode, error: &Error) -> Answer {
    let text = serde_json::to_vec(&Failure::of(error)).unwrap_or_default();
    let mut answer = answer(status, JSON, whole(text));
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}

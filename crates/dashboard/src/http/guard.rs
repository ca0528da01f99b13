//! Refuses requests before they are answered. Pure.
//!
//! - Only GET and HEAD without a body are allowed, because the server only reads.
//! - The Host header must be an IP address, `localhost` or a name that the options allow. A web page of another site
//!   whose name was made to point here (DNS rebinding) has its own name in that header.
//! - A request from a script of another site is refused (Origin, Sec-Fetch-Site), and no answer allows one (CORS).

use std::net::IpAddr;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::Token;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::{Method, Request, StatusCode};

/// The longest path and query.
const URI_BYTES_MAX: usize = 4096;

/// A refused request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: Error,
}

fn refuse(status: StatusCode, message: impl Into<String>, hint: &str) -> Refusal {
    let kind = if status == StatusCode::FORBIDDEN { ErrorKind::PermissionDenied } else { ErrorKind::Invalid };
    Refusal { status, error: Error::new(kind, message).hint(hint) }
}

/// Checks a request. `hosts` are the allowed names besides addresses and `localhost`.
pub(super) fn check<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Refusal> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let message = "this server only answers questions".to_owned();
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, message, "use GET; `forebay jobs` has commands that act"));
    }
    let headers = request.headers();
    let has_body = headers.contains_key(TRANSFER_ENCODING) || one(headers, &CONTENT_LENGTH).is_some_and(|n| n != "0");
    if has_body {
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request has a body", "send none"));
    }
    if request.uri().path_and_query().is_none_or(|uri| uri.as_str().len() > URI_BYTES_MAX) {
        return Err(refuse(StatusCode::URI_TOO_LONG, "the address is too long", "use 4096 bytes at most"));
    }
    let count = headers.get_all(HOST).iter().count();
    let host = one(headers, &HOST).filter(|_| count == 1);
    let Some(host) = host.filter(|host| is_allowed(host, hosts)) else {
        let name: String = host.unwrap_or("no host").chars().take(80).collect();
        let message = format!("this server does not answer for {name:?}");
        let hint = "use its IP address or localhost, or start it with --http-host NAME";
        return Err(refuse(StatusCode::MISDIRECTED_REQUEST, message, hint));
    };
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host));
    let other_origin = headers.contains_key(ORIGIN) && !one(headers, &ORIGIN).is_some_and(is_own);
    let site = one(headers, &HeaderName::from_static("sec-fetch-site"));
    let other_site = request.uri().path().starts_with("/api/") && site.is_some_and(|s| s == "cross-site");
    if other_origin || other_site {
        let hint = "open this server's own pages, or use a program that is no web page";
        return Err(refuse(StatusCode::FORBIDDEN, "the request comes from a page of another site", hint));
    }
    Ok(())
}

/// Returns the token in a request's header. A token in the url is ignored, because browsers and proxies record urls.
///
/// # Errors
/// Invalid when the header has no bearer token.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<Token>> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let wrong =
        || Error::invalid("the Authorization header is none of a token").hint("send Authorization: Bearer TOKEN");
    value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).ok_or_else(wrong)?.parse().map(Some)
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_allowed(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let builder = Request::builder().method(method).uri(uri);
        let request = headers.iter().fold(builder, |b, (name, value)| b.header(*name, *value)).body(()).expect("valid");
        check(&request, &["dash.example".to_owned()]).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn names_of_other_sites_and_their_scripts_are_refused() {
        let of_host = |host| status("GET", "/", &[("host", host)]);
        for host in [
            "127.0.0.1:7073",
            "localhost:7073",
            "LOCALHOST",
            "[::1]:7073",
            "10.1.2.3",
            "dash.example",
            "Dash.Example:80",
        ] {
            assert_eq!(of_host(host), 200, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "x@127.0.0.1", "", "a b"] {
            assert_eq!(of_host(host), 421, "{host}");
        }
        assert_eq!(status("GET", "/", &[]), 421);
        assert_eq!(status("GET", "/", &[("host", "127.0.0.1"), ("host", "evil.example")]), 421);
        let with = |name, value| status("GET", "/api/v1/jobs", &[("host", "127.0.0.1:7073"), (name, value)]);
        assert_eq!(with("origin", "http://127.0.0.1:7073"), 200);
        assert_eq!(with("origin", "http://127.0.0.1:7074"), 403);
        assert_eq!(with("origin", "null"), 403);
        assert_eq!((with("sec-fetch-site", "cross-site"), with("sec-fetch-site", "same-origin")), (403, 200));
        // A link from another site leads to the page.
        assert_eq!(status("GET", "/", &[("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")]), 200);
    }

    #[test]
    fn nothing_is_written_and_nothing_is_large() {
        let host = ("host", "127.0.0.1");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"] {
            assert_eq!(status(method, "/", &[host]), 405, "{method}");
        }
        assert_eq!(status("HEAD", "/", &[host]), 200);
        assert_eq!(status("GET", "/", &[host, ("content-length", "1")]), 413);
        assert_eq!(status("GET", "/", &[host, ("transfer-encoding", "chunked")]), 413);
        assert_eq!(status("GET", &format!("/{}", "x".repeat(5000)), &[host]), 414);
    }

    #[test]
    fn a_token_comes_in_its_header_alone() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            token(&headers)
        };
        assert_eq!(token(&HeaderMap::new()), Ok(None));
        assert_eq!(with("Bearer fbt_a"), Ok(Some("fbt_a".parse().expect("a token"))));
        for wrong in ["Basic YTpi", "Bearer ", "Bearer two words", "fbt_a"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }
}

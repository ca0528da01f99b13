//! The server as seen by a browser, an attacker and another tenant.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{ConsumerStatus, GetScaleResponse, JobStatus, Token, WorkerStatus};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::{Dashboard, HttpOptions};
use crate::feed::calls::{Caller, Calls};

/// A service with the tenants a and b and an administrator, whose tokens are their names.
struct Fake;

fn tenant(caller: &Caller) -> Result<Option<&'static str>> {
    let is = |name: &str| *caller == Caller::Visitor(name.parse::<Token>().ok());
    match () {
        () if *caller == Caller::Own || is("admin") => Ok(None),
        () if is("a") => Ok(Some("a")),
        () if is("b") => Ok(Some("b")),
        () => Err(Error::new(ErrorKind::PermissionDenied, "the dispatcher does not know this token")),
    }
}

#[tonic::async_trait]
impl Calls for Fake {
    async fn jobs(&self, caller: &Caller, name: &str) -> Result<Vec<JobStatus>> {
        let tenant = tenant(caller)?;
        let job = |tenant: &str, name: &str| JobStatus {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            state: "running".to_owned(),
            key: vec![7; 16],
            consumers: vec![ConsumerStatus { attached: true, ..ConsumerStatus::default() }],
            ..JobStatus::default()
        };
        let all = [job("a", "<script>alert(1)</script>"), job("a", "same"), job("b", "same"), job("b", "secret of b")];
        let seen = all.into_iter().filter(|job| tenant.is_none_or(|tenant| job.tenant == tenant));
        Ok(seen.filter(|job| name.is_empty() || job.name == name).collect())
    }

    async fn workers(&self, caller: &Caller) -> Result<Vec<WorkerStatus>> {
        tenant(caller)?;
        Ok(vec![WorkerStatus { worker: "0".repeat(32), state: "idle".to_owned(), ..WorkerStatus::default() }])
    }

    async fn scale(&self, caller: &Caller) -> Result<GetScaleResponse> {
        match tenant(caller)? {
            None => Ok(GetScaleResponse { workers: 1, ..GetScaleResponse::default() }),
            Some(_) => Err(Error::new(ErrorKind::PermissionDenied, "for administrators")),
        }
    }
}

fn serve() -> SocketAddr {
    let options = HttpOptions { listen: SocketAddr::from(([127, 0, 0, 1], 0)), any_port: false, hosts: Vec::new() };
    let dashboard = Dashboard::bind(options).expect("a port");
    let address = dashboard.address();
    tokio::spawn(dashboard.run(Arc::new(Fake)));
    address
}

/// Sends bytes, and returns the received bytes once the server closes or `enough` bytes have arrived.
async fn exchange(at: SocketAddr, request: &str, enough: usize) -> String {
    let mut socket = TcpStream::connect(at).await.expect("connected");
    // A server that refuses a request may close before it has received all of it.
    let _ = socket.write_all(request.as_bytes()).await;
    let (mut got, mut part) = (Vec::new(), [0; 4096]);
    while got.len() < enough {
        match tokio::time::timeout(Duration::from_secs(20), socket.read(&mut part)).await.expect("an answer in time") {
            Ok(0) | Err(_) => break,
            Ok(read) => got.extend_from_slice(&part[..read]),
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// Returns the status, the head and the body of an answer.
async fn get(at: SocketAddr, path: &str, token: Option<&str>) -> (u16, String, String) {
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n{token}Connection: close\r\n\r\n");
    let answer = exchange(at, &request, usize::MAX).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), head.to_lowercase(), body.to_owned())
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_a_caller_without_a_token_sees_nothing() {
    let at = serve();
    let paths =
        ["overview", "jobs", "workers", "scale", "cache", "events", "live", "job?name=same", "history?name=same"];
    for path in paths.map(|path| format!("/api/v1/{path}")) {
        for token in [None, Some("c"), Some("admi"), Some("A")] {
            let (status, head, body) = get(at, &path, token).await;
            assert_eq!(status, 401, "{path} {token:?} {body}");
            assert!(head.contains("www-authenticate: bearer") && !body.contains("same"), "{body}");
        }
    }
    let (_, _, of_a) = get(at, "/api/v1/overview", Some("a")).await;
    assert!(of_a.contains("<script>alert(1)</script>") && !of_a.contains("secret of b"), "{of_a}");
    assert_eq!((&json(&of_a)["jobs_found"], &json(&of_a)["scale"]), (&Value::from(2), &Value::Null));
    // A job of another tenant gets the same answer as a job that does not exist.
    for (query, status) in
        [("name=secret+of+b", 404), ("name=same&tenant=b", 404), ("name=same", 200), ("name=none", 404)]
    {
        for what in ["job", "history", "live"] {
            let path = format!("/api/v1/{what}?{query}{}", if what == "live" { "&view=job" } else { "" });
            if what == "live" && status == 200 {
                continue;
            }
            assert_eq!(get(at, &path, Some("a")).await.0, status, "{path}");
        }
    }
    assert_eq!(get(at, "/api/v1/scale", Some("a")).await.0, 403);
    let (status, _, of_all) = get(at, "/api/v1/overview", Some("admin")).await;
    assert_eq!((status, &json(&of_all)["jobs_found"]), (200, &Value::from(4)));
    let (status, _, two) = get(at, "/api/v1/job?name=same", Some("admin")).await;
    assert!(status == 400 && two.contains("several tenants"), "{two}");
    assert_eq!(get(at, "/api/v1/job?name=same&tenant=b", Some("admin")).await.0, 200);
    // No answer has the key of a job, because the key allows reading its chunks.
    assert!(!of_all.contains("key"), "{of_all}");
}

#[tokio::test]
async fn every_answer_forbids_what_pages_of_others_would_do() {
    let at = serve();
    for path in [
        "/",
        "/assets/app.js",
        "/api/v1/jobs",
        "/api/v1/openapi.json",
        "/none",
        "/assets/../../etc/passwd",
        "/%2e%2e/x",
    ] {
        let (_, head, _) = get(at, path, Some("a")).await;
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-frame-options: deny",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(header), "{path}: {header}: {head}");
        }
        assert!(!head.contains("access-control-") && !head.contains("set-cookie"), "{head}");
    }
    for path in
        ["/none", "/assets/../../etc/passwd", "/assets/%2e%2e/openapi.json", "/api/v1/", "/api/v1/jobs/", "/api"]
    {
        assert_eq!(get(at, path, Some("a")).await.0, 404, "{path}");
    }
    let refused = |request: String| async move { exchange(at, &request, usize::MAX).await };
    let rebound =
        refused("GET /api/v1/jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned()).await;
    assert!(rebound.starts_with("HTTP/1.1 421") && rebound.contains("--http-host"), "{rebound}");
    let posted =
        refused(format!("POST /api/v1/jobs HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
    assert!(posted.await.contains("allow: GET, HEAD"));
    // A head that is too long, and a head that is not HTTP.
    let long = refused(format!("GET / HTTP/1.1\r\nHost: {at}\r\nX: {}\r\n\r\n", "x".repeat(40_000))).await;
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 431"), "{long}");
    assert!(refused("\u{16}\u{3}\u{1}nonsense\r\n\r\n".to_owned()).await.len() < 500);
}

#[tokio::test]
async fn streams_are_live_and_bounded_and_end_with_their_client() {
    let at = serve();
    let head = format!("Host: {at}\r\nAuthorization: Bearer a\r\n\r\n");
    let stream = exchange(at, &format!("GET /api/v1/live?view=overview HTTP/1.1\r\n{head}"), 900).await;
    assert!(stream.contains("text/event-stream") && stream.contains("event: overview\ndata: {"), "{stream}");
    let job = exchange(at, &format!("GET /api/v1/live?view=job&name=same HTTP/1.1\r\n{head}"), 900).await;
    assert!(job.contains("event: job\ndata: {"), "{job}");
    let mut open = Vec::new();
    let refused = loop {
        let mut socket = TcpStream::connect(at).await.expect("connected");
        let request = format!("GET /api/v1/live?view=workers HTTP/1.1\r\n{head}");
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut first = [0; 12];
        socket.read_exact(&mut first).await.expect("an answer");
        match &first[9..] {
            b"200" => open.push(socket),
            _ => break first,
        }
        assert!(open.len() <= 64, "too many streams");
    };
    assert_eq!(&refused[9..], b"429");
    // The server accepts new streams once the clients are gone.
    drop(open);
    let free = async {
        let request = format!("GET /api/v1/live?view=workers HTTP/1.1\r\n{head}");
        while !exchange(at, &request, 12).await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.expect("a place is free again");
}

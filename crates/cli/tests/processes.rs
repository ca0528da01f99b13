//! Real processes: they start, they are found, they end with their parent.

#![expect(clippy::disallowed_methods, reason = "tests poll processes")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use forebay_server::{Up, UpOptions, Workers};

/// No step takes longer unless it is broken.
const DEADLINE: Duration = Duration::from_secs(30);
const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

fn poll() -> Result<()> {
    Ok(())
}

fn command() -> Vec<String> {
    vec![FOREBAY.to_owned()]
}

/// A process that has ended and was not waited for is a zombie, and counts as ended.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn forebay(arguments: &[&str]) -> Output {
    Command::new(FOREBAY).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("json")
}

#[test]
fn a_service_starts_changes_and_ends_without_a_trace() {
    let up = Up::start(UpOptions { workers: Workers::Fixed(2), ..UpOptions::new(command()) }, &mut poll).expect("up");
    let mut pids = up.worker_pids();
    assert_eq!(pids.len(), 2);
    let listed = json(&forebay(&["workers", "--service", up.address(), "--json"]));
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(json(&forebay(&["jobs", "--service", up.address(), "--json"])), serde_json::json!([]));

    pids.push(up.add_worker(&mut poll).expect("a worker"));
    assert_eq!(up.kill_worker(0).expect("killed"), pids[0]);
    assert_eq!(up.worker_pids(), pids[1..]);
    assert_eq!(up.kill_worker(7).expect_err("none").kind(), ErrorKind::NotFound);
    let first = up.dispatcher_pid();
    let second = up.restart_dispatcher(&mut poll).expect("a dispatcher");
    assert!(first != second && second == up.dispatcher_pid() && !runs(first));
    // The workers find it again by themselves.
    wait_until("the workers come back", || {
        json(&forebay(&["workers", "--service", up.address(), "--json"])).as_array().map(Vec::len) == Some(2)
    });
    up.close();
    pids.extend([first, second]);
    assert!(!pids.iter().any(|&p| runs(p)));
}

#[test]
fn a_worker_that_dies_is_started_again_when_asked_for() {
    let up = Up::start(UpOptions { respawn: true, ..UpOptions::new(command()) }, &mut poll).expect("up");
    let first = up.kill_worker(0).expect("killed");
    wait_until("another worker", || up.worker_pids().iter().any(|&p| p != first));
}

fn foreground() -> (Child, Vec<u32>) {
    let mut up = Command::new(FOREBAY)
        .args(["up", "--workers", "2", "--listen", "127.0.0.1:0", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(up.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    let started: serde_json::Value = serde_json::from_str(&line).expect("json");
    let mut pids = vec![started["dispatcher"].as_u64().expect("a pid") as u32];
    pids.extend(started["workers"].as_array().expect("pids").iter().map(|p| p.as_u64().expect("a pid") as u32));
    assert!(pids.len() == 3 && pids.iter().all(|&p| runs(p)));
    (up, pids)
}

#[test]
fn children_end_with_a_parent_that_is_killed() {
    let (mut up, pids) = foreground();
    up.kill().expect("killed");
    up.wait().expect("ended");
    wait_until("the children end", || !pids.iter().any(|&p| runs(p)));
}

#[test]
fn an_interrupt_ends_a_service_in_order() {
    let (mut up, pids) = foreground();
    let sent = Command::new("kill").args(["-INT", &up.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    assert_eq!(up.wait().expect("ended").code(), Some(0));
    assert!(!pids.iter().any(|&p| runs(p)));
}

#[test]
fn a_child_that_cannot_start_is_explained_by_what_it_said() {
    let broken = vec!["sh".to_owned(), "-c".to_owned(), "echo no such module >&2; exit 3".to_owned()];
    let error: Error = Up::start(UpOptions::new(broken), &mut poll).map(drop).expect_err("it ends");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.get("stderr").is_some_and(|s| s.contains("no such module")), "{error}");
}

#[test]
fn exit_codes_say_what_happened_and_stdout_is_data_alone() {
    let version = forebay(&["version", "--json"]);
    assert_eq!((version.status.code(), &json(&version)["version"]), (Some(0), &forebay_core::VERSION.into()));
    for (arguments, code) in [
        (&["jobs", "--service", "127.0.0.1:1", "--timeout", "0.1"][..], 3),
        (&["jobs", "--service", "http://x"], 2),
        (&["jobs", "--timeout", "soon"], 2),
        (&["jobs", "--no-such-option"], 2),
        (&["no-such-command"], 2),
        (&["worker", "--dispatcher", "127.0.0.1:1", "--kind", "local"], 2),
        (&["worker", "--dispatcher", "127.0.0.1:1", "--price", "-1"], 2),
        (&["worker", "--dispatcher", "127.0.0.1:1", "--price", "3000000"], 2),
        (&["run", "x.py"], 1),
        (&["--help"], 0),
    ] {
        let output = forebay(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout.is_empty(), code != 0, "{arguments:?}");
    }
    // An empty variable counts as not set: the command asks a service, and finds none.
    let unset = ["FOREBAY_TOKEN", "FOREBAY_TOKEN_FILE", "FOREBAY_TLS_CA", "FOREBAY_TLS_CERT"].map(|name| (name, ""));
    let mut jobs = Command::new(FOREBAY);
    let jobs = jobs.args(["jobs", "--service", "127.0.0.1:1", "--timeout", "0.1"]).envs(unset).output();
    assert_eq!(jobs.expect("it starts").status.code(), Some(3));
}

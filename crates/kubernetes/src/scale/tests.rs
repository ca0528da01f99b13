//! The scaler against a small HTTP server with these endpoints alone; no Kubernetes runs here. The server's answers
//! have the fields of the API reference, and its rejections are the API's `Status` objects.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use forebay_core::{ErrorKind, Ticks};
use forebay_proto::Remote;
use kube::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::dispatcher::DispatcherClient;
use super::scaler::{Outcome, Scaler};
use super::workload::{Kind, WorkloadClient};

const STATUS: &str = "/apis/apps/v1/namespaces/ml/statefulsets/workers/status";
const SCALE: &str = "/apis/apps/v1/namespaces/ml/statefulsets/workers/scale";

/// The state of the cluster, and the requests that it received.
#[derive(Default)]
struct World {
    replicas: u32,
    /// Pods that can be ready; the others never are.
    room: u32,
    /// Rejects requests whose path begins with this one, with this code.
    refuses: Option<(&'static str, u16, &'static str)>,
    pods: Value,
    events: Value,
    requests: Vec<String>,
}

impl World {
    fn answer(&mut self, request: &str, body: &[u8]) -> (u16, Value) {
        self.requests.push(request.to_owned());
        let (method, path) = request.split_once(' ').expect("a request line");
        if let Some((_, code, message)) = self.refuses.filter(|(at, _, _)| path.starts_with(at)) {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
            return (code, status);
        }
        let ready = self.replicas.min(self.room);
        match (method, path.split('?').next().expect("a path")) {
            ("GET", STATUS) => (
                200,
                json!({
                    "kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "workers"},
                    "spec": {"replicas": self.replicas, "selector": {"matchLabels": {"app": "forebay", "tier": "a b"}}},
                    "status": {"replicas": self.replicas, "readyReplicas": ready},
                }),
            ),
            ("PATCH", SCALE) => {
                let patch: Value = serde_json::from_slice(body).expect("a patch is JSON");
                let set = patch.pointer("/spec/replicas").and_then(Value::as_u64).expect("it sets the replicas");
                self.replicas = u32::try_from(set).expect("in range");
                (200, json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": set}}))
            }
            ("GET", "/api/v1/namespaces/ml/pods") => (200, self.pods.clone()),
            ("GET", "/api/v1/namespaces/ml/events") => (200, self.events.clone()),
            _ => panic!("unexpected request {request}"),
        }
    }
}

type Shared = Arc<Mutex<World>>;

/// Serves until the runtime ends.
async fn start(world: World) -> (Shared, Scaler) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = format!("http://{}", listener.local_addr().expect("an address"));
    let world = Arc::new(Mutex::new(world));
    let shared = world.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, shared.clone()));
        }
    });
    let config = Config::new(at.parse().expect("a url"));
    let workload = WorkloadClient::of(config, Some("ml".to_owned()), Kind::StatefulSet, "workers").expect("a client");
    (world, Scaler::new(workload, 1, 40))
}

async fn serve(socket: TcpStream, world: Shared) {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if socket.read_line(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        let mut patches = false;
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await.expect("a header");
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().expect("a length"),
                Some(("content-type", value)) => patches = value == "application/merge-patch+json",
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.expect("a body");
        let request = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        assert!(patches || !request.starts_with("PATCH"), "Kubernetes takes no patch of another type");
        let (code, answer) = world.lock().unwrap_or_else(PoisonError::into_inner).answer(&request, &body);
        let answer = answer.to_string();
        let head =
            format!("HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
        socket.write_all(format!("{head}{answer}").as_bytes()).await.expect("written");
    }
}

fn seconds(seconds: u64) -> Ticks {
    Ticks(seconds * 1000)
}

fn set(world: &Shared, change: impl FnOnce(&mut World)) {
    change(&mut world.lock().unwrap_or_else(PoisonError::into_inner));
}

fn replicas(world: &Shared) -> u32 {
    world.lock().unwrap_or_else(PoisonError::into_inner).replicas
}

fn requests(world: &Shared) -> usize {
    world.lock().unwrap_or_else(PoisonError::into_inner).requests.len()
}

#[tokio::test]
async fn replicas_follow_the_wanted_number_and_stay_while_it_is_unknown() {
    let (world, mut scaler) = start(World { replicas: 5, room: 100, ..World::default() }).await;
    assert!(matches!(scaler.step(seconds(1), None).await, Outcome::Unchanged));
    assert_eq!((replicas(&world), requests(&world)), (5, 0), "nothing is known, and nothing is asked");
    for (now, wanted, then) in
        [(2, 9, 9), (3, 30, 25), (4, 30, 30), (5, 99, 40), (6, 3, 24), (7, 3, 8), (8, 3, 3), (9, 0, 1)]
    {
        let from = replicas(&world);
        let outcome = scaler.step(seconds(now), Some(wanted)).await;
        assert!(matches!(outcome, Outcome::Scaled { from: f, to } if (f, to) == (from, then)), "{wanted}: {outcome:?}");
        assert_eq!(replicas(&world), then, "at most sixteen at once, from 1 to 40");
    }
    assert!(matches!(scaler.step(seconds(10), Some(1)).await, Outcome::Unchanged));
}

#[tokio::test]
async fn a_rejected_request_is_reported_with_its_cause_and_retried_with_backoff() {
    let refuses = Some((SCALE, 403, "statefulsets.apps \"workers\" is forbidden: cannot patch resource \"scale\""));
    let (world, mut scaler) = start(World { replicas: 1, room: 100, refuses, ..World::default() }).await;
    let (mut now, mut pauses) = (seconds(100), Vec::new());
    for _ in 0..8 {
        let Outcome::Failed { error, pause } = scaler.step(now, Some(4)).await else { panic!("it is refused") };
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.message().contains("cannot patch resource"), "{error}");
        assert!(error.get("hint").is_some_and(|h| h.contains("patch on statefulsets/scale")), "{error}");
        let before = requests(&world);
        assert!(matches!(scaler.step(now + (pause - Duration::from_millis(1)), Some(4)).await, Outcome::Unchanged));
        assert_eq!(requests(&world), before, "nothing is asked in a pause");
        pauses.push(pause.as_secs());
        now = now + pause;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    set(&world, |world| world.refuses = Some((STATUS, 404, "statefulsets.apps \"workers\" not found")));
    let Outcome::Failed { error, .. } = scaler.step(now, Some(4)).await else { panic!("it is not there") };
    assert_eq!((error.kind(), replicas(&world)), (ErrorKind::NotFound, 1));
    set(&world, |world| world.refuses = None);
    now = now + Duration::from_secs(60);
    assert!(matches!(scaler.step(now, Some(4)).await, Outcome::Scaled { from: 1, to: 4 }));
    set(&world, |world| world.refuses = Some((STATUS, 500, "etcd is away")));
    now = now + Duration::from_secs(1);
    let Outcome::Failed { pause, error } = scaler.step(now, Some(4)).await else { panic!("it is away") };
    assert_eq!((pause.as_secs(), error.kind()), (1, ErrorKind::Unavailable), "pauses begin anew");
}

#[tokio::test]
async fn missing_pods_are_reported_once_with_the_cause() {
    let quota =
        "create Pod workers-2 in StatefulSet workers failed error: pods \"workers-2\" is forbidden: exceeded quota";
    let pod = |name: &str, status: Value| json!({"metadata": {"name": name}, "status": status});
    let ready = pod("workers-0", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    let cases = [
        (
            json!({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}),
            "pod workers-1: ImagePullBackOff: no such image",
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
            "pod workers-1: Unschedulable: 0/3 nodes",
        ),
    ];
    let (world, mut scaler) = start(World { replicas: 1, room: 1, ..World::default() }).await;
    assert!(matches!(scaler.step(seconds(1), Some(3)).await, Outcome::Scaled { from: 1, to: 3 }));
    let mut now = seconds(10);
    for (status, why) in cases {
        set(&world, |world| world.pods = json!({"items": [ready.clone(), pod("workers-1", status)]}));
        reports_missing(&mut scaler, now, why).await;
        // All pods are ready for a moment, so the next missing pods are reported again.
        set(&world, |world| world.room = 3);
        assert!(matches!(scaler.step(now + Duration::from_secs(90), Some(3)).await, Outcome::Unchanged));
        set(&world, |world| world.room = 1);
        now = now + Duration::from_secs(100);
    }
    set(&world, |world| {
        world.pods = json!({"items": [ready]});
        world.events = json!({"items": [
            {"lastTimestamp": "2026-11-22T10:00:01Z", "message": quota},
            {"lastTimestamp": "2026-11-22T09:00:01Z", "message": "something older"},
        ]});
    });
    reports_missing(&mut scaler, now, quota).await;
    assert_eq!(replicas(&world), 3, "what is wanted stays asked for: Kubernetes tries again by itself");
    let requests = world.lock().unwrap_or_else(PoisonError::into_inner).requests.join("\n");
    assert!(requests.contains("labelSelector=app%3Dforebay%2Ctier%3Da%20b"), "{requests}");
    assert!(requests.contains("involvedObject.kind%3DStatefulSet%2CinvolvedObject.name%3Dworkers"), "{requests}");
    // The outcome reports the missing right to list pods, and the scaler goes on.
    set(&world, |world| world.room = 3);
    scaler.step(now + Duration::from_secs(90), Some(3)).await;
    set(&world, |world| {
        (world.room, world.refuses) = (1, Some(("/api/v1/namespaces/ml/pods", 403, "cannot list pods")))
    });
    reports_missing(&mut scaler, now + Duration::from_secs(100), "cannot list pods").await;
}

/// Pods are missing from `now` on: the scaler reports nothing for a minute, then the cause once.
async fn reports_missing(scaler: &mut Scaler, now: Ticks, cause: &str) {
    for after in [0, 59] {
        assert!(matches!(scaler.step(now + Duration::from_secs(after), Some(3)).await, Outcome::Unchanged));
    }
    let outcome = scaler.step(now + Duration::from_secs(60), Some(3)).await;
    assert!(
        matches!(&outcome, Outcome::PodsMissing { missing: 2, why } if why.contains(cause)),
        "{outcome:?}, not {cause}"
    );
    assert!(matches!(scaler.step(now + Duration::from_secs(61), Some(3)).await, Outcome::Unchanged));
}

/// A dispatcher as users have it, from the tree's own build.
#[tokio::test]
async fn a_dispatcher_that_does_not_answer_gives_no_number() {
    let forebay = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv/bin/forebay");
    let state = tempfile::tempdir().expect("a folder");
    let mut dispatcher = std::process::Command::new(forebay)
        .args(["dispatcher", "--listen", "127.0.0.1:0", "--announce", "--exit-with-parent", "--state-dir"])
        .arg(state.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("`make build` makes the command that this needs");
    let mut line = String::new();
    let stdout = dispatcher.stdout.take().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("it announces itself");
    let announced: Value = serde_json::from_str(&line).expect("JSON");
    let address = announced.get("address").and_then(Value::as_str).expect("where it listens");
    let mut client = DispatcherClient::new(Remote::new(address), None);
    assert_eq!(client.wanted().await, Some(1), "one worker is always wanted");
    let mut client_of_a_kind = DispatcherClient::new(Remote::new(address), Some(("big".to_owned(), false)));
    assert_eq!(client_of_a_kind.wanted().await, None, "it knows no kinds");
    dispatcher.kill().and_then(|()| dispatcher.wait()).expect("it is killed");
    assert_eq!(client.wanted().await, None);
    assert_eq!(client.wanted().await, None);
}

#[test]
fn one_workload_is_named_and_one_alone() {
    let parse = |arguments: &[&str]| -> Result<_, clap::Error> {
        let fixed = ["forebay-operator", "scale", "--dispatcher", "d:7070", "--max-workers", "3"];
        match crate::Arguments::try_parse_from(fixed.iter().chain(arguments))?.command {
            crate::Command::Scale(arguments) => Ok(arguments),
            other => panic!("{other:?} is no scale"),
        }
    };
    let named = |arguments| parse(arguments).map(|a| (a.workload().0, a.workload().1.to_owned())).ok();
    assert_eq!(named(&["--statefulset", "w"]), Some((Kind::StatefulSet, "w".to_owned())));
    assert_eq!(named(&["--deployment", "w"]), Some((Kind::Deployment, "w".to_owned())));
    assert_eq!(named(&[]), None);
    assert_eq!(named(&["--deployment", "w", "--statefulset", "w"]), None);
    assert!(parse(&["--deployment", "w", "--max-workers", "0"]).is_err());
}

#[test]
fn a_deployment_reports_that_it_may_not_create_pods() {
    let conditions = json!({"status": {"conditions": [
        {"type": "Available", "status": "True"},
        {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods=4"},
    ]}});
    assert_eq!(super::cause::refused(&conditions).as_deref(), Some("exceeded quota: pods=4"));
    assert_eq!(super::cause::refused(&json!({})), None);
}

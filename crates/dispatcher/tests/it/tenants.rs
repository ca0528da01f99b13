//! Tokens and tenants over real sockets: every call, without a token, with a wrong one, and as another tenant.

#![expect(clippy::disallowed_methods, reason = "tests wait")]

use std::path::Path;

use crate::common::*;
use forebay_core::{Error, ErrorKind, Result};
use forebay_dispatcher::{Role, new_token};
use forebay_plan::BlobId;
use forebay_proto::{
    Attach, BlobPart, CancelJobRequest, ConsumerMessage, Credentials, DispatcherClient, GetBlobRequest,
    GetScaleRequest, GetVersionRequest, Hello, Link, ListJobsRequest, ListWorkersRequest, MissingBlobsRequest,
    OneReader, OpenJobRequest, Remote, UNNUMBERED_VERSION, WorkerEvent, WorkerMessage, client, consumer_message,
    open_job_event, to_error, worker_message,
};
use tonic::transport::Endpoint;

const BLOB: &[u8] = b"a pickle";

fn caller(at: &Running, token: Option<&str>) -> Result<DispatcherClient<Link>> {
    let credentials = Credentials { tls: None, token: token.map(str::parse).transpose()? };
    let remote = Remote { address: at.address.clone(), credentials };
    let endpoint = Endpoint::from_shared(format!("http://{}", remote.addresses()?[0]));
    let endpoint = endpoint.map_err(|e| Error::invalid(e.to_string()))?;
    // Unlike `attempt`, it does not check the version first: each call is refused by itself.
    Ok(client(remote.link(endpoint.connect_lazy())))
}

fn start(dir: &Path, roles: &[(Role, &str)]) -> Result<(Running, Vec<String>)> {
    let tokens = dir.join("tokens.json");
    let made: Result<Vec<_>> = roles.iter().map(|(role, of)| Ok(new_token(Some(&tokens), *role, of)?.token)).collect();
    let at = Running::start(&dir.join("state"), |options| options.tokens = Some(tokens))?;
    Ok((at, made?))
}

fn part() -> BlobPart {
    BlobPart { id: BlobId::of(BLOB).0, data: BLOB.into() }
}

/// A consumer's first message.
fn attach(job: u64) -> ConsumerMessage {
    let attach = Attach { version: UNNUMBERED_VERSION.to_owned(), job, window: 1, ..Attach::default() };
    ConsumerMessage { message: Some(consumer_message::Message::Attach(attach)) }
}

fn hello(secret: [u8; 16], only: Option<OneReader>) -> WorkerMessage {
    let (version, address, secret) = (UNNUMBERED_VERSION.to_owned(), "worker:1".to_owned(), secret.to_vec());
    let hello = Hello { version, address, secret, threads: 1, only, ..Hello::default() };
    WorkerMessage { message: Some(worker_message::Message::Hello(hello)) }
}

/// Returns the answer of every call of the service, by its name; `None` if it is not refused.
async fn answers(to: &mut DispatcherClient<Link>) -> Result<Vec<(&'static str, Option<ErrorKind>)>> {
    let id = BlobId::of(BLOB).0;
    let (get, missing) =
        (GetBlobRequest { id: id.clone(), ..Default::default() }, MissingBlobsRequest { ids: vec![id] });
    let open: OpenJobRequest = request("mine", 8, 1, 1)?;
    let cancel = CancelJobRequest { name: "none".to_owned(), tenant: String::new() };
    let kind = |failed: Option<tonic::Status>| failed.map(|s| to_error(&s, "it").kind());
    let stream = |message| tokio_stream::iter(vec![message]);
    Ok(vec![
        ("get_version", kind(to.get_version(GetVersionRequest {}).await.err())),
        ("missing_blobs", kind(to.missing_blobs(missing).await.err())),
        ("put_blob", kind(to.put_blob(stream(part())).await.err())),
        ("get_blob", kind(to.get_blob(get).await.err())),
        ("open_job", kind(to.open_job(open).await.err())),
        ("consume", kind(to.consume(tokio_stream::iter(vec![attach(1)])).await.err())),
        ("work", kind(to.work(tokio_stream::iter(vec![hello([1; 16], None)])).await.err())),
        ("list_jobs", kind(to.list_jobs(ListJobsRequest::default()).await.err())),
        ("list_workers", kind(to.list_workers(ListWorkersRequest {}).await.err())),
        ("cancel_job", kind(to.cancel_job(cancel).await.err())),
        ("get_scale", kind(to.get_scale(GetScaleRequest {}).await.err())),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_refused_to_a_caller_that_may_not_make_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (at, tokens) = start(dir.path(), &[(Role::Client, "a"), (Role::Worker, "")])?;
    let denied = Some(ErrorKind::PermissionDenied);
    for token in [None, Some("fbt_0")] {
        for (call, answer) in answers(&mut caller(&at, token)?).await? {
            assert_eq!(answer, denied, "{call}");
        }
    }
    for (call, answer) in answers(&mut caller(&at, Some(&tokens[0]))?).await? {
        assert_eq!(answer == denied, ["work", "get_scale"].contains(&call), "{call} as a client: {answer:?}");
    }
    for (call, answer) in answers(&mut caller(&at, Some(&tokens[1]))?).await? {
        let may = ["get_version", "get_blob", "work"].contains(&call);
        assert_eq!(answer == denied, !may, "{call} as a worker: {answer:?}");
    }
    Ok(())
}

async fn open(to: &mut DispatcherClient<Link>, name: &str) -> Result<forebay_proto::JobDefinition> {
    let failed = |s: tonic::Status| to_error(&s, "it");
    let mut events = to.open_job(request(name, 640, 1, 1)?).await.map_err(failed)?.into_inner();
    while let Some(event) = events.message().await.map_err(failed)? {
        if let Some(open_job_event::Event::Opened(job)) = event.event {
            return Ok(job);
        }
    }
    Err(Error::internal("no job"))
}

/// Begins the session of a job's consumer; returns the error of its first event.
async fn attached(to: &mut DispatcherClient<Link>, job: u64) -> Result<()> {
    let failed = |s: tonic::Status| to_error(&s, "it");
    // The stream must not end before it was answered.
    let (out, outbox) = tokio::sync::mpsc::channel(1);
    out.send(attach(job)).await.map_err(|_| Error::internal("closed"))?;
    let events = to.consume(tokio_stream::wrappers::ReceiverStream::new(outbox)).await;
    events.map_err(failed)?.into_inner().message().await.map_err(failed).map(drop)
}

/// A worker's session, which ends when it is dropped.
type WorkerSession = (tokio::sync::mpsc::Sender<WorkerMessage>, tonic::Streaming<WorkerEvent>);

/// Begins a worker's session.
async fn welcomed(to: &mut DispatcherClient<Link>, secret: [u8; 16], only: Option<OneReader>) -> Result<WorkerSession> {
    let failed = |s: tonic::Status| to_error(&s, "it");
    let (out, outbox) = tokio::sync::mpsc::channel(1);
    out.send(hello(secret, only)).await.map_err(|_| Error::internal("closed"))?;
    let events = to.work(tokio_stream::wrappers::ReceiverStream::new(outbox)).await;
    let mut events = events.map_err(failed)?.into_inner();
    events.message().await.map_err(failed)?;
    Ok((out, events))
}

/// Returns the ids of the workers that a tenant sees, once there are so many.
async fn workers(to: &mut DispatcherClient<Link>, count: usize) -> Result<Vec<String>> {
    let until = std::time::Instant::now() + crate::common::PATIENCE;
    loop {
        let listed = to.list_workers(ListWorkersRequest {}).await.map_err(|s| to_error(&s, "it"))?;
        let ids: Vec<_> = listed.into_inner().workers.into_iter().map(|worker| worker.worker).collect();
        if ids.len() == count {
            return Ok(ids);
        }
        assert!(std::time::Instant::now() < until, "{ids:?}");
        tokio::task::yield_now().await;
    }
}

/// With the id that every tenant sees, a client took a worker's place while it was away; the worker was refused and
/// ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_knows_the_id_of_a_worker_is_not_that_worker() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (at, tokens) = start(dir.path(), &[(Role::Client, "a"), (Role::Worker, "")])?;
    let [mut client, mut worker] = [caller(&at, Some(&tokens[0]))?, caller(&at, Some(&tokens[1]))?];
    let only = OneReader { job: open(&mut client, "mine").await?.job, consumer: 0 };
    let session = welcomed(&mut worker, [7; 16], None).await?;
    let id = workers(&mut client, 1).await?.remove(0);
    let shown = u128::from_str_radix(&id, 16).map_err(|e| Error::internal(e.to_string()))?.to_be_bytes();
    let beside = welcomed(&mut client, shown, Some(only)).await?;
    assert_eq!(workers(&mut client, 2).await?.iter().filter(|other| **other == id).count(), 1);
    drop(session);
    workers(&mut client, 1).await?;
    let instead = welcomed(&mut client, shown, Some(only)).await?;
    let _session = welcomed(&mut worker, [7; 16], None).await?;
    assert!(workers(&mut client, 2).await?.contains(&id), "it is the same worker as before");
    drop((beside, instead));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_tenants_does_not_exist() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let roles = [(Role::Client, "a"), (Role::Client, "b"), (Role::Worker, "b"), (Role::Worker, "")];
    let (at, tokens) = start(dir.path(), &roles)?;
    let [mut a, mut b] = [caller(&at, Some(&tokens[0]))?, caller(&at, Some(&tokens[1]))?];
    let failed = |s: tonic::Status| to_error(&s, "it");
    let [one, other] = [open(&mut a, "same").await?, open(&mut b, "same").await?];
    assert_ne!((one.job, &one.key), (other.job, &other.key));
    assert_eq!((&*one.tenant, one.key.len(), &*other.tenant), ("a", 16, "b"));
    assert_eq!(open(&mut a, "same").await?, one, "attaching finds the same");

    let there = attached(&mut b, one.job).await.expect_err("another's");
    let nowhere = attached(&mut b, 99).await.expect_err("no such job");
    assert_eq!(there.to_json().replace(&format!("job {}", one.job), "job 99"), nowhere.to_json());
    attached(&mut a, one.job).await?;

    // A client's token computes for readers of its own jobs.
    let [own, there, nowhere] = [one.job, other.job, 99].map(|job| OneReader { job, consumer: 0 });
    welcomed(&mut a, [1; 16], Some(own)).await?;
    let there = welcomed(&mut a, [1; 16], Some(there)).await.map(drop).expect_err("another's");
    let nowhere = welcomed(&mut a, [1; 16], Some(nowhere)).await.map(drop).expect_err("no such job");
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    assert_eq!(there.to_json().replace(&format!("job {}", other.job), "job 99"), nowhere.to_json());

    a.put_blob(tokio_stream::iter(vec![part()])).await.map_err(failed)?;
    let id = part().id;
    let asked = || MissingBlobsRequest { ids: vec![id.clone()] };
    assert!(a.missing_blobs(asked()).await.map_err(failed)?.into_inner().ids.is_empty());
    assert_eq!(b.missing_blobs(asked()).await.map_err(failed)?.into_inner().ids, std::slice::from_ref(&id));
    for (token, tenant, found) in [
        (&tokens[2], "a", Some(ErrorKind::NotFound)),
        (&tokens[2], "b", Some(ErrorKind::NotFound)),
        (&tokens[3], "b", Some(ErrorKind::NotFound)),
        (&tokens[3], "../a", Some(ErrorKind::Invalid)),
        (&tokens[3], "a", None),
    ] {
        let get = GetBlobRequest { id: id.clone(), tenant: tenant.to_owned() };
        let answer = match caller(&at, Some(token))?.get_blob(get).await {
            Ok(parts) => parts.into_inner().message().await.err(),
            Err(status) => Some(status),
        };
        assert_eq!(answer.map(|s| failed(s).kind()), found, "{tenant}");
    }
    Ok(())
}

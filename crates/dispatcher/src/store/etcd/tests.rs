//! The ledger and the blobs in a real etcd. If etcd is not installed on this machine, these tests print that and pass.

#![expect(clippy::disallowed_methods, reason = "tests poll an etcd")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Clock, Error, ErrorKind, Result, SystemClock};
use forebay_plan::BlobId;

use super::*;
use crate::leader::election::Candidate;
use crate::leader::term::Term;
use crate::records::{Batch, Ledger, Position, Update};
use crate::store::rows::tests::{every_kind, job};
use crate::store::{BlobStore, ServiceId};

/// How long etcd may take for any call, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than any wait of a test, so that a lease ends only if the test ends it.
const LEASE: Duration = Duration::from_secs(600);

/// An etcd of one member, of this test alone.
pub(super) struct Server {
    process: Child,
    url: EtcdUrl,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// `None` if it is not installed.
    fn start() -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let (clients, peers) = (free_port()?, free_port()?);
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let started = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match started {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: there is no etcd on this machine");
                return Ok(None);
            }
            started => started?,
        };
        let url = clients.replace("http", "etcd").parse()?;
        Ok(Some(Self { process, url, _folder: folder }))
    }
}

/// Starts one, and waits until it answers; `None` if it is not installed.
pub(super) async fn server() -> Result<Option<Server>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let Some(mut server) = Server::start()? else { return Ok(None) };
        let etcd = Etcd::new(&server.url)?;
        // If it ends, another process had taken a port meanwhile.
        while server.process.try_wait()?.is_none() {
            match etcd.get(b"any").await {
                Ok(_) => return Ok(Some(server)),
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Dispatchers of one service, as the store sees them.
pub(super) struct World {
    pub(super) etcd: Arc<Etcd>,
    keys: Keys,
    clock: Arc<dyn Clock>,
}

impl World {
    pub(super) fn new(server: &Server) -> Result<Self> {
        let etcd = Arc::new(Etcd::new(&server.url)?);
        Ok(Self { etcd, keys: Keys::new(&server.url.prefix), clock: Arc::new(SystemClock::default()) })
    }

    pub(super) fn candidate(&self, address: &str) -> Candidate {
        Candidate::new(self.etcd.clone(), self.keys.clone(), self.clock.clone(), LEASE, address.to_owned())
    }

    /// Waits until this dispatcher leads.
    pub(super) async fn elect(&self, candidate: &Candidate) -> Result<Arc<Term>> {
        let term = tokio::time::timeout(PATIENCE, candidate.campaign(|_| {})).await;
        term.map_err(|_| Error::internal("no dispatcher was elected"))
    }

    pub(super) async fn open(&self, term: &Arc<Term>) -> Result<EtcdLedger> {
        patient(async || EtcdLedger::open(self.etcd.clone(), self.keys.clone(), term.clone()).await).await
    }
}

/// Repeats a call until etcd answers: on a busy machine it may take longer than a call's time limit.
pub(super) async fn patient<T>(ask: impl AsyncFn() -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(e) if e.kind() == ErrorKind::Unavailable && Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Commits a batch again and again, as the committer does, until it is written; otherwise returns why it never will be.
async fn commit(store: &mut EtcdLedger, batch: &Batch) -> Result<Result<(), String>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match store.commit(batch).await {
            Ok(()) => return Ok(Ok(())),
            Err(Refusal::Deposed(why)) => return Ok(Err(why)),
            Err(Refusal::Failed(e)) if e.kind() == ErrorKind::Unavailable && Instant::now() < until => {}
            Err(Refusal::Failed(e)) => return Err(e),
        }
    }
}

pub(super) async fn written(store: &mut EtcdLedger, batch: &Batch) -> Result<()> {
    commit(store, batch).await?.map_err(Error::internal)
}

pub(super) fn frontier(ordinal: u64) -> Batch {
    let mut batch = Batch::default();
    batch.add(Update::Frontier((3, 1), Position::new(9, ordinal)));
    batch
}

/// Of more than one part.
fn large(sample: u64) -> Batch {
    let mut batch = Batch::default();
    for i in 0..9 {
        let error = format!("{{\"message\":\"{}\"}}", "é".repeat(50_000));
        batch.add(Update::Skipped(((3, 0), Position::new(1, i), sample, 0), error.into()));
    }
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_is_what_the_next_leader_reads() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let term = world.elect(&world.candidate("a:1")).await?;
    let mut model = Ledger::default();
    let mut gone = Batch::default();
    gone.add(Update::JobGone(3));
    gone.add(Update::Job(job(4, "four")));
    let mut store = world.open(&term).await?;
    // Large batches cause two new states to be written; the history of writes does not make the keys in etcd grow.
    let batches = [every_kind(), large(1), large(2), frontier(1), large(1), large(2), frontier(2), gone, frontier(3)];
    for batch in batches {
        written(&mut store, &batch).await?;
        model.apply(&batch);
        assert_eq!(store.ledger(), &model);
        assert_eq!(world.open(&term).await?.ledger(), &model);
        // Reading moved `meta`: the first writer is not the last any more.
        store = world.open(&term).await?;
    }
    let kept = async |prefix: &str| -> Result<Vec<String>> {
        let prefix = format!("forebay/{prefix}/");
        let kept = patient(async || world.etcd.all(prefix.as_bytes()).await).await?;
        Ok(kept.iter().filter_map(|kv| String::from_utf8_lossy(&kv.key).split('/').nth(2).map(str::to_owned)).collect())
    };
    let (states, logs) = (kept("state").await?, kept("log").await?);
    assert!(states.len() > 1 && states.iter().all(|seq| *seq == states[0]), "{states:?}");
    assert!(!logs.is_empty() && logs.iter().all(|seq| *seq > states[0]), "{states:?} {logs:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_writes_nothing_and_an_unanswered_batch_is_written_once() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let (a, b) = (world.candidate("a:1"), world.candidate("b:1"));
    let first = world.elect(&a).await?;
    let mut old = world.open(&first).await?;
    written(&mut old, &every_kind()).await?;
    // It was done, and the answer was lost: the same batch comes again.
    let before = old.position();
    written(&mut old, &frontier(7)).await?;
    let after = old.position();
    old.forget_answer(before);
    written(&mut old, &frontier(7)).await?;
    assert_eq!(old.position(), after);

    // etcd ends its lease without its knowledge; by its own clock it still leads, so that only the fence is left.
    let _ = patient(async || world.etcd.revoke_lease(first.lease()).await).await;
    let second = world.elect(&b).await?;
    let deposed: Result<(), String> = Err("another dispatcher leads".to_owned());
    // Before the new leader has written anything, and after.
    assert_eq!(commit(&mut old, &frontier(1)).await?, deposed);
    let mut new = world.open(&second).await?;
    let taken_over = new.ledger().clone();
    assert_eq!(taken_over.frontiers[&(3, 1)], Position::new(9, 7));
    for batch in [frontier(1), large(1)] {
        assert_eq!(commit(&mut old, &batch).await?, deposed);
    }
    let leader = patient(async || world.etcd.get(&world.keys.leader()).await).await?;
    assert_eq!(leader.map(|kv| kv.create_revision), Some(second.revision()));
    written(&mut new, &frontier(8)).await?;
    // It notices when it renews its lease, and would write nothing more under any leader.
    assert!(first.holds());
    a.keep(first.clone()).await;
    assert!(!first.holds());
    assert_eq!(commit(&mut old, &frontier(1)).await?, Err("this dispatcher's term is over".to_owned()));

    // A leader that resigns is followed before its lease ends.
    b.resign(&second).await;
    let third = world.elect(&a).await?;
    let last = world.open(&third).await?;
    assert_eq!(last.ledger().frontiers[&(3, 1)], Position::new(9, 8));
    assert_eq!(last.ledger().skipped, taken_over.skipped);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_is_read_by_another_dispatcher() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let blobs = EtcdBlobs::new(world.etcd.clone(), world.keys.clone());
    let (a, b) = (here.path().to_owned(), there.path().to_owned());
    let work = move || {
        let bytes: Vec<u8> = (0..1_300_000u32).map(|i| (i / 7) as u8).collect();
        let (a, b) = (BlobStore::cached(&a, 2 << 20, blobs.clone())?, BlobStore::cached(&b, 2 << 20, blobs)?);
        let id = BlobId::of(&bytes);
        assert_eq!(a.missing([id.clone()])?, std::slice::from_ref(&id));
        assert_eq!(a.put(&bytes)?, id);
        assert_eq!(b.missing([id.clone()])?, []);
        // Once from etcd, once from its own disk.
        for _ in 0..2 {
            let mut read = Vec::new();
            b.send(&id, |part| {
                read.extend_from_slice(&part);
                true
            })?;
            assert_eq!(read, bytes);
        }
        // A tenant's is a tenant's at every dispatcher.
        let (a_one, b_one, b_two) = (a.of("one"), b.of("one"), b.of("two"));
        assert_eq!((a_one.has(&id)?, a_one.put(&bytes)? == id), (false, true));
        assert_eq!((b_one.has(&id)?, b_two.has(&id)?), (true, false));
        b_one.send(&id, |_| true)?;
        assert_eq!(b_two.send(&id, |_| true).expect_err("another's").kind(), ErrorKind::NotFound);
        let unknown = b.send(&BlobId::of(b"unknown"), |_| true).expect_err("there is none");
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        assert_eq!(b.put(&vec![0; 3 << 20]).expect_err("too large").kind(), ErrorKind::Exhausted);
        Ok::<_, Error>(())
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::internal(e.to_string()))?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_dispatchers_of_a_service_know_which_it_is() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let other = Keys::new("/another");
    let of = async |keys: &Keys| patient(async || ServiceId::of_etcd(&world.etcd, keys).await).await;
    let first = of(&world.keys).await?;
    assert_eq!(of(&world.keys).await?, first);
    assert_ne!(of(&other).await?, first);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_that_no_job_needs_leave_when_the_leader_says_so() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let (a, b) = (world.candidate("a:1"), world.candidate("b:1"));
    let first = world.elect(&a).await?;
    // By its own clock it still leads.
    let _ = patient(async || world.etcd.revoke_lease(first.lease()).await).await;
    let second = world.elect(&b).await?;
    let folder = tempfile::tempdir()?;
    let (path, blobs) = (folder.path().to_owned(), EtcdBlobs::new(world.etcd.clone(), world.keys.clone()));
    let work = move || {
        let bytes: Vec<u8> = (0..1_300_000u32).map(|i| (i / 7) as u8).collect();
        let store = BlobStore::cached(&path, 2 << 20, blobs)?;
        let (one, two) = (store.of("one"), store.of("two"));
        let id = one.put(&bytes)?;
        two.put(&bytes)?;
        let (needed, grace) = ([("two".to_owned(), id.0.clone())].into(), Duration::from_millis(100));
        let collect_garbage = |at, term: &Term| store.collect_garbage(&needed, forebay_core::Ticks(at), grace, term);
        assert!(first.holds());
        assert_eq!((collect_garbage(0, &first)?, collect_garbage(100, &first)?), (0, 0));
        assert!(one.has(&id)?, "another leads");
        assert_eq!((collect_garbage(1000, &second)?, collect_garbage(1100, &second)?), (0, 0));
        assert_eq!((one.has(&id)?, two.has(&id)?), (false, true));
        Ok::<_, Error>(())
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| Error::internal(e.to_string()))??;
    let names = patient(async || world.etcd.names(&world.keys.blobs()).await).await?;
    // Its size, and its parts.
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|name| String::from_utf8_lossy(name).contains("/blobs/two/")));
    Ok(())
}

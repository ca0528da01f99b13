//! The ledger and the blobs in a real etcd. Where there is none on this machine, these tests say so and pass.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Clock, Error, ErrorKind, Result, SystemClock};
use forebay_plan::BlobId;

use serde::{Deserialize, Serialize};

use super::ledger::{EtcdLedger, FORMAT, Meta, Refusal, check_format, replay};
use super::*;
use crate::election::Candidate;
use crate::records::{Batch, Ledger, Position, Update};
use crate::store::rows::tests::{every_kind, job};
use crate::store::{BlobStore, rows};
use crate::term::Term;

const PATIENCE: Duration = Duration::from_secs(20);

/// An etcd of one member, of this test alone.
struct Server {
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

/// Starts one; `None` where it is not installed.
fn server() -> Result<Option<Server>> {
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
    Ok(Some(Server { process, url, _folder: folder }))
}

/// Dispatchers of one service, as the store sees them.
struct World {
    etcd: Arc<Etcd>,
    keys: Keys,
    clock: Arc<dyn Clock>,
}

impl World {
    async fn new(server: &Server) -> Result<Self> {
        let etcd = Arc::new(Etcd::new(&server.url)?);
        let until = Instant::now() + PATIENCE;
        while let Err(error) = etcd.get(b"any").await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { etcd, keys: Keys::new(&server.url.prefix), clock: Arc::new(SystemClock::default()) })
    }

    fn candidate(&self, address: &str) -> Candidate {
        Candidate::new(self.etcd.clone(), self.keys.clone(), self.clock.clone(), address.to_owned())
    }

    /// Waits until this dispatcher leads; its lease is renewed.
    async fn elect(&self, candidate: &Candidate) -> Result<Arc<Term>> {
        let term = tokio::time::timeout(PATIENCE, candidate.campaign(|_| {})).await;
        let term = term.map_err(|_| Error::internal("nobody was elected"))?;
        tokio::spawn(candidate.keep(term.clone()));
        Ok(term)
    }

    async fn open(&self, term: &Arc<Term>) -> Result<EtcdLedger> {
        EtcdLedger::open(self.etcd.clone(), self.keys.clone(), term.clone()).await
    }
}

fn written(result: Result<(), Refusal>) -> Result<()> {
    result.map_err(|refusal| Error::internal(format!("{refusal:?}")))
}

fn frontier(ordinal: u64) -> Batch {
    let mut batch = Batch::default();
    batch.add(Update::Frontier((3, 1), Position::new(9, ordinal)));
    batch
}

/// Of more than one part.
fn large(sample: u64) -> Batch {
    let mut batch = Batch::default();
    for i in 0..9 {
        let error = format!("{{\"message\":\"{}\"}}", "é".repeat(50_000));
        batch.add(Update::Lost(((3, 0), Position::new(1, i), sample, 0), error.into()));
    }
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_is_what_the_next_leader_reads() -> Result<()> {
    let Some(server) = server()? else { return Ok(()) };
    let world = World::new(&server).await?;
    let candidate = world.candidate("a:1");
    let term = world.elect(&candidate).await?;
    let mut model = Ledger::default();
    let mut gone = Batch::default();
    gone.add(Update::JobGone(3));
    gone.add(Update::Job(job(4, "four")));
    let mut store = world.open(&term).await?;
    // Large batches make the state be written anew, twice; what etcd keeps does not grow with what was ever written.
    let batches = [every_kind(), large(1), large(2), frontier(1), large(1), large(2), frontier(2), gone, frontier(3)];
    for batch in batches {
        written(store.commit(&batch).await)?;
        model.apply(&batch);
        assert_eq!(store.ledger(), &model);
        assert_eq!(world.open(&term).await?.ledger(), &model);
        // Reading moved `meta`: the first writer is not the last any more.
        store = world.open(&term).await?;
    }
    let kept = async |prefix: &str| -> Result<Vec<String>> {
        let kept = world.etcd.all(format!("forebay/{prefix}/").as_bytes()).await?;
        Ok(kept.iter().filter_map(|kv| String::from_utf8_lossy(&kv.key).split('/').nth(2).map(str::to_owned)).collect())
    };
    let (states, logs) = (kept("state").await?, kept("log").await?);
    assert!(states.len() > 1 && states.iter().all(|seq| *seq == states[0]), "{states:?}");
    assert!(!logs.is_empty() && logs.iter().all(|seq| *seq > states[0]), "{states:?} {logs:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_writes_nothing_and_an_unanswered_batch_is_written_once() -> Result<()> {
    let Some(server) = server()? else { return Ok(()) };
    let world = World::new(&server).await?;
    let (a, b) = (world.candidate("a:1"), world.candidate("b:1"));
    let first = world.elect(&a).await?;
    let mut old = world.open(&first).await?;
    written(old.commit(&every_kind()).await)?;
    // It was done, and the answer was lost: the same batch comes again.
    let before = old.position();
    written(old.commit(&frontier(7)).await)?;
    let after = old.position();
    old.forget_answer(before);
    written(old.commit(&frontier(7)).await)?;
    assert_eq!(old.position(), after);

    // etcd gives the lease away behind its back; by its own clock it still leads.
    world.etcd.revoke_lease(first.lease()).await?;
    assert!(first.holds());
    let second = world.elect(&b).await?;
    // Before the new leader has written anything, and after.
    assert!(matches!(old.commit(&frontier(1)).await, Err(Refusal::Deposed(_))));
    let mut new = world.open(&second).await?;
    let taken_over = new.ledger().clone();
    assert_eq!(taken_over.frontiers[&(3, 1)], Position::new(9, 7));
    for batch in [frontier(1), large(1)] {
        assert!(matches!(old.commit(&batch).await, Err(Refusal::Deposed(_))));
    }
    assert_eq!(world.etcd.get(&world.keys.leader()).await?.map(|kv| kv.create_revision), Some(second.revision()));
    written(new.commit(&frontier(8)).await)?;
    b.resign(&second).await;
    // One that resigns is followed at once.
    let start = Instant::now();
    let third = world.elect(&a).await?;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let last = world.open(&third).await?;
    assert_eq!(last.ledger().frontiers[&(3, 1)], Position::new(9, 8));
    assert_eq!(last.ledger().lost, taken_over.lost);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_is_read_by_another_dispatcher() -> Result<()> {
    let Some(server) = server()? else { return Ok(()) };
    let world = World::new(&server).await?;
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

/// What a version wrote: its keys, and the rows that they are.
#[derive(Serialize, Deserialize)]
struct Golden {
    keys: BTreeMap<String, String>,
    rows: Vec<String>,
}

/// The files and their formats; of the same format, one whose rows have gained fields. The last is what is written today.
const GOLDEN: [(&str, u64); 3] = [("etcd-v1", 1), ("etcd-v1-tenants", 1), ("etcd-v1-coordinated", 1)];
const NEWEST: &str = GOLDEN[GOLDEN.len() - 1].0;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"))
}

fn read_golden(keys: &BTreeMap<String, String>) -> Result<Ledger> {
    let kvs = |prefix: &str| -> Vec<KeyValue> {
        let found = keys.iter().filter(|(key, _)| key.starts_with(prefix));
        let kv = |(key, value): (&String, &String)| KeyValue {
            key: key.clone().into_bytes(),
            value: value.clone().into_bytes(),
            ..KeyValue::default()
        };
        found.map(kv).collect()
    };
    let meta: Meta = serde_json::from_str(&keys["forebay/meta"]).map_err(|e| Error::data(e.to_string()))?;
    replay(&meta, &Keys::new("forebay"), &kvs("forebay/state/"), &kvs("forebay/log/"))
}

/// To make a new file, name it in [`GOLDEN`]: `FOREBAY_WRITE_GOLDEN=1`, with an etcd. What is there is never changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_format_ever_wrote_is_read_and_what_is_missing_is_named() -> Result<()> {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() && !golden(NEWEST).exists() {
        write_golden().await?;
    }
    assert_eq!(GOLDEN[GOLDEN.len() - 1].1, FORMAT);
    for (name, format) in GOLDEN {
        let text = std::fs::read_to_string(golden(name))?;
        let Golden { keys, rows } = serde_json::from_str(&text).map_err(|e| Error::data(e.to_string()))?;
        let mut expected = Ledger::default();
        expected.apply(&rows::read((rows.join("\n") + "\n").as_bytes())?);
        assert_eq!(read_golden(&keys)?, expected, "{name}");
        let meta: Meta = serde_json::from_str(&keys["forebay/meta"]).map_err(|e| Error::data(e.to_string()))?;
        let job = expected.jobs.values().next().ok_or_else(|| Error::data("no job"))?;
        let first = name == GOLDEN[0].0;
        assert_eq!((meta.format, job.tenant == "a-tenant", job.key.is_none()), (format, !first, first), "{name}");
        assert_eq!(job.coordinated, name == NEWEST, "{name}");
        for gone in keys.keys().filter(|key| *key != "forebay/meta") {
            let mut rest = keys.clone();
            rest.remove(gone);
            let error = read_golden(&rest).expect_err("a part is missing");
            assert!(error.kind() == ErrorKind::Data && error.get("key") == Some(gone.as_str()), "{gone}: {error}");
            let cut = keys[gone].len() / 2;
            let mut cut_short = keys.clone();
            cut_short.entry(gone.clone()).and_modify(|value| value.truncate(cut));
            assert_eq!(read_golden(&cut_short).err().map(|e| e.kind()), Some(ErrorKind::Data), "{gone}");
        }
    }
    for format in [0, FORMAT + 1] {
        let refused = check_format(format, &Keys::new("forebay")).expect_err("another format");
        assert!(refused.kind() == ErrorKind::Version && refused.get("hint").is_some(), "{refused}");
    }
    Ok(())
}

async fn write_golden() -> Result<()> {
    let Some(server) = server()? else { return Ok(()) };
    let world = World::new(&server).await?;
    let candidate = world.candidate("a:1");
    let mut store = world.open(&world.elect(&candidate).await?).await?;
    written(store.commit(&every_kind()).await)?;
    written(store.write_state().await)?;
    for batch in [frontier(1), frontier(2)] {
        written(store.commit(&batch).await)?;
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|e| Error::internal(e.to_string()));
    let mut keys = BTreeMap::new();
    for kv in world.etcd.all(b"forebay/").await? {
        keys.insert(text(kv.key)?, text(kv.value)?);
    }
    keys.remove("forebay/leader");
    let rows = text(rows::write(&store.ledger().to_batch())?)?;
    let golden_file = Golden { keys, rows: rows.lines().map(str::to_owned).collect() };
    let json = serde_json::to_string_pretty(&golden_file).map_err(|e| Error::internal(e.to_string()))?;
    std::fs::create_dir_all(golden(NEWEST).with_file_name(""))?;
    Ok(std::fs::write(golden(NEWEST), json + "\n")?)
}

//! Writes batches, so that nothing else waits for the disk: a thread that owns a file, or a task that owns the ledger
//! in etcd. Batches go in, and each comes out once it is durable.
//!
//! While one batch is being written the next one gathers, so the number of grants per second does not depend on the
//! number of flushes that the disk does in a second (group commit). If the store refuses, nothing is acknowledged and
//! nothing is lost: the same batch is tried again until it is written, or until this process no longer leads.

#![expect(clippy::disallowed_methods, reason = "the ledger has a thread of its own, which tries failed writes again")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use forebay_core::{Error, Result};
use tokio::sync::mpsc;

use super::etcd::{EtcdLedger, Refusal};
use super::ledger::LedgerStore;
use crate::leader::term::Term;
use crate::records::Batch;

/// The pause between attempts to write to a disk that refuses.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause for an etcd that does not answer: a term is short.
const PAUSE_ETCD: Duration = Duration::from_millis(100);

/// A batch is durable.
#[derive(Debug)]
pub(crate) struct Done;

/// The writer's handle. At most one batch is under way. Dropping it ends the writer.
pub(crate) struct Committer {
    batches: mpsc::Sender<Batch>,
    done: mpsc::Receiver<Done>,
    /// Attempts to write that failed.
    failures: Arc<AtomicU64>,
}

impl Committer {
    /// Starts a thread that writes to a file.
    ///
    /// # Errors
    /// Exhausted when no thread can be started.
    pub(crate) fn start(state_dir: PathBuf, store: LedgerStore) -> Result<Self> {
        let (batches, inbox) = mpsc::channel(1);
        let (outbox, done) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("forebay-ledger".to_owned());
        let failures = Arc::<AtomicU64>::default();
        let failed = failures.clone();
        thread.spawn(move || run(&state_dir, store, inbox, &outbox, &failed)).map_err(|e| {
            Error::new(forebay_core::ErrorKind::Exhausted, format!("cannot start the ledger's thread: {e}"))
        })?;
        Ok(Self { batches, done, failures })
    }

    /// Starts a task that writes to etcd, and ends `term` when another dispatcher leads.
    pub(crate) fn elected(ledger: EtcdLedger, term: Arc<Term>) -> Self {
        let (batches, inbox) = mpsc::channel(1);
        let (outbox, done) = mpsc::channel(1);
        let failures = Arc::<AtomicU64>::default();
        tokio::spawn(replicate(ledger, term, inbox, outbox, failures.clone()));
        Self { batches, done, failures }
    }

    /// Returns how many attempts to write have failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// Hands a batch over. Call it again only after [`Committer::done`].
    ///
    /// # Errors
    /// Internal when the writer is gone.
    pub(crate) fn send(&self, batch: Batch) -> Result<()> {
        self.batches.try_send(batch).map_err(|_| Error::internal("the ledger's thread is gone"))
    }

    /// Waits until the batch is durable. `None` when the writer is gone.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn done(&mut self) -> Option<Done> {
        self.done.recv().await
    }
}

fn run(
    state_dir: &std::path::Path,
    store: LedgerStore,
    mut inbox: mpsc::Receiver<Batch>,
    outbox: &mpsc::Sender<Done>,
    failures: &AtomicU64,
) {
    let mut store = Some(store);
    while let Some(batch) = inbox.blocking_recv() {
        loop {
            let ledger = match store.take() {
                Some(ledger) => Ok(ledger),
                None => LedgerStore::open(state_dir),
            };
            match ledger.and_then(|mut l| l.commit(&batch).map(|()| l)) {
                Ok(ledger) => {
                    store = Some(ledger);
                    break;
                }
                Err(error) => {
                    failures.fetch_add(1, Relaxed);
                    tracing::error!(%error, "nothing is granted until the ledger can be written");
                }
            }
            // After a failed write the file has to be opened again.
            std::thread::sleep(PAUSE);
            if outbox.is_closed() {
                return;
            }
        }
        if outbox.blocking_send(Done).is_err() {
            return;
        }
    }
}

async fn replicate(
    mut ledger: EtcdLedger,
    term: Arc<Term>,
    mut inbox: mpsc::Receiver<Batch>,
    outbox: mpsc::Sender<Done>,
    failures: Arc<AtomicU64>,
) {
    while let Some(batch) = inbox.recv().await {
        loop {
            match ledger.commit(&batch).await {
                Ok(()) => break,
                Err(Refusal::Deposed(why)) => {
                    tracing::warn!(why, "this dispatcher has lost its term and writes nothing more");
                    return term.end();
                }
                Err(Refusal::Failed(error)) => {
                    failures.fetch_add(1, Relaxed);
                    tracing::error!(%error, "nothing is granted until the ledger can be written");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE_ETCD) => {}
                () = outbox.closed() => return,
            }
        }
        if outbox.send(Done).await.is_err() {
            return;
        }
    }
}

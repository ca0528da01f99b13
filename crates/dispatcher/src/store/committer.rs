//! One thread that writes batches, so that no task ever waits for the disk.
//!
//! While one batch is being written the next gathers, so the number of grants in a second does not depend on how
//! many flushes the disk does in one (group commit). When the disk refuses, nothing is acknowledged and nothing is
//! lost: the same batch is tried again until it is written.

use std::path::PathBuf;
use std::time::Duration;

use forebay_core::{Error, Result};
use tokio::sync::mpsc;

use super::ledger::LedgerStore;
use crate::records::Batch;

/// The pause between attempts to write to a disk that refuses.
const PAUSE: Duration = Duration::from_millis(500);

/// A batch is durable.
#[derive(Debug)]
pub(crate) struct Done;

/// The thread's handle. At most one batch is on its way. Dropping it ends the thread.
pub(crate) struct Committer {
    batches: mpsc::Sender<Batch>,
    done: mpsc::Receiver<Done>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// Exhausted when no thread can be started.
    pub(crate) fn start(state_dir: PathBuf, store: LedgerStore) -> Result<Self> {
        let (batches, inbox) = mpsc::channel(1);
        let (outbox, done) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("forebay-ledger".to_owned());
        thread.spawn(move || run(&state_dir, store, inbox, &outbox)).map_err(|e| {
            Error::new(forebay_core::ErrorKind::Exhausted, format!("cannot start the ledger's thread: {e}"))
        })?;
        Ok(Self { batches, done })
    }

    /// Hands a batch over. Call it again only after [`Committer::done`].
    ///
    /// # Errors
    /// Internal when the thread is gone.
    pub(crate) fn send(&self, batch: Batch) -> Result<()> {
        self.batches.try_send(batch).map_err(|_| Error::internal("the ledger's thread is gone"))
    }

    /// Waits until the batch is durable. `None` when the thread is gone.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn done(&mut self) -> Option<Done> {
        self.done.recv().await
    }
}

fn run(state_dir: &std::path::Path, store: LedgerStore, mut inbox: mpsc::Receiver<Batch>, outbox: &mpsc::Sender<Done>) {
    let mut store = Some(store);
    while let Some(batch) = inbox.blocking_recv() {
        loop {
            let ledger = match store.take() {
                Some(ledger) => Ok(ledger),
                None => LedgerStore::open(state_dir),
            };
            match ledger.and_then(|l| l.commit(&batch).map(|()| l)) {
                Ok(ledger) => {
                    store = Some(ledger);
                    break;
                }
                Err(error) => tracing::error!(%error, "nothing is granted until the ledger can be written"),
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

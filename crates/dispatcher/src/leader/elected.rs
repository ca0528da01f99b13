//! A dispatcher that leads when it is elected, and waits otherwise.
//!
//! Each term begins with the ledger in etcd, as a start begins with the ledger on disk: taking over is restarting.
//! Nothing of a term outlives it: its sessions are ended, and its state is dropped.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::{ErrorKind, Result};
use tokio_util::sync::CancellationToken;

use crate::actor::Ended;
use crate::leader::election::Candidate;
use crate::leader::leadership::Leadership;
use crate::leader::term::Term;
use crate::recovery::Recovery;
use crate::store::{BlobLimits, BlobStore, Committer, Etcd, EtcdBlobs, EtcdLedger, Keys, ServiceId};

/// The most bytes of a blob in etcd, which holds 2 GiB in all by default.
const ETCD_BLOB_BYTES_MAX: u64 = 64 << 20;

/// The parts of a term.
pub(crate) struct Elected {
    pub(crate) etcd: Arc<Etcd>,
    pub(crate) keys: Keys,
    pub(crate) candidate: Candidate,
    /// The folder for this process's own files.
    pub(crate) state_dir: PathBuf,
    /// A folder that all dispatchers share; without one, blobs are in etcd.
    pub(crate) blob_dir: Option<PathBuf>,
    pub(crate) blob_bytes_max: u64,
    pub(crate) blobs: BlobLimits,
    pub(crate) recovery: Recovery,
}

impl Elected {
    /// Waits, leads, and waits again, until `shutdown`.
    ///
    /// # Errors
    /// Version or Data when the ledger cannot be read; errors of the disk; Internal when its writer died.
    pub(crate) async fn run(self, leadership: &Leadership, shutdown: CancellationToken) -> Result<()> {
        loop {
            let term = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                term = self.candidate.campaign(|leader| leadership.follow(leader)) => term,
            };
            let led = self.lead(&term, leadership, &shutdown).await;
            leadership.follow(None);
            self.candidate.resign(&term).await;
            match led {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Deposed) => tracing::warn!("this dispatcher no longer leads"),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(%error, "this dispatcher cannot lead")
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn lead(&self, term: &Arc<Term>, leadership: &Leadership, shutdown: &CancellationToken) -> Result<Ended> {
        tokio::spawn(self.candidate.keep(term.clone()));
        let ledger = EtcdLedger::open(self.etcd.clone(), self.keys.clone(), term.clone()).await?;
        let blobs = self.blobs().await?.limited(self.blobs);
        let read = ledger.ledger().clone();
        let committer = Committer::elected(ledger, term.clone());
        let (actor, leading) = self.recovery.begin(&read, committer, blobs, term.clone())?;
        leadership.lead(leading);
        tracing::info!(
            term = term.revision(),
            jobs = read.jobs.len(),
            leases = read.grants.len(),
            "this dispatcher leads"
        );
        actor.run(shutdown.clone()).await
    }

    async fn blobs(&self) -> Result<BlobStore> {
        match &self.blob_dir {
            Some(dir) => {
                let service = ServiceId::of_etcd(&self.etcd, &self.keys).await?;
                BlobStore::shared(dir, &service, self.blob_bytes_max)
            }
            None => {
                let etcd = EtcdBlobs::new(self.etcd.clone(), self.keys.clone());
                BlobStore::cached(&self.state_dir, self.blob_bytes_max.min(ETCD_BLOB_BYTES_MAX), etcd)
            }
        }
    }
}

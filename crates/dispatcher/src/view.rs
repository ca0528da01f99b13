//! What this process does, in figures, as others of it see it without a call over the network: for metrics.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::indexing::IndexingFigures;
use crate::leader::leadership::Leadership;
use crate::state::StateFigures;

/// Says what a dispatcher does. Cheap to clone. Nobody is asked for a token here.
#[derive(Clone)]
pub struct View {
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) access: Arc<Access>,
}

/// How many workers there are, and should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleFigures {
    /// By all jobs together; `None` while that is not known.
    pub wanted: Option<u32>,
    /// The workers that there are.
    pub workers: u32,
    /// The most that are ever wanted.
    pub workers_max: u32,
    /// Of each kind that can be started: its name, whether it may be taken back, and how many are wanted, if that is known.
    pub kinds: Vec<(String, bool, Option<u32>)>,
}

/// What has become of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerFigures {
    /// Batches that are durable, since this process leads.
    pub writes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Since the last one became durable, or since this process leads.
    pub since_write: Duration,
    /// How long the batch that is being written has taken; nothing where there is none.
    pub pending: Duration,
}

/// What a dispatcher that leads does.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaderFigures {
    /// How many workers there are, and should be.
    pub scale: ScaleFigures,
    /// Jobs, workers, consumers, and what has happened.
    pub state: StateFigures,
    /// What was written down.
    pub ledger: LedgerFigures,
    /// What the functions, arrays and indexes of all jobs take, once that was counted.
    pub blob_bytes: Option<u64>,
}

/// What a dispatcher does.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Calls without a token that is known, since the start.
    pub calls_refused: u64,
    /// `None` while it does not lead.
    pub leader: Option<LeaderFigures>,
    /// The sources that are being indexed.
    pub indexing: IndexingFigures,
}

impl View {
    /// Returns the figures of this moment.
    pub async fn figures(&self) -> Figures {
        let leading = self.leadership.leading().ok();
        let indexing = leading.as_ref().map(|leading| leading.opener.figures()).unwrap_or_default();
        let leader = match leading {
            Some(leading) => {
                let blob_bytes = leading.blobs.bytes();
                leading.actor.figures().await.ok().map(|figures| LeaderFigures { blob_bytes, ..figures })
            }
            None => None,
        };
        Figures { calls_refused: self.access.refused(), leader, indexing }
    }
}

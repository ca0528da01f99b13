//! The figures of a dispatcher, for metrics: its workers, its state, and its ledger.

use std::time::Duration;

use crate::indexing::IndexingFigures;
use crate::state::StateFigures;

/// How many workers there are, and how many are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleFigures {
    /// Wanted by all jobs together; `None` while that is unknown.
    pub wanted: Option<u32>,
    /// Present workers.
    pub workers: u32,
    /// The most workers that are ever wanted.
    pub workers_max: u32,
    /// For each type that can be started: its name, whether it is a spot type, and the wanted number, if that is known.
    pub kinds: Vec<(String, bool, Option<u32>)>,
}

/// Figures of the ledger's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerFigures {
    /// Batches that became durable since this process leads.
    pub writes: u64,
    /// Attempts to write that failed.
    pub failures: u64,
    /// Since the last batch became durable, or since this process leads.
    pub since_write: Duration,
    /// How long the current batch has been written; zero if there is none.
    pub pending: Duration,
}

/// Figures of a dispatcher that leads.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaderFigures {
    /// Workers that are present and wanted.
    pub scale: ScaleFigures,
    /// Jobs, workers, consumers, and counters of events.
    pub state: StateFigures,
    /// The ledger's writes.
    pub ledger: LedgerFigures,
    /// Bytes of the functions, arrays and indexes of all jobs; `None` before they were counted.
    pub blob_bytes: Option<u64>,
}

/// Figures of a dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Calls without a known token since the start.
    pub calls_refused: u64,
    /// `None` while it does not lead.
    pub leader: Option<LeaderFigures>,
    /// The sources that are being indexed.
    pub indexing: IndexingFigures,
}

//! The loans of a world, and the sockets over which consumers return them: the simulation's own account.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Weak;

use forebay_client::simulate::{Borrowed, Borrower};
use forebay_data::Chunk;
use forebay_proto::Return;

/// A worker's process (the worker and its life), and the number that it assigned to a consumer.
pub(crate) type LentTo = (usize, u32, u64);

/// The lent memory of a chunk: the loan, and whether others read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent {
    pub(crate) loan: u64,
    pub(crate) shared: bool,
}

/// A consumer's hold on a loan, for as long as anything refers to it.
pub(crate) struct Guard {
    pub(super) _borrowed: Borrowed,
}

/// One loan.
pub(super) struct Loan {
    pub(super) to: LentTo,
    pub(super) stream: u64,
    pub(super) loan: u64,
    pub(super) block: usize,
    /// Its consumer's hold on it.
    pub(super) guard: Weak<Guard>,
}

/// A socket from a consumer to a worker's process.
#[derive(Default)]
pub(super) struct Socket {
    /// The messages on their way; `None` means that the consumer's process is gone.
    pub(super) words: VecDeque<Option<Return>>,
    pub(super) last: u64,
    /// The open streams of the consumer.
    pub(super) open: BTreeSet<u64>,
}

/// By a worker's process: the consumer's number there, and its account.
pub(super) type Borrowers = BTreeMap<(usize, u32), (u64, Borrower)>;

/// The uses of a block.
#[derive(Default)]
pub(super) struct Block {
    pub(super) written: bool,
    pub(super) loans: usize,
}

/// The simulation's own account.
#[derive(Default)]
pub(crate) struct Lending {
    /// By consumer: its accounts with workers.
    pub(super) borrowers: BTreeMap<usize, Borrowers>,
    pub(super) sockets: BTreeMap<LentTo, Socket>,
    pub(super) loans: BTreeMap<u64, Loan>,
    pub(super) lent: u64,
    pub(super) blocks: HashMap<usize, Block>,
    /// Keeps all memory, so that no two blocks have one address.
    pub(super) kept: Vec<Chunk>,
}

//! A remote place, which is the store or the peers: its known blocks, and the results of its reads.
//!
//! Each lock is taken alone, and none is held during a request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Stopwatch};

use crate::key::PrefixKey;
use crate::lock::lock;
use crate::tiers::TierId;
use crate::tiers::remote::access::Access;
use crate::tiers::remote::blocks::{Elsewhere, RemoteBlocks};
use crate::tiers::remote::cost::Cost;
use crate::tiers::remote::maintenance::Jobs;

/// The time limit of writing a block, or of reading it as a whole.
pub(crate) const BLOCK_WAIT: Duration = Duration::from_secs(60);
/// The time limit of listing objects, or of deleting or touching one.
pub(crate) const LIST_WAIT: Duration = Duration::from_secs(30);

/// How often a prefix is listed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Rarely, and only when rows are missed.
    Seldom,
    /// Soon after rows were missed, until there is no news for a while: others compute the same rows now.
    UntilQuiet,
}

/// The blocks of a prefix in the tier, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The numbers of the blocks whose header was read, used or not, by name.
    pub(super) known: HashMap<String, u32>,
    /// When it was last listed.
    pub(super) looked: Option<u64>,
    /// The least interval until the next listing, if it is longer than the usual one.
    pub(super) rest: u64,
    /// It will be listed again.
    pub(super) is_waited_for: bool,
    /// The number of listings without news since rows were missed.
    pub(super) quiet: u32,
}

/// See the module's documentation.
pub(crate) struct Remote {
    pub(super) id: TierId,
    pub(super) blocks: Arc<dyn RemoteBlocks>,
    pub(super) listing: Listing,
    pub(super) watch: Arc<dyn Stopwatch>,
    pub(super) jobs: Jobs,
    pub(super) reads: Mutex<Access>,
    pub(super) cost: Mutex<Cost>,
    pub(super) views: Mutex<HashMap<PrefixKey, View>>,
    pub(super) next: AtomicU32,
    pub(super) other_format: AtomicU64,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Remote {
    pub(crate) fn new(id: TierId, blocks: Arc<dyn RemoteBlocks>, listing: Listing, watch: Arc<dyn Stopwatch>) -> Self {
        Self {
            id,
            blocks,
            listing,
            watch,
            jobs: Jobs::default(),
            reads: Access::new("read"),
            cost: Mutex::default(),
            views: Mutex::default(),
            next: AtomicU32::new(0),
            other_format: AtomicU64::new(0),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.watch.nanos()
    }

    pub(crate) fn uri(&self) -> &str {
        self.blocks.uri()
    }

    /// Returns why it is not read now.
    pub(crate) fn unread(&self) -> Option<String> {
        lock(&self.reads).why.clone()
    }

    /// Returns the number of blocks that another version wrote.
    pub(crate) fn other_blocks(&self) -> u64 {
        self.other_format.load(Ordering::Relaxed)
    }

    /// Returns the figures of a tier that has `room` bytes of room while it is read.
    pub(crate) fn elsewhere(&self, room: u64) -> Elsewhere {
        let cost = lock(&self.cost).clone();
        let room = if self.is_read() { room } else { 0 };
        Elsewhere { room, request_nanos: cost.request_nanos, byte_nanos: cost.byte_nanos, reads: cost.reads }
    }

    /// Records the results of a read.
    pub(crate) fn note_read<'a>(&self, answers: impl IntoIterator<Item = Option<&'a Error>>) {
        let mut reads = lock(&self.reads);
        let unanswered = |e: &&Error| !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Data);
        match answers.into_iter().flatten().find(unanswered) {
            None => reads.succeeded(),
            Some(e) => reads.failed(self.uri(), e, self.now()),
        }
    }

    /// Says whether moving bytes pays if computing takes `nanos_per_byte` nanoseconds per byte, where that is known.
    pub(crate) fn pays_to_move(&self, nanos_per_byte: Option<f64>) -> bool {
        lock(&self.cost).pays_to_move(nanos_per_byte)
    }

    /// Ends the maintenance thread.
    pub(crate) fn close(&self) {
        self.jobs.close();
    }
}

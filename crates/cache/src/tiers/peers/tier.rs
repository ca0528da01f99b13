//! Peers as a read-only tier: their blocks are listed and read by range, and rows that are about to be computed are
//! requested from them.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_core::Stopwatch;
use forebay_data::Memory;

use crate::key::PrefixKey;
use crate::lock::{deadline, lock};
use crate::rows::answer::Answer;
use crate::rows::claimed::ClaimedRows;
use crate::rows::index::Index;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::{Counters, PrefixStats};
use crate::tiers::TierId;
use crate::tiers::block::Block;
use crate::tiers::block::name::Name;
use crate::tiers::block::read_at::{ReadAt, Trouble};
use crate::tiers::peers::ask_policy::AskPolicy;
use crate::tiers::peers::client::{PeerLookup, Peers};
use crate::tiers::remote::blocks::Elsewhere;
use crate::tiers::remote::cost::patience;
use crate::tiers::remote::maintenance;
use crate::tiers::remote::state::{Listing, Remote};
use crate::tiers::remote::tier::RemoteTier;
use crate::tiers::tier::{BlockTier, Promotion, Tier, TierThread, WantedBlock};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct PeersTier {
    remote: Remote,
    peers: Arc<dyn Peers>,
    ask_policy: Mutex<AskPolicy>,
}

impl PeersTier {
    pub(crate) fn new(peers: Arc<dyn Peers>, watch: Arc<dyn Stopwatch>) -> Self {
        let remote = Remote::new(TierId::Peers, peers.clone(), Listing::UntilQuiet, watch);
        Self { remote, peers, ask_policy: Mutex::default() }
    }

    /// Says whether to request rows that peers do not list, and that take `compute` nanoseconds to compute, if that is
    /// known.
    fn pays_to_ask(&self, compute: Option<f64>) -> bool {
        self.remote.is_read() && lock(&self.ask_policy).pays(compute)
    }

    /// Records the time of a request, and the share of rows that it yielded.
    fn note_request(&self, nanos: u64, share: f64) {
        lock(&self.ask_policy).note(nanos, share);
    }
}

/// Returns the nanoseconds that computing `rows` rows takes, if known.
fn compute_nanos(cache: &CacheState, state: &PrefixState, rows: usize) -> Option<f64> {
    let row_bytes = cache.row_bytes(state)?;
    Some(cache.cost(state)? * row_bytes * rows as f64)
}

impl Tier for PeersTier {
    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.peer_hits
    }

    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats) {
        stats.peer_rows = index.rows_on(TierId::Peers);
    }
}

impl BlockTier for PeersTier {
    fn id(&self) -> TierId {
        TierId::Peers
    }

    fn promotion(&self) -> Promotion {
        Promotion::AsCopies
    }

    fn open_prefix(&self, _: &CacheState, state: &Arc<PrefixState>) {
        self.remote.open(state);
    }

    fn leave_prefix(&self, prefix: PrefixKey) {
        self.remote.leave(prefix);
    }

    fn missed(&self, state: &Arc<PrefixState>) {
        self.remote.missed(state);
    }

    fn ask(
        &self,
        cache: &CacheState,
        state: &PrefixState,
        answer: &mut Answer,
        claimed: &mut ClaimedRows,
        memory: &Memory,
    ) {
        let compute = compute_nanos(cache, state, claimed.rows().len());
        if self.pays_to_ask(compute) {
            let mut lookup = PeerLookup { cache, state, answer, memory };
            let note = |nanos, share| self.note_request(nanos, share);
            lookup.request_rows(&*self.peers, claimed, deadline(patience(compute)), note);
        }
    }

    fn admits_read(&self, cache: &CacheState, state: &PrefixState, blocks: &[WantedBlock]) -> bool {
        self.remote.is_worth_reading(cache, state, blocks)
    }

    fn read(
        &self,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        blocks: &[WantedBlock],
        each: &mut dyn FnMut(Result<&dyn ReadAt, Trouble>),
    ) {
        self.remote.read(cache, state, blocks, each);
    }

    fn give_up(&self, state: &Arc<PrefixState>, _: u32, block: &Block, trouble: &Trouble) {
        self.remote.drop_block(state, &block.name, block.len, trouble);
    }

    fn elsewhere(&self, own: u64) -> Elsewhere {
        // Each peer is assumed to have as much room as this process.
        self.remote.elsewhere(own.saturating_mul(self.peers.caches()))
    }

    fn threads(self: Arc<Self>) -> Vec<TierThread> {
        vec![("forebay-peers", Box::new(move |cache| maintenance::run(cache, &*self)))]
    }

    fn close(&self, _: Instant) {
        self.remote.close();
    }
}

impl RemoteTier for PeersTier {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    fn remove_broken(&self, name: &Name, why: &str) {
        // The peer detects this when it reads the block itself.
        tracing::warn!(block = name.name, why, "a peer's block is broken; its rows are computed again");
    }
}

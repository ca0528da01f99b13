//! The local disk as a tier of rows: it opens the blocks of a prefix, reads rows of them, and publishes blocks.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bytes::Bytes;

use crate::lock::{left, lock, read};
use crate::quota::accounts::{LastHit, Victim};
use crate::rows::index::Index;
use crate::state::CacheState;
use crate::state::blocks::OpenedBlock;
use crate::state::prefix::PrefixState;
use crate::stats::{Counters, DiskStats, PrefixStats, Stats};
use crate::tiers::TierId;
use crate::tiers::block::format::open;
use crate::tiers::block::message::Message;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::read_at::{ReadAt, Trouble};
use crate::tiers::block::writer;
use crate::tiers::block::{Block, BlockRef};
use crate::tiers::disk::tier::DiskTier;
use crate::tiers::tier::{BlockSink, BlockTier, Promotion, Tier, TierThread, WantedBlock};

impl DiskTier {
    /// Reads the headers of the blocks that the index of a prefix does not have.
    fn load(&self, cache: &CacheState, state: &PrefixState) {
        for block in self.blocks(state.key) {
            if read(&state.index).block(TierId::Disk, block.id).is_some() {
                continue;
            }
            let victim = Victim { prefix: state.key, block: block.id };
            if let Err(trouble) = self.load_block(cache, state, block) {
                self.drop_block(victim, &trouble);
            }
        }
        cache.shrink();
    }

    fn load_block(&self, cache: &CacheState, state: &PrefixState, block: BlockRef) -> Result<(), Trouble> {
        let BlockRef { id, name, len, last_hit } = block;
        let (header, layout) = open(&File::open(self.folder().path(&name))?)?;
        cache.take_in(TierId::Disk, state, id, OpenedBlock { header, layout, name, len, last_hit })
    }

    /// Publishes a block in the folder, if there is room.
    fn publish(&self, cache: &CacheState, state: &PrefixState, bytes: &[u8]) -> io::Result<Option<BlockRef>> {
        let len = bytes.len() as u64;
        let own = |prefix| cache.in_use(prefix);
        let (gone, incoming) = self.make_room(state.key, len, cache.uses(), own)?;
        cache.forget_blocks(&gone);
        let Some(incoming) = incoming else { return Ok(None) };
        let published = incoming.publish(state.key, bytes);
        if published.is_err() {
            self.give_back(len);
        }
        let name = published?;
        let last_hit = Arc::<LastHit>::default();
        last_hit.set(cache.passes(state.key));
        let id = self.add(name.clone(), len, last_hit.clone());
        Ok(Some(BlockRef { id, name, len, last_hit }))
    }
}

impl Tier for DiskTier {
    fn wants_rows(&self, cache: &CacheState, state: &PrefixState, bytes: u64, _: Option<f64>) -> bool {
        // The rows are written together with others.
        self.queue.has_room(bytes) && self.wants(state.key, bytes.min(self.block_bytes), cache.uses())
    }

    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.disk_hits
    }

    fn add_stats(&self, stats: &mut Stats) {
        let (corrupt_blocks, other_blocks) = self.troubles();
        let (stopped, left_alone) = (self.stopped(), self.is_left_alone());
        stats.disk = Some(DiskStats { tier: self.stats(), stopped, left_alone, corrupt_blocks, other_blocks });
    }

    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats) {
        stats.disk_rows = index.rows_on(TierId::Disk);
    }
}

impl BlockTier for DiskTier {
    fn id(&self) -> TierId {
        TierId::Disk
    }

    fn is_local(&self) -> bool {
        true
    }

    fn promotion(&self) -> Promotion {
        Promotion::IfFree
    }

    fn open_prefix(&self, cache: &CacheState, state: &Arc<PrefixState>) {
        let _opening = lock(&self.opening);
        match self.refresh() {
            Ok(gone) => cache.forget_blocks(&gone),
            Err(e) => self.stop(&e.to_string()),
        }
        self.load(cache, state);
    }

    fn read(
        &self,
        _: &CacheState,
        _: &Arc<PrefixState>,
        blocks: &[WantedBlock],
        each: &mut dyn FnMut(Result<&dyn ReadAt, Trouble>),
    ) {
        for WantedBlock { block, .. } in blocks {
            match File::open(self.folder().path(&block.name)) {
                Ok(file) => each(Ok(&file)),
                Err(e) => each(Err(e.into())),
            }
        }
    }

    fn give_up(&self, state: &Arc<PrefixState>, id: u32, _: &Block, trouble: &Trouble) {
        self.drop_block(Victim { prefix: state.key, block: id }, trouble);
    }

    fn sink(&self) -> Option<&dyn BlockSink> {
        Some(self)
    }

    fn threads(self: Arc<Self>) -> Vec<TierThread> {
        vec![("forebay-cache", Box::new(move |cache| writer::run(cache, &*self)))]
    }

    fn close(&self, until: Instant) {
        self.queue.close(left(until));
    }
}

impl BlockSink for DiskTier {
    fn queue(&self) -> &Queue<Message> {
        &self.queue
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn is_stopped(&self) -> bool {
        self.is_left_alone()
    }

    fn put(&self, cache: &CacheState, state: &PrefixState, block: &Bytes) -> Option<BlockRef> {
        let published = self.make_again().and_then(|()| self.publish(cache, state, block));
        match published {
            Ok(Some(block)) => {
                self.go_on();
                Some(block)
            }
            Ok(None) => None,
            // Another process holds the folder's lock for too long, or files are being deleted: a later write may
            // succeed.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.folder().root().exists() => None,
            Err(e) => {
                self.stop(&e.to_string());
                None
            }
        }
    }

    fn refused<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.disk_refused
    }
}

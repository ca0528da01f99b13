//! The accounts of the disk: which blocks there are, whose they are, and which go when others need the room.
//!
//! The folder is the truth, and others write to it too: it is looked at again before each block is written, under its lock.
//! Locks: `view`, then `uses`; never an index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use forebay_core::{Error, Result, Stopwatch};

use super::folder::{Contents, Folder, Kind, Locked, Name};
use super::ground::Ground;
use super::pause::Pause;
use super::queue::Queue;
use super::writer::{Message, Sink};
use crate::cache::Disk;
use crate::index::Level;
use crate::lock::lock;
use crate::shared::{Cell, Shared};
use crate::space::{LastHit, Space, Victim};
use crate::value::Uses;
use crate::{PrefixKey, TierStats};

/// Rows are gathered until they make a block of so many bytes, or a sixteenth of the quota where that is less.
pub(crate) const BLOCK_BYTES: u64 = 32 << 20;
/// But at least so many.
pub(crate) const BLOCK_BYTES_MIN: u64 = 4 << 10;

/// How often the room of others is tried, in passes over any prefix.
const PROBE_PASSES: f64 = 0.25;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Tier {
    folder: Folder,
    ground: Ground,
    pub(crate) queue: Queue<Message>,
    pub(crate) block_bytes: u64,
    view: Mutex<View>,
    /// Bytes that had no room when it was opened.
    trimmed: AtomicU64,
    pause: Pause,
    corrupt: AtomicU64,
    other_format: AtomicU64,
}

/// What is in the folder, as far as this process knows.
#[derive(Debug)]
struct View {
    space: Space,
    known: HashMap<Name, Known>,
    names: HashMap<u32, Name>,
    next: u32,
    /// When the folder was last asked whether others still use what is theirs, in passes over any prefix.
    probed: f64,
}

#[derive(Debug)]
struct Known {
    id: u32,
    len: u64,
    last_hit: Arc<LastHit>,
}

/// A block that is to be read, or was just written.
#[derive(Debug, Clone)]
pub(crate) struct Unread {
    pub(crate) id: u32,
    pub(crate) name: Name,
    pub(crate) len: u64,
    /// When it was last asked for a row.
    pub(crate) last_hit: Arc<LastHit>,
}

impl Tier {
    /// Opens the folder. One that cannot be written to is read. `watch` says when a disk that failed is tried again.
    ///
    /// # Errors
    /// What the system says when it cannot be read either.
    pub(crate) fn open(disk: &Disk, watch: Arc<dyn Stopwatch>) -> Result<Self> {
        let at = |e: io::Error| {
            let message = format!("cannot keep rows in {}: {e}", disk.folder.display());
            Error::new(Error::from(e).kind(), message).hint("name a folder that can be written to, or none")
        };
        let (folder, stopped) = match Folder::open(&disk.folder) {
            Ok(folder) => (folder, None),
            Err(e) => (Folder::existing(&disk.folder).map_err(at)?, Some(e.to_string())),
        };
        let space = Space::new(disk.bytes);
        let mut view = View { space, known: HashMap::new(), names: HashMap::new(), next: 0, probed: 0.0 };
        let contents = folder.scan().map_err(at)?;
        view.refresh(&contents);
        let tier = Self {
            ground: Ground::of(&folder).map_err(at)?,
            folder,
            queue: Queue::default(),
            block_bytes: BLOCK_BYTES.min(disk.bytes / 16).max(BLOCK_BYTES_MIN),
            view: Mutex::new(view),
            trimmed: AtomicU64::new(0),
            pause: Pause::new(watch),
            corrupt: AtomicU64::new(0),
            other_format: AtomicU64::new(0),
        };
        match stopped {
            Some(why) => tier.stop(&why),
            None => tier.trim().map_err(at)?,
        }
        Ok(tier)
    }

    /// Drops the oldest blocks of a folder that has more than the quota.
    fn trim(&self) -> io::Result<()> {
        let held = self.folder.lock()?;
        let mut view = lock(&self.view);
        let (held_before, quota) = (view.space.used(), view.space.quota());
        let protected = view.space.prefixes().filter(|&prefix| self.is_used(prefix, &|_| None, &held)).collect();
        view.space.protect(protected);
        for victim in view.space.set_quota(quota, &Uses::default()) {
            view.forget(victim.block).map_or(Ok(()), |name| self.folder.remove(&name))?;
        }
        self.trimmed.store(held_before.saturating_sub(view.space.used()), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the bytes of the blocks that were removed when it was opened.
    pub(crate) fn trimmed(&self) -> u64 {
        self.trimmed.load(Ordering::Relaxed)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Writes nothing for a while, and says why.
    pub(crate) fn stop(&self, why: &str) {
        self.pause.fail(why);
    }

    /// Something was written.
    pub(crate) fn go_on(&self) {
        self.pause.succeed();
    }

    /// Says why nothing is written.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.pause.why()
    }

    /// Says whether nothing is even tried now.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.pause.is_on()
    }

    /// Somebody may have removed the folder, or its disk is not there any more. It is made again where there is a place for it.
    ///
    /// # Errors
    /// What the system says, or that another disk is in the place of its own.
    pub(crate) fn make_again(&self) -> io::Result<()> {
        let gone = |e: io::Error| {
            io::Error::new(e.kind(), format!("the folder {} is gone: {e}", self.folder.root().display()))
        };
        self.ground.make_again(&self.folder).map_err(gone)
    }

    pub(crate) fn stats(&self) -> TierStats {
        let view = lock(&self.view);
        TierStats { bytes: view.space.used(), quota: view.space.quota() }
    }

    /// Returns how many blocks were broken, and how many another version wrote.
    pub(crate) fn troubles(&self) -> (u64, u64) {
        (self.corrupt.load(Ordering::Relaxed), self.other_format.load(Ordering::Relaxed))
    }

    /// Says whether so much of a prefix would be kept now. Where others have the room, some is tried from time to time.
    pub(crate) fn wants(&self, prefix: PrefixKey, bytes: u64, uses: &Mutex<Uses>) -> bool {
        if self.is_left_alone() {
            return false;
        }
        let mut view = lock(&self.view);
        let uses = lock(uses);
        let due = view.space.protects_any() && uses.now() >= view.probed + PROBE_PASSES;
        if due {
            view.probed = uses.now();
        }
        due || view.space.has_room(prefix, bytes, &uses)
    }

    /// As [`Tier::wants`], of rows that would be written with others.
    pub(crate) fn wants_rows(&self, prefix: PrefixKey, bytes: u64, uses: &Mutex<Uses>) -> bool {
        self.queue.has_room(bytes) && self.wants(prefix, bytes.min(self.block_bytes), uses)
    }

    /// Looks at the folder. Returns the blocks that are gone.
    pub(crate) fn refresh(&self) -> io::Result<Vec<Victim>> {
        self.make_again()?;
        let contents = self.folder.scan()?;
        Ok(lock(&self.view).refresh(&contents))
    }

    /// Returns the blocks of a prefix, by number.
    pub(crate) fn blocks(&self, prefix: PrefixKey) -> Vec<Unread> {
        lock(&self.view).list(|name| name.kind == Kind::Rows && name.prefix == prefix)
    }

    /// Returns the files of pages, whatever source they are of, by number.
    pub(crate) fn pages(&self) -> Vec<Unread> {
        lock(&self.view).list(|name| name.kind == Kind::Pages)
    }

    /// Makes room for a block. Returns what is gone, from the folder too; and nothing to write to when there is no room.
    pub(crate) fn make_room(
        &self,
        prefix: PrefixKey,
        bytes: u64,
        uses: &Mutex<Uses>,
        own: impl Fn(PrefixKey) -> Option<Arc<File>>,
    ) -> io::Result<(Vec<Victim>, Option<super::folder::Incoming>)> {
        let lock_held = self.folder.lock()?;
        let contents = self.folder.scan()?;
        let mut view = lock(&self.view);
        let mut gone = view.refresh(&contents);
        let protected = view.space.prefixes().filter(|&prefix| self.is_used(prefix, &own, &lock_held)).collect();
        view.space.protect(protected);
        let wanted = bytes + contents.incoming;
        let (granted, victims) = view.space.reserve(prefix, wanted, &lock(uses));
        for victim in victims {
            let Some(name) = view.forget(victim.block) else { continue };
            self.folder.remove(&name)?;
            gone.push(victim);
        }
        if granted < wanted {
            view.space.give_back(granted);
            return Ok((gone, None));
        }
        view.space.give_back(contents.incoming);
        let incoming = self.folder.begin(bytes, &lock_held);
        if incoming.is_err() {
            view.space.give_back(bytes);
        }
        Ok((gone, Some(incoming?)))
    }

    fn is_used(&self, prefix: PrefixKey, own: &impl Fn(PrefixKey) -> Option<Arc<File>>, held: &Locked) -> bool {
        self.folder.is_used_by_others(prefix, own(prefix).as_deref(), held)
    }

    /// Puts a block into the folder, if there is room.
    fn publish(&self, shared: &Shared, cell: &Cell, bytes: &[u8]) -> io::Result<Option<Unread>> {
        let len = bytes.len() as u64;
        let own = |prefix| shared.in_use(prefix);
        let (gone, incoming) = self.make_room(cell.key, len, shared.uses(), own)?;
        shared.forget_blocks(&gone);
        let Some(incoming) = incoming else { return Ok(None) };
        let published = incoming.publish(cell.key, bytes);
        if published.is_err() {
            self.give_back(len);
        }
        let name = published?;
        let last_hit = Arc::<LastHit>::default();
        last_hit.set(shared.passes(cell.key));
        let id = self.add(name.clone(), len, last_hit.clone());
        Ok(Some(Unread { id, name, len, last_hit }))
    }

    /// Takes a block in that was published, for which room was made.
    pub(crate) fn add(&self, name: Name, bytes: u64, last_hit: Arc<LastHit>) -> u32 {
        let mut view = lock(&self.view);
        // Whoever looked at the folder since has it already.
        if let Some(known) = view.known.get(&name) {
            let id = known.id;
            view.space.give_back(bytes);
            return id;
        }
        view.add(name, bytes, last_hit)
    }

    /// Notes that a file of pages takes less than was reserved for it.
    pub(crate) fn shrink(&self, block: Victim, bytes: u64) {
        lock(&self.view).space.resize(block, bytes);
    }

    /// Returns the room of a block that was not published.
    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.view).space.give_back(bytes);
    }

    /// Forgets a block that cannot be read; a broken one is removed.
    pub(crate) fn drop_block(&self, block: Victim, trouble: &super::Trouble) {
        use super::Trouble;
        match trouble {
            Trouble::Later(_) => return,
            Trouble::OtherFormat(format) => {
                self.other_format.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(format, "a block of another version is left alone");
                return;
            }
            Trouble::Gone | Trouble::Broken(_) => {}
        }
        let name = {
            let mut view = lock(&self.view);
            view.space.drop_block(block);
            view.forget(block.block)
        };
        if let (Some(name), Trouble::Broken(why)) = (name, trouble) {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.path(&name);
            tracing::warn!(block = %path.display(), why, "a broken block is removed; its rows are computed again");
            let _ = self.folder.remove(&name);
        }
    }
}

impl Sink for Tier {
    fn queue(&self) -> &Queue<Message> {
        &self.queue
    }

    fn level(&self) -> Level {
        Level::Disk
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn is_stopped(&self) -> bool {
        self.is_left_alone()
    }

    fn put(&self, shared: &Shared, cell: &Cell, block: &Bytes) -> Option<Unread> {
        let published = self.make_again().and_then(|()| self.publish(shared, cell, block));
        match published {
            Ok(Some(block)) => {
                self.go_on();
                Some(block)
            }
            Ok(None) => None,
            // Whoever has the folder's lock does not move, or somebody cleans up: perhaps another time.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.folder.root().exists() => None,
            Err(e) => {
                self.stop(&e.to_string());
                None
            }
        }
    }
}

impl View {
    /// Takes in what the folder has; returns the blocks that it has no more.
    fn refresh(&mut self, contents: &Contents) -> Vec<Victim> {
        let there: HashSet<&Name> = contents.blocks.iter().map(|(name, _)| name).collect();
        let gone = self.known.iter().filter(|(name, _)| !there.contains(name));
        let gone: Vec<Victim> = gone.map(|(name, k)| Victim { prefix: name.prefix, block: k.id }).collect();
        for victim in &gone {
            self.space.drop_block(*victim);
            self.forget(victim.block);
        }
        for (name, bytes) in &contents.blocks {
            match self.known.get(name) {
                // Blocks never change; a file of pages is cut to its length when it is full.
                Some(known) => self.space.resize(Victim { prefix: name.prefix, block: known.id }, *bytes),
                None => {
                    self.space.take(*bytes);
                    self.add(name.clone(), *bytes, Arc::default());
                }
            }
        }
        gone
    }

    /// Returns the blocks that `is_wanted`, by number.
    fn list(&self, is_wanted: impl Fn(&Name) -> bool) -> Vec<Unread> {
        let wanted = self.known.iter().filter(|(name, _)| is_wanted(name));
        let unread =
            |(n, k): (&Name, &Known)| Unread { id: k.id, name: n.clone(), len: k.len, last_hit: k.last_hit.clone() };
        let mut blocks: Vec<Unread> = wanted.map(unread).collect();
        blocks.sort_by_key(|block| block.id);
        blocks
    }

    fn add(&mut self, name: Name, bytes: u64, last_hit: Arc<LastHit>) -> u32 {
        self.next = (self.next + 1) % u32::MAX;
        let id = self.next;
        self.space.hold(Victim { prefix: name.prefix, block: id }, bytes, last_hit.clone());
        self.names.insert(id, name.clone());
        self.known.insert(name, Known { id, len: bytes, last_hit });
        id
    }

    fn forget(&mut self, id: u32) -> Option<Name> {
        let name = self.names.remove(&id)?;
        self.known.remove(&name);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// A stopwatch that is set by hand, in seconds.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Stopwatch for Hand {
        fn nanos(&self) -> u64 {
            self.0.load(Relaxed) * 1_000_000_000
        }
    }

    #[test]
    fn a_disk_that_failed_is_to_be_counted_on_again_before_anything_was_written() {
        let (folder, hand) = (tempfile::tempdir().expect("a folder"), Arc::new(Hand::default()));
        let disk = Disk { folder: folder.path().to_owned(), bytes: 1 << 20, sources: false };
        let tier = Tier::open(&disk, hand.clone()).expect("opens");
        tier.stop("full");
        assert!(tier.is_left_alone() && !tier.wants(PrefixKey([1; 32]), 1, &Mutex::default()));
        hand.0.store(30, Relaxed);
        assert!(!tier.is_left_alone() && tier.wants(PrefixKey([1; 32]), 1, &Mutex::default()));
        assert_eq!(tier.stopped().as_deref(), Some("full"), "until something was");
    }
}

//! Rows in the store: read by range, many blocks at once; written by one thread, as whole blocks.
//!
//! Reads and writes fail apart from each other, as credentials do: each has its [`Breaker`]. Locks: each by itself, none held
//! while the store is asked.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result, Stopwatch};

use super::account::{Contents, mark_of};
use super::breaker::Breaker;
use super::cost::{Cost, patience};
use super::heads::{Opened, heads};
use super::keeper::{Job, Jobs};
use super::pieces::{Pieces, trouble};
use super::{Part, Store};
use crate::disk::{BLOCK_BYTES, BLOCK_BYTES_MIN, Name, Queue, Sink, Trouble, Unread};
use crate::index::Level;
use crate::lock::lock;
use crate::shared::Cell;
use crate::space::LastHit;
use crate::stats::StoreStats;
use crate::{FORMAT, PrefixKey, TierStats};

/// The most that one request reads or one piece of a block is.
const READ_BYTES_MAX: u64 = 8 << 20;
/// A block that has more bytes, with a row of more than most stores take at once, is not kept there.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// How long a block may take to be written, or read whole.
pub(super) const BLOCK_WAIT: Duration = Duration::from_secs(60);
/// How long the store may take to list what is in it, or to remove or touch an object.
const LIST_WAIT: Duration = Duration::from_secs(30);
/// How long the heads of so many blocks may take that are looked at together.
const HEADS_WAIT: Duration = Duration::from_secs(10);
/// Heads of so many blocks take about as long as a request does, whatever they hold.
const FEW_BLOCKS: usize = 4;
/// How often a prefix is looked at again while rows of it are computed: another process may have stored them.
const LOOK_EVERY: u64 = 10_000_000_000;

/// What is in the store of a prefix, as far as this process knows.
#[derive(Debug, Default)]
struct View {
    /// The blocks that were looked at, of use or not, by name.
    known: HashMap<String, u32>,
    /// When it was looked at last.
    looked: Option<u64>,
}

/// What is found when a prefix is looked at.
pub(super) struct Changes {
    /// Blocks that were not known, and their bytes.
    pub(super) new: Vec<(Name, u64)>,
    /// Blocks that were known and are gone.
    pub(super) gone: Vec<u32>,
}

/// What parts of a block are wanted.
pub(crate) struct Held<'a> {
    pub(crate) name: &'a Name,
    pub(crate) len: u64,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// See the module's documentation.
pub(crate) struct StoreTier {
    pub(super) store: Arc<dyn Store>,
    quota: u64,
    watch: Arc<dyn Stopwatch>,
    pub(crate) queue: Queue,
    pub(crate) block_bytes: u64,
    pub(super) jobs: Jobs,
    reads: Mutex<Way>,
    writes: Mutex<Way>,
    cost: Mutex<Cost>,
    views: Mutex<HashMap<PrefixKey, View>>,
    next: AtomicU32,
    /// The bytes of all blocks, whoever wrote them, once somebody counted.
    used: Mutex<Option<u64>>,
    full: AtomicBool,
    corrupt: AtomicU64,
    other_format: AtomicU64,
}

/// One of the two ways of using the store.
#[derive(Debug)]
struct Way {
    /// What it is called in warnings.
    what: &'static str,
    breaker: Breaker,
    /// Why it is not used now.
    why: Option<String>,
    warned: bool,
}

impl Way {
    fn new(what: &'static str) -> Mutex<Self> {
        Mutex::new(Self { what, breaker: Breaker::default(), why: None, warned: false })
    }

    fn succeeded(&mut self) {
        if self.breaker.succeeded() {
            tracing::info!("the cache's store is {} again", self.what);
        }
        self.why = None;
    }

    fn failed(&mut self, uri: &str, error: &Error, now: u64) {
        let lasting = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Exhausted | ErrorKind::Invalid);
        if self.breaker.failed(now, lasting) {
            self.why = Some(error.to_string());
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    store = uri,
                    "the cache's store is not {} for a while, and tried again later; jobs go on without: {error}",
                    self.what
                );
            }
        }
    }
}

impl std::fmt::Debug for StoreTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreTier").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Reads the name of a block. What has another form, or is of another format, is none.
pub(crate) fn parse_name(name: &str) -> Option<Name> {
    let (format, rest) = name.split_once('/')?;
    let (prefix, file) = rest.split_once('/')?;
    let prefix = PrefixKey::parse(prefix).ok().filter(|_| format == FORMAT.to_string())?;
    let name = file.strip_suffix(".arrow").filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(Name { prefix, name: name.to_owned() })
}

/// Returns the name of a block's object.
pub(crate) fn object_of(name: &Name) -> String {
    format!("{FORMAT}/{}/{}.arrow", name.prefix, name.name)
}

/// Cuts a range into as many as one request each may read.
fn cut(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    (start..end).step_by(READ_BYTES_MAX as usize).map(move |at| at..end.min(at + READ_BYTES_MAX))
}

impl StoreTier {
    pub(crate) fn new(shared: &super::Shared) -> Self {
        Self {
            store: shared.store.clone(),
            quota: shared.bytes,
            watch: shared.watch.clone(),
            queue: Queue::default(),
            block_bytes: BLOCK_BYTES.min(shared.bytes / 16).max(BLOCK_BYTES_MIN),
            jobs: Jobs::default(),
            reads: Way::new("read"),
            writes: Way::new("written to"),
            cost: Mutex::default(),
            views: Mutex::default(),
            next: AtomicU32::new(0),
            used: Mutex::default(),
            full: AtomicBool::new(false),
            corrupt: AtomicU64::new(0),
            other_format: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.watch.nanos()
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let bytes = lock(&self.used).unwrap_or(0);
        StoreStats {
            uri: self.store.uri().to_owned(),
            tier: TierStats { bytes, quota: self.quota },
            unread: lock(&self.reads).why.clone(),
            unwritten: lock(&self.writes).why.clone(),
            full: self.full.load(Ordering::Relaxed),
            corrupt_blocks: self.corrupt.load(Ordering::Relaxed),
            other_blocks: self.other_format.load(Ordering::Relaxed),
        }
    }

    /// Notes what came of reading.
    fn settle<'a>(&self, answers: impl IntoIterator<Item = Option<&'a Error>>) {
        let mut reads = lock(&self.reads);
        let unanswered = |e: &&Error| !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Data);
        match answers.into_iter().flatten().find(unanswered) {
            None => reads.succeeded(),
            Some(e) => reads.failed(self.store.uri(), e, self.now()),
        }
    }

    fn settle_write<T>(&self, done: Result<T>) -> Option<T> {
        let mut writes = lock(&self.writes);
        match done {
            Ok(done) => {
                writes.succeeded();
                Some(done)
            }
            Err(e) => {
                writes.failed(self.store.uri(), &e, self.now());
                None
            }
        }
    }

    // Reading.

    /// Says whether the store is read at all now.
    pub(crate) fn is_read(&self) -> bool {
        !lock(&self.reads).breaker.is_paused(self.now())
    }

    /// Says whether rows are read that `compute` nanoseconds make, if that is known.
    pub(crate) fn pays(&self, bytes: u64, compute: Option<f64>) -> bool {
        lock(&self.cost).pays(bytes, compute)
    }

    /// Returns how many bytes between two rows are read with them.
    pub(crate) fn gap(&self) -> u64 {
        lock(&self.cost).gap()
    }

    /// Reads parts of blocks, all at once. `compute` is what computing the rows takes: what comes too late for that is not
    /// there.
    pub(crate) fn fetch(&self, blocks: &[Held<'_>], compute: Option<f64>) -> Vec<Result<Pieces, Trouble>> {
        self.fetch_within(blocks, patience(compute))
    }

    fn fetch_within(&self, blocks: &[Held<'_>], limit: Duration) -> Vec<Result<Pieces, Trouble>> {
        if !lock(&self.reads).breaker.may_ask(self.now()) {
            let left_alone = || Trouble::Later(std::io::ErrorKind::NotConnected.into());
            return blocks.iter().map(|_| Err(left_alone())).collect();
        }
        let part = |block: &Held<'_>| {
            let name = object_of(block.name);
            block.ranges.iter().flat_map(cut).map(|range| Part { name: name.clone(), range }).collect::<Vec<_>>()
        };
        let parts: Vec<Vec<Part>> = blocks.iter().map(part).collect();
        let began = self.now();
        let read = self.store.read(&parts.concat(), limit);
        let nanos = self.now() - began;
        self.settle(read.iter().map(|read| read.as_ref().err()));
        let bytes = read.iter().flatten().map(|bytes| bytes.len() as u64).sum();
        if bytes > 0 {
            lock(&self.cost).read(bytes, nanos);
        }
        let mut read = read.into_iter();
        let gather = |(block, parts): (&Held<'_>, &Vec<Part>)| {
            let mut pieces = Ok(Pieces::new(block.len));
            for (part, bytes) in parts.iter().zip(read.by_ref()) {
                match (&mut pieces, bytes) {
                    (Ok(pieces), Ok(bytes)) => pieces.add(part.range.start, bytes),
                    (Ok(_), Err(e)) => pieces = Err(trouble(&e)),
                    (Err(_), _) => {}
                }
            }
            pieces
        };
        blocks.iter().zip(&parts).map(gather).collect()
    }

    /// Reads a whole block.
    pub(super) fn whole(&self, name: &Name, len: u64) -> Result<Bytes, Trouble> {
        let all = std::iter::once(0..len).collect();
        let pieces = self.fetch_within(&[Held { name, len, ranges: all }], BLOCK_WAIT).pop();
        let pieces = pieces.unwrap_or_else(|| Err(Trouble::Gone))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| Trouble::Broken("it is too long".to_owned()))?];
        crate::disk::ReadAt::fill(&pieces, &mut bytes, 0)?;
        Ok(bytes.into())
    }

    // Looking.

    /// Says whether a prefix is to be looked at again, and notes that it is.
    pub(super) fn is_due(&self, prefix: PrefixKey) -> bool {
        let now = self.now();
        if lock(&self.reads).breaker.is_paused(now) {
            return false;
        }
        let mut views = lock(&self.views);
        let view = views.entry(prefix).or_default();
        let due = view.looked.is_none_or(|looked| now >= looked + LOOK_EVERY);
        view.looked = if due { Some(now) } else { view.looked };
        due
    }

    /// Lists the blocks of a prefix: those that are not known, and those that are known and gone.
    pub(super) fn look(&self, prefix: PrefixKey) -> Option<Changes> {
        if !lock(&self.reads).breaker.may_ask(self.now()) {
            return None;
        }
        let listed = self.store.list(&format!("{FORMAT}/{prefix}"), LIST_WAIT);
        self.settle([listed.as_ref().err()]);
        let there = Contents::new(listed.ok()?).blocks;
        let mut views = lock(&self.views);
        let known = &mut views.entry(prefix).or_default().known;
        let names: std::collections::HashSet<&String> = there.iter().map(|(name, ..)| &name.name).collect();
        let gone = known.extract_if(|name, _| !names.contains(name)).map(|(_, id)| id).collect();
        let new = there.into_iter().filter(|(name, ..)| !known.contains_key(&name.name));
        Some(Changes { new: new.map(|(name, len, _)| (name, len)).collect(), gone })
    }

    /// Opens blocks that were listed. What they are is for the caller to see; those that may be opened another time are
    /// not known.
    pub(super) fn heads(&self, blocks: &[(Name, u64)]) -> Vec<(u32, Opened)> {
        let objects: Vec<(String, u64)> = blocks.iter().map(|(name, len)| (object_of(name), *len)).collect();
        let began = self.now();
        let opened = heads(&*self.store, &objects, HEADS_WAIT);
        if opened.iter().any(Result::is_ok) && blocks.len() <= FEW_BLOCKS {
            // Two round trips at least.
            lock(&self.cost).read(1, (self.now() - began) / 2);
        }
        let errors: Vec<Error> = opened.iter().filter_map(|opened| unanswered(opened.as_ref().err()?)).collect();
        self.settle(errors.iter().map(Some));
        let number = |((name, _), opened): (&(Name, u64), Opened)| {
            let id = if matches!(opened, Err(Trouble::Later(_) | Trouble::Gone)) { u32::MAX } else { self.know(name) };
            (id, opened)
        };
        blocks.iter().zip(opened).map(number).collect()
    }

    /// Gives a block a number.
    fn know(&self, name: &Name) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) % u32::MAX;
        lock(&self.views).entry(name.prefix).or_default().known.insert(name.name.clone(), id);
        id
    }

    /// Forgets all that is known of a prefix.
    pub(crate) fn leave(&self, prefix: PrefixKey) {
        lock(&self.views).remove(&prefix);
    }

    /// Notes that a block could not be used. One that seems to be broken is looked at as a whole, by another thread.
    pub(crate) fn drop_block(&self, cell: &Arc<Cell>, name: &Name, len: u64, trouble: &Trouble) {
        match trouble {
            Trouble::Later(_) => {}
            Trouble::Gone => {
                if let Some(view) = lock(&self.views).get_mut(&name.prefix) {
                    view.known.remove(&name.name);
                }
            }
            Trouble::OtherFormat(format) => {
                self.other_format.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(format, "a block of another version is left alone");
            }
            Trouble::Broken(_) => {
                self.jobs.push(Job::Inspect { cell: Arc::downgrade(cell), name: name.clone(), len });
            }
        }
    }

    /// Removes a block that is not what was written.
    pub(super) fn remove_broken(&self, name: &Name, why: &str) {
        self.corrupt.fetch_add(1, Ordering::Relaxed);
        let block = format!("{}/{}", self.store.uri(), object_of(name));
        tracing::warn!(block, why, "a broken block is removed; its rows are computed again");
        if lock(&self.writes).breaker.may_ask(self.now()) {
            self.settle_write(self.store.delete(&object_of(name), LIST_WAIT));
        }
    }

    // Writing.

    /// Says whether rows would be written now that `compute` nanoseconds make for each byte, if that is known.
    pub(crate) fn wants(&self, bytes: u64, compute: Option<f64>) -> bool {
        !self.full.load(Ordering::Relaxed)
            && self.is_written()
            && self.queue.has_room(bytes)
            && lock(&self.cost).pays_to_move(compute)
    }

    /// Says whether the store is written to at all now.
    pub(crate) fn is_written(&self) -> bool {
        !lock(&self.writes).breaker.is_paused(self.now())
    }

    /// Sees to it that a block fits, as far as this process can know; says whether it does. Others write meanwhile, so the
    /// quota may be passed by what they write at once.
    fn make_room(&self, prefix: PrefixKey, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).is_some_and(|sum| sum <= self.quota);
        if lock(&self.used).is_some_and(fits) {
            return true;
        }
        let Some(contents) = self.settle_write(self.store.list(&FORMAT.to_string(), LIST_WAIT)) else { return false };
        let contents = Contents::new(contents);
        let (mut used, mut left) = (contents.bytes(), HashMap::<PrefixKey, usize>::new());
        contents.blocks.iter().for_each(|(name, ..)| *left.entry(name.prefix).or_default() += 1);
        for (name, len) in contents.victims(prefix, bytes, self.quota) {
            if self.settle_write(self.store.delete(&object_of(&name), LIST_WAIT)).is_none() {
                break;
            }
            used -= len;
            let blocks = left.entry(name.prefix).or_default();
            *blocks -= 1;
            if *blocks == 0 {
                let _ = self.store.delete(&mark_of(name.prefix), LIST_WAIT);
            }
        }
        *lock(&self.used) = Some(used);
        self.full.store(!fits(used), Ordering::Relaxed);
        fits(used)
    }

    /// Counts what is in the store, if this process writes to it: others do, too.
    pub(super) fn recount(&self) {
        if lock(&self.used).is_none() || !self.is_read() {
            return;
        }
        let listed = self.store.list(&FORMAT.to_string(), LIST_WAIT);
        self.settle([listed.as_ref().err()]);
        if let Ok(listed) = listed {
            *lock(&self.used) = Some(Contents::new(listed).bytes());
            // Whether anybody would make room shows when it is tried.
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Says that a prefix is used; returns whether that was said.
    pub(super) fn mark(&self, prefix: PrefixKey) -> bool {
        if !lock(&self.writes).breaker.may_ask(self.now()) {
            return false;
        }
        self.settle_write(self.store.touch(&mark_of(prefix), LIST_WAIT)).is_some()
    }

    /// Takes no more rows, and waits at most until then for what is to be written.
    pub(crate) fn close(&self, until: Instant) {
        self.jobs.close();
        self.queue.close(until.saturating_duration_since(Instant::now()));
    }
}

impl Sink for StoreTier {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn level(&self) -> Level {
        Level::Store
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn is_stopped(&self) -> bool {
        !self.is_written()
    }

    fn put(&self, shared: &crate::shared::Shared, cell: &Cell, block: &Bytes) -> Option<Unread> {
        let len = block.len() as u64;
        if len > BLOCK_BYTES_MAX || !lock(&self.writes).breaker.may_ask(self.now()) || !self.make_room(cell.key, len) {
            return None;
        }
        let name = Name { prefix: cell.key, name: uuid::Uuid::new_v4().simple().to_string() };
        self.settle_write(self.store.put(&object_of(&name), block.clone(), BLOCK_WAIT))?;
        lock(&self.used).iter_mut().for_each(|used| *used += len);
        let last_hit = Arc::<LastHit>::default();
        last_hit.set(shared.passes(cell));
        Some(Unread { id: self.know(&name), name, len, last_hit })
    }
}

/// Returns what the store said, where it was no answer.
fn unanswered(trouble: &Trouble) -> Option<Error> {
    match trouble {
        Trouble::Later(e) => Some(Error::unavailable(e.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_no_others_do() {
        let name = Name { prefix: PrefixKey([7; 32]), name: "0a1b".to_owned() };
        assert_eq!(parse_name(&object_of(&name)), Some(name.clone()));
        let prefix = name.prefix;
        for other in [
            format!("{FORMAT}/{prefix}/used"),
            format!("{FORMAT}/{prefix}/.arrow"),
            format!("{FORMAT}/{prefix}/a/b.arrow"),
            format!("9/{prefix}/a.arrow"),
            format!("{FORMAT}/no prefix/a.arrow"),
            "a.arrow".to_owned(),
        ] {
            assert_eq!(parse_name(&other), None, "{other}");
        }
    }

    #[test]
    fn a_range_is_cut_into_what_a_request_may_read() {
        let parts: Vec<_> = cut(&(5..2 * READ_BYTES_MAX + 6)).collect();
        assert_eq!(
            parts,
            [
                5..READ_BYTES_MAX + 5,
                READ_BYTES_MAX + 5..2 * READ_BYTES_MAX + 5,
                2 * READ_BYTES_MAX + 5..2 * READ_BYTES_MAX + 6
            ]
        );
        assert_eq!(cut(&(5..5)).count(), 0);
    }
}

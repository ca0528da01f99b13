//! The rules of every tier, memory, disk, peers or store: [`check_tier`] runs the same checks on each.
//!
//! A new tier adds a function that makes a [`Rig`] of it, and one test that calls [`check_tier`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::common::others::{Others, Process};
use crate::common::pail::{Fault, Hand, Pail};
use crate::common::*;
use forebay_cache::{Cache, Counts, Disk, Options, Prefix, PrefixStats, SharedStore, Stats};

const ROWS: u64 = 300;
/// The writer computes this many rows at once.
const MORSEL: usize = 50;
/// Room for all rows.
const LARGE: u64 = 1 << 30;
/// Room for some of the rows, with the parts of a block that are not rows.
const SMALL: u64 = 40 << 10;
/// The longest delay of a lookup by any failure of a tier: the bounds of a read and of opening a prefix are 5 s each.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Returns the bytes that a tier keeps, and the most that it may.
type Room = Box<dyn Fn(&Stats) -> (u64, u64)>;

/// One tier with rows, the processes around it, and the means to damage it.
struct Rig {
    /// The process that offers rows.
    writer: Arc<Cache>,
    /// Makes a process that finds the offered rows in this tier, and nowhere else. Only its own process finds rows in
    /// memory.
    reader: Box<dyn Fn() -> Arc<Cache>>,
    /// Flips bits of the stored bytes; `None` where a test cannot reach them.
    damage: Option<Box<dyn Fn()>>,
    /// Makes the place of the tier fail from now on, in each of its ways; empty where it has no place of its own.
    failures: Vec<Box<dyn Fn()>>,
    /// Rows that a process found in the tier.
    hits: fn(&Counts) -> u64,
    /// Rows that were computed and refused by the tier, or evicted from it.
    turned_away: fn(&Counts) -> u64,
    /// Rows of a prefix that the tier has, as its writer knows.
    rows: fn(&PrefixStats) -> u64,
    /// The bytes of the tier in use, and its quota.
    room: Room,
}

fn all() -> Vec<u64> {
    (0..ROWS).collect()
}

/// The number of rows that no filter removes.
fn kept() -> u64 {
    all().into_iter().filter(|&row| !is_without(row)).count() as u64
}

fn prefix(cache: &Arc<Cache>) -> Arc<Prefix> {
    cache.prefix(prefix_key(1), &schema(), ROWS, "a tier under test")
}

fn counts(cache: &Cache) -> Counts {
    cache.stats().prefixes[0].counts
}

impl Rig {
    /// Offers all rows to the tier.
    fn offer(&self) {
        let prefix = prefix(&self.writer);
        all().chunks(MORSEL).for_each(|rows| _ = ask(&prefix, rows));
        assert!(self.writer.flush(LIMIT), "the tier takes rows, or refuses them, in a bounded time");
    }
}

/// Runs all checks on a tier. `make` makes a new one with room for about the given bytes.
fn check_tier(make: impl Fn(u64) -> Rig) {
    offered_rows_are_found(&make(LARGE));
    an_absent_row_is_absent(&make(LARGE));
    threads_offer_and_look_up_the_same_rows(&make(LARGE));
    the_quota_holds_and_the_counts_add_up(&make(SMALL));
    damage_is_a_miss(&make(LARGE));
    for failure in 0..make(LARGE).failures.len() {
        a_failing_place_is_a_miss(&make(LARGE), failure);
    }
}

/// `ask` compares the bytes.
fn offered_rows_are_found(rig: &Rig) {
    rig.offer();
    let reader = (rig.reader)();
    let backwards: Vec<u64> = all().into_iter().rev().collect();
    assert_eq!(ask(&prefix(&reader), &backwards), [0; 0], "every row is there");
    let counts = counts(&reader);
    assert_eq!((rig.hits)(&counts), kept(), "and in this tier: {counts:?}");
}

fn an_absent_row_is_absent(rig: &Rig) {
    let prefix_of_writer = prefix(&rig.writer);
    assert_eq!(ask(&prefix_of_writer, &[0, 1, 2]), [0, 1, 2], "nothing was offered yet");
    assert!(rig.writer.flush(LIMIT));
    let reader = (rig.reader)();
    let computed = ask(&prefix(&reader), &[1, 2, 200, 201]);
    assert!(computed.ends_with(&[200, 201]) && !computed.contains(&1), "{computed:?}");
    let other = reader.prefix(prefix_key(2), &schema(), ROWS, "another prefix");
    assert_eq!(ask(&other, &[1, 2]), [1, 2], "a row of another prefix");
}

fn threads_offer_and_look_up_the_same_rows(rig: &Rig) {
    let reader = (rig.reader)();
    let (of_writer, of_reader) = (prefix(&rig.writer), prefix(&reader));
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let of = if thread % 2 == 0 { of_writer.clone() } else { of_reader.clone() };
            let (writer, of_rows) = (&rig.writer, move |n: u64| (thread * 37 + n * 11) % ROWS);
            scope.spawn(move || {
                for morsel in 0..12 {
                    let rows: Vec<u64> = (0..40).map(|n| of_rows(morsel * 40 + n)).collect();
                    ask(&of, &rows);
                    assert!(morsel % 4 != 3 || writer.flush(LIMIT));
                }
            });
        }
    });
    assert_eq!(counts(&rig.writer).unfit + counts(&reader).unfit, 0);
}

fn the_quota_holds_and_the_counts_add_up(rig: &Rig) {
    for _ in 0..3 {
        rig.offer();
        let stats = rig.writer.stats();
        let (used, quota) = (rig.room)(&stats);
        assert!(used <= quota && quota <= SMALL, "{used} bytes of {quota}");
        assert!((rig.rows)(&stats.prefixes[0]) < kept(), "not all rows fit");
    }
    let counts = counts(&rig.writer);
    assert!((rig.turned_away)(&counts) > 0, "{counts:?}");
    let found = counts.memory_hits + counts.disk_hits + counts.peer_hits + counts.store_hits;
    let requested = 3 * ROWS;
    assert_eq!(found + counts.filtered_out_hits + counts.shared + counts.misses, requested, "{counts:?}");
    let reader = (rig.reader)();
    let computed = ask(&prefix(&reader), &all()).len() as u64;
    assert!(computed < ROWS, "some were kept");
}

fn damage_is_a_miss(rig: &Rig) {
    let Some(damage) = &rig.damage else { return };
    rig.offer();
    let known_before = (rig.reader)();
    let of_known = prefix(&known_before);
    damage();
    // Also if the headers of blocks were read before the damage. `ask` checks the rows.
    assert!(!ask(&of_known, &all()).is_empty(), "damaged rows are computed");
    assert!(!ask(&prefix(&(rig.reader)()), &all()).is_empty(), "damaged rows are computed");
}

fn a_failing_place_is_a_miss(rig: &Rig, failure: usize) {
    rig.offer();
    let known_before = (rig.reader)();
    let of_known = prefix(&known_before);
    rig.failures[failure]();
    let began = Instant::now();
    ask(&of_known, &all());
    let new = (rig.reader)();
    ask(&prefix(&new), &all());
    rig.offer();
    assert!(began.elapsed() < WAIT_MAX, "{:?}", began.elapsed());
}

fn cache(memory: u64, disk: Option<Disk>, store: Option<SharedStore>) -> Arc<Cache> {
    Cache::open(&Options { memory, disk, store }).expect("opens")
}

fn memory(bytes: u64) -> Rig {
    let writer = cache(bytes, None, None);
    let same = writer.clone();
    Rig {
        writer,
        reader: Box::new(move || same.clone()),
        damage: None,
        failures: Vec::new(),
        hits: |counts| counts.memory_hits,
        turned_away: |counts| counts.memory_refused + counts.memory_evicted,
        rows: |prefix| prefix.memory_rows,
        room: Box::new(|stats| (stats.memory.bytes, stats.memory.quota)),
    }
}

/// Flips bits of all blocks in a folder.
fn damage_blocks(folder: &std::path::Path) {
    for (path, _) in blocks(folder) {
        let mut bytes = std::fs::read(&path).expect("read");
        bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 4);
        std::fs::write(&path, bytes).expect("written");
    }
}

fn disk(bytes: u64) -> Rig {
    let folder = Arc::new(folder());
    let open = {
        let folder = folder.clone();
        move || cache(0, Some(Disk { folder: folder.path().to_owned(), bytes, sources: false }), None)
    };
    let [to_damage, to_remove] = [0, 1].map(|_| folder.clone());
    Rig {
        writer: open(),
        reader: Box::new(open),
        damage: Some(Box::new(move || damage_blocks(to_damage.path()))),
        failures: vec![Box::new(move || std::fs::remove_dir_all(to_remove.path()).expect("removed"))],
        hits: |counts| counts.disk_hits,
        turned_away: |counts| counts.disk_refused + counts.disk_evicted,
        rows: |prefix| prefix.disk_rows,
        room: Box::new(|stats| stats.disk.as_ref().map_or((0, 0), |disk| (disk.tier.bytes, disk.tier.quota))),
    }
}

/// The peer is the writer, and keeps rows in memory.
fn peers(bytes: u64) -> Rig {
    let (writer, others) = (Process::in_memory(bytes), Arc::<Others>::default());
    others.exports.lock().expect("not poisoned").extend(writer.cache.exports());
    let [of_readers, to_damage, to_leave] = [0, 1, 2].map(|_| others.clone());
    Rig {
        writer: writer.cache.clone(),
        reader: Box::new(move || {
            let reader = cache(0, None, None);
            reader.meet(of_readers.clone(), Arc::new(Hand::default())).expect("a thread");
            reader
        }),
        damage: Some(Box::new(move || to_damage.damages.store(true, Relaxed))),
        failures: vec![Box::new(move || to_leave.is_away.store(true, Relaxed))],
        hits: |counts| counts.peer_hits,
        turned_away: |counts| counts.memory_refused + counts.memory_evicted,
        rows: |prefix| prefix.memory_rows,
        room: Box::new(|stats| (stats.memory.bytes, stats.memory.quota)),
    }
}

fn store(bytes: u64) -> Rig {
    let pail = Arc::<Pail>::default();
    let open = {
        let pail = pail.clone();
        move || cache(0, None, Some(SharedStore { store: pail.clone(), bytes, watch: Arc::new(Hand::default()) }))
    };
    let damaged = pail.clone();
    let fail = |fault: Fault| -> Box<dyn Fn()> {
        let pail = pail.clone();
        Box::new(move || pail.fail(Some(fault)))
    };
    Rig {
        writer: open(),
        reader: Box::new(open),
        damage: Some(Box::new(move || {
            damaged.damage(|bytes| bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 4));
        })),
        failures: vec![fail(Fault::Away), fail(Fault::Late), fail(Fault::Slow), fail(Fault::ReadOnly)],
        hits: |counts| counts.store_hits,
        turned_away: |counts| counts.store_refused + counts.store_evicted,
        rows: |prefix| prefix.store_rows,
        room: Box::new(|stats| stats.store.as_ref().map_or((0, 0), |store| (store.tier.bytes, store.tier.quota))),
    }
}

#[test]
fn memory_is_a_tier() {
    check_tier(memory);
}

#[test]
fn the_disk_is_a_tier() {
    check_tier(disk);
}

#[test]
fn peers_are_a_tier() {
    check_tier(peers);
}

#[test]
fn the_store_is_a_tier() {
    check_tier(store);
}

//! The store that machines share: others find its blocks; it is damaged, away, full, read-only, or changes while it is
//! read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::pail::{Fault, Hand, Pail};
use crate::common::*;
use forebay_cache::{Cache, CacheLocation, Counts, Disk, Options, Prefix, SharedStore, StoreStats};

const ROWS: u64 = 300;
/// Longer than any pause, and than the interval of listings.
const LONG: Duration = Duration::from_secs(400);

/// A process: its cache, and its clock.
struct Process {
    cache: Arc<Cache>,
    hand: Hand,
}

impl Process {
    fn new(pail: &Arc<Pail>, memory: u64, disk: Option<Disk>, bytes: u64) -> Self {
        let hand = Hand::default();
        let store = SharedStore { store: pail.clone(), bytes, watch: Arc::new(hand.clone()) };
        let cache = Cache::open(&Options { memory, disk, store: Some(store) }).expect("opens");
        Self { cache, hand }
    }

    /// A process that has only the store.
    fn bare(pail: &Arc<Pail>) -> Self {
        Self::new(pail, 0, None, 1 << 30)
    }

    fn prefix(&self, n: u8) -> Arc<Prefix> {
        self.cache.prefix(prefix_key(n), &schema(), ROWS, "test of the store")
    }

    fn counts(&self) -> Counts {
        self.cache.stats().prefixes[0].counts
    }

    fn store(&self) -> StoreStats {
        self.cache.stats().store.expect("a store")
    }
}

fn all() -> Vec<u64> {
    (0..ROWS).collect()
}

/// A store that has all rows of a prefix.
fn stored() -> Arc<Pail> {
    let pail = Arc::<Pail>::default();
    let first = Process::bare(&pail);
    for rows in all().chunks(50) {
        assert_eq!(ask(&first.prefix(1), rows), rows);
    }
    assert!(first.cache.flush(LIMIT));
    assert!(!pail.blocks().is_empty());
    pail
}

/// Waits for the work of another thread.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn another_machine_computes_nothing_of_what_is_there() {
    let pail = stored();
    let second = Process::bare(&pail);
    let backwards: Vec<u64> = all().into_iter().rev().collect();
    assert_eq!(ask(&second.prefix(1), &backwards), [0; 0]);
    let without = all().into_iter().filter(|&row| is_without(row)).count() as u64;
    assert_eq!((second.counts().store_hits, second.counts().filtered_out_hits), (ROWS - without, without));
    assert_eq!(ask(&second.prefix(2), &[1, 2]), [1, 2], "another prefix");

    let with_memory = Process::new(&pail, 1 << 20, None, 1 << 30);
    assert_eq!(ask(&with_memory.prefix(1), &all()), [0; 0]);
    let reads = pail.reads.load(Relaxed);
    assert_eq!(ask(&with_memory.prefix(1), &backwards), [0; 0]);
    assert_eq!(pail.reads.load(Relaxed), reads, "read once, then in memory");
}

#[test]
fn rows_of_many_blocks_come_in_one_read_and_no_more_ranges_than_blocks() {
    let pail = stored();
    let second = Process::bare(&pail);
    let prefix = second.prefix(1);
    let blocks = pail.blocks().len() as u64;
    let (reads, ranges) = (pail.reads.load(Relaxed), pail.ranges.load(Relaxed));
    assert_eq!(ask(&prefix, &[299, 7, 100, 8, 250]), [0; 0]);
    assert_eq!(pail.reads.load(Relaxed) - reads, 1);
    assert!(pail.ranges.load(Relaxed) - ranges <= blocks.min(5), "small blocks: what is between rows is read, too");
}

#[test]
fn what_another_stores_while_one_runs_is_found_without_asking_all_the_time() {
    let pail = Arc::<Pail>::default();
    let [writer, reader] = [0, 1].map(|_| Process::bare(&pail));
    let of_reader = reader.prefix(1);
    ask(&writer.prefix(1), &all()[..100]);
    assert!(writer.cache.flush(LIMIT));
    let asked = pail.asked.load(Relaxed);
    assert_eq!(ask(&of_reader, &[0, 1]), [0, 1], "it was looked at a moment ago");
    assert_eq!(pail.asked.load(Relaxed), asked);
    reader.hand.pass(LONG);
    ask(&of_reader, &[150]);
    until("it is looked at again", || reader.cache.stats().prefixes[0].store_rows > 50);
    assert_eq!(ask(&of_reader, &all()[..100]), [0; 0]);
}

#[test]
fn two_that_write_at_once_keep_every_row_and_each_other_s() {
    let pail = Arc::<Pail>::default();
    std::thread::scope(|scope| {
        for n in 0..2 {
            let pail = &pail;
            scope.spawn(move || {
                let process = Process::bare(pail);
                let prefix = process.prefix(1);
                all().chunks(30).skip(n).step_by(2).for_each(|rows| _ = ask(&prefix, rows));
                assert!(process.cache.flush(LIMIT));
            });
        }
    });
    assert_eq!(ask(&Process::bare(&pail).prefix(1), &all()), [0; 0]);
}

#[test]
fn a_block_that_is_asked_often_comes_to_the_local_disk_as_it_is() {
    let (pail, folder) = (stored(), folder());
    let disk = Disk { folder: folder.path().to_owned(), bytes: 1 << 30, sources: true };
    let second = Process::new(&pail, 0, Some(disk.clone()), 1 << 30);
    let prefix = second.prefix(1);
    let without = all().into_iter().filter(|&row| is_without(row)).count() as u64;
    until("it is copied", || {
        assert_eq!(ask(&prefix, &all()), [0; 0]);
        second.counts().brought == ROWS - without
    });
    pail.fail(Some(Fault::Away));
    assert_eq!(ask(&prefix, &all()), [0; 0], "the store is not asked any more");
    drop((prefix, second));
    let next = Cache::open(&Options { memory: 0, disk: Some(disk), store: None }).expect("opens");
    let there = ask(&next.prefix(prefix_key(1), &schema(), ROWS, ""), &all());
    assert!(
        there.iter().all(|&row| is_without(row)),
        "the rows are on disk; what filters removed was known from the store"
    );
}

fn damage(way: usize, bytes: &mut Vec<u8>) {
    match way {
        0 => bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 4),
        1 => bytes.truncate(bytes.len() / 2),
        2 => bytes.clear(),
        3 => bytes.fill(0),
        // The middle has rows.
        _ => {
            let at = bytes.len() / 3;
            bytes[at..at + 200].iter_mut().for_each(|byte| *byte ^= 1);
        }
    }
}

#[test]
fn broken_blocks_are_computed_again_removed_and_stored_again() {
    for way in 0..4 {
        for before in [true, false] {
            let pail = stored();
            let broken = pail.blocks();
            let second = Process::bare(&pail);
            if before {
                pail.damage(|bytes| damage(way, bytes));
            }
            let prefix = second.prefix(1);
            if !before {
                pail.damage(|bytes| damage(way, bytes));
            }
            let computed = ask(&prefix, &all());
            assert!(!computed.is_empty(), "{way} {before}");
            until("one is removed", || broken.iter().any(|(name, _)| !pail.names().contains(name)));
            assert!(second.store().corrupt_blocks > 0);
            assert!(second.cache.flush(LIMIT));
            second.hand.pass(LONG);
            assert_eq!(ask(&prefix, &computed), [0; 0], "and found again: {way} {before}");
        }
    }
}

#[test]
fn what_only_came_over_wrongly_is_computed_and_not_removed() {
    let pail = stored();
    let second = Process::bare(&pail);
    let (prefix, before) = (second.prefix(1), pail.blocks());
    let reads = pail.reads.load(Relaxed);
    pail.fail(Some(Fault::Noise));
    assert!(!ask(&prefix, &all()).is_empty());
    assert!(second.counts().unreadable > 0);
    until("what seemed to be broken is read once more", || pail.reads.load(Relaxed) > reads + 1);
    drop((prefix, second));
    assert!(before.iter().all(|block| pail.blocks().contains(block)));
    assert_eq!(ask(&Process::bare(&pail).prefix(1), &all()), [0; 0]);
}

#[test]
fn blocks_that_are_removed_under_a_reader_are_a_miss() {
    let pail = stored();
    let second = Process::bare(&pail);
    let prefix = second.prefix(1);
    assert_eq!(ask(&prefix, &all()[..50]), [0; 0]);
    pail.remove_all();
    assert!(!ask(&prefix, &all()).is_empty());
    assert_eq!(second.store().corrupt_blocks, 0);
    assert!(second.cache.flush(LIMIT));
    let third = Process::bare(&pail);
    let again = ask(&third.prefix(1), &all());
    assert!(again.iter().all(|&row| is_without(row)), "stored again, but for what is known anyhow: {again:?}");
}

#[test]
fn a_store_that_is_away_is_left_alone_and_found_again() {
    let pail = stored();
    let second = Process::bare(&pail);
    let prefix = second.prefix(1);
    // Computed rows are in memory until they are stored, so this requests others each time.
    let mut rows = all().into_iter().filter(|&row| !is_without(row));
    for fault in [Fault::Away, Fault::Late] {
        pail.fail(Some(fault));
        // A listing that succeeded before may be counted late.
        until("it is left alone", || {
            let row = rows.next().expect("there are rows");
            assert_eq!(ask(&prefix, &[row]), [row]);
            second.store().unread.is_some_and(|why| why.contains("the pail is"))
        });
        let reads = pail.reads.load(Relaxed);
        for row in rows.by_ref().take(20) {
            assert_eq!(ask(&prefix, &[row]), [row]);
        }
        assert_eq!(pail.reads.load(Relaxed), reads, "no process asks it for a while");
        assert!(second.counts().late > 0);
        pail.fail(None);
        second.hand.pass(LONG);
        until("it is read again", || {
            assert!(second.cache.flush(LIMIT));
            ask(&prefix, &all()[..20]).is_empty()
        });
        assert_eq!(second.store().unread, None);
    }
}

#[test]
fn a_store_that_is_away_when_a_pipeline_begins_is_found_while_it_runs() {
    let pail = stored();
    pail.fail(Some(Fault::Away));
    let second = Process::bare(&pail);
    let prefix = second.prefix(1);
    assert_eq!(ask(&prefix, &[5, 6]), [5, 6]);
    pail.fail(None);
    until("it is found", || {
        second.hand.pass(LONG);
        ask(&prefix, &all()[..9]).is_empty()
    });
}

#[test]
fn a_store_that_may_not_be_written_to_is_read() {
    let pail = stored();
    pail.fail(Some(Fault::ReadOnly));
    let second = Process::bare(&pail);
    assert_eq!(ask(&second.prefix(1), &all()), [0; 0]);
    let other = second.prefix(2);
    assert_eq!(ask(&other, &all()), all());
    assert!(second.cache.flush(LIMIT));
    until("it is said", || second.store().unwritten.is_some_and(|why| why.contains("not yours")));
    assert!(second.store().unread.is_none());
    assert_eq!(ask(&second.prefix(1), &all()), [0; 0]);
}

#[test]
fn rows_that_cost_less_to_compute_than_to_read_are_computed() {
    let pail = stored();
    let second = Process::bare(&pail);
    let prefix = second.prefix(1);
    assert_eq!(ask(&prefix, &all()[..50]), [0; 0]);
    // The clock advances while it reads, like for a very distant store. The rows take a microsecond each.
    pail.take_time(second.hand.clone(), Duration::from_millis(1300));
    let store = SharedStore { store: pail.clone(), bytes: 1 << 30, watch: Arc::new(second.hand.clone()) };
    let far = Cache::open(&Options { memory: 0, disk: None, store: Some(store) }).expect("opens");
    let prefix = far.prefix(prefix_key(1), &schema(), ROWS, "");
    // A few reads measure the cost. Computed rows are in memory until a thread stores them, so the number of lookups
    // that reach the store varies.
    until("most rows that reach the store are computed", || {
        ask(&prefix, &all());
        let counts = far.stats().prefixes[0].counts;
        counts.cheaper > counts.store_hits * 5
    });
}

#[test]
fn a_full_store_drops_unused_prefixes_and_keeps_the_used_ones() {
    let pail = stored();
    let bytes: u64 = pail.blocks().iter().map(|(_, bytes)| bytes).sum();
    let quota = bytes + bytes / 4;
    let process = || Process::new(&pail, 0, None, quota);
    let of_first = |name: &String| name.contains(&prefix_key(1).to_string());

    // The first prefix was used a moment ago: the second gets the remaining room.
    let second = process();
    let prefix = second.prefix(2);
    pail.until("it is said that it is used", |now| now.keys().any(|name| name == &format!("1/{}/used", prefix_key(2))));
    let first = pail.blocks().iter().filter(|(name, _)| of_first(name)).count();
    for rows in all().chunks(50) {
        ask(&prefix, rows);
        assert!(second.cache.flush(LIMIT));
    }
    assert_eq!(
        pail.blocks().iter().filter(|(name, _)| of_first(name)).count(),
        first,
        "no process took a prefix in use"
    );
    assert!(pail.blocks().iter().map(|(_, bytes)| bytes).sum::<u64>() <= quota);
    drop((prefix, second));

    // A day later no process uses it.
    pail.pass(Duration::from_secs(86_400));
    let third = process();
    let prefix = third.prefix(2);
    pail.until("it is used", |now| {
        now.iter().any(|(name, (_, at))| name.ends_with("used") && *at > std::time::UNIX_EPOCH)
    });
    for rows in all().chunks(50) {
        ask(&prefix, rows);
        assert!(third.cache.flush(LIMIT));
    }
    assert!(pail.blocks().iter().filter(|(name, _)| of_first(name)).count() < first, "it made room");
    assert!(pail.blocks().iter().map(|(_, bytes)| bytes).sum::<u64>() <= quota);
    assert_eq!(third.counts().unfit, 0);
}

#[test]
fn blocks_of_another_version_are_left_alone() {
    let pail = stored();
    // The only text "1" is its format.
    pail.damage(|bytes| {
        let text = [1, 0, 0, 0, b'1', 0, 0, 0];
        let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == text).collect();
        places.iter().for_each(|at| bytes[at + 4] = b'9');
    });
    let before = pail.blocks();
    let second = Process::bare(&pail);
    second.prefix(1);
    let stats = second.store();
    assert_eq!((stats.corrupt_blocks, stats.other_blocks), (0, before.len() as u64));
    assert_eq!(pail.blocks(), before);
}

#[test]
fn the_command_line_sees_what_is_there() {
    let pail = stored();
    let kept = CacheLocation::Store(pail.clone());
    let listed = list(&kept);
    let [one] = &listed[..] else { panic!("{listed:?}") };
    let without = all().into_iter().filter(|&row| is_without(row)).count() as u64;
    assert_eq!(
        (one.key, &*one.what, one.rows, one.filtered_out),
        (prefix_key(1), "test of the store", ROWS - without, without)
    );
    assert_eq!((one.in_use, one.bytes), (Some(false), pail.blocks().iter().map(|(_, bytes)| bytes).sum()));
    let verified = verify(&kept);
    assert_eq!((verified.blocks, verified.rows, &verified.bad[..]), (one.blocks, ROWS, &[][..]));
    pail.damage(|bytes| damage(4, bytes));
    let verified = verify(&kept);
    assert!(!verified.bad.is_empty() && verified.bad.iter().all(|bad| bad.block.starts_with("pail://here/1/")));
    assert_eq!(forebay_cache::evict(&kept, Some(prefix_key(2))).expect("evicted"), 0);
    assert_eq!(forebay_cache::evict(&kept, Some(prefix_key(1))).expect("evicted"), one.bytes);
    assert_eq!(pail.names(), [""; 0]);
}

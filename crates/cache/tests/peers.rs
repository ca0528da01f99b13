//! Peers: what one process has on its disk or in memory, others read, before they ask a store or compute; whatever becomes of it
//! meanwhile.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use arrow_array::LargeBinaryArray;
use bytes::Bytes;
use common::pail::{Fault, Hand, Pail};
use common::*;
use forebay_cache::{
    Answers, Asked, Cache, Computed, Counts, Disk, Lent, Object, Options, PART_BYTES_MAX, Part, Peers, Prefix,
    SharedStore, Store,
};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Kind, Memory, Schema};

const ROWS: u64 = 300;
/// Longer than peers are left unasked.
const LONG: Duration = Duration::from_secs(3);

/// What other processes show, without the network between them.
#[derive(Debug, Default)]
struct Others {
    lent: Mutex<Vec<Lent>>,
    is_away: AtomicBool,
    /// Bytes of each answer are others.
    damages: AtomicBool,
    /// They give what they do not show yet.
    gives: AtomicBool,
    /// Who asks for that waits here first.
    gate: Mutex<Option<Arc<Barrier>>>,
    /// They do not answer.
    is_deaf: AtomicBool,
    /// What a question takes, in nanoseconds.
    takes: AtomicU64,
    asked: AtomicU64,
    reads: AtomicU64,
}

impl Others {
    fn are(&self) -> Vec<Lent> {
        if self.is_away.load(Relaxed) { Vec::new() } else { self.lent.lock().expect("not poisoned").clone() }
    }
}

impl Store for Others {
    fn uri(&self) -> &str {
        "peers"
    }

    fn list(&self, below: &str, _: Duration) -> Result<Vec<Object>> {
        if self.damages.load(Relaxed) && self.gives.load(Relaxed) {
            return Ok(Vec::new());
        }
        let prefix = below.rsplit('/').next().and_then(|prefix| forebay_cache::PrefixKey::parse(prefix).ok());
        let prefix = prefix.expect("peers are asked for a prefix");
        Ok(self.are().iter().flat_map(|lent| lent.blocks(prefix)).collect())
    }

    fn read(&self, parts: &[Part], _: Duration) -> Vec<Result<Bytes>> {
        self.reads.fetch_add(1, Relaxed);
        let gone = || Err(Error::new(ErrorKind::NotFound, "nobody has it"));
        let read = |part: &Part| self.are().iter().map(|lent| lent.read(part)).find(Result::is_ok).unwrap_or_else(gone);
        let damaged = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            bytes.iter_mut().step_by(50).for_each(|byte| *byte ^= 1);
            Bytes::from(bytes)
        };
        let damages = self.damages.load(Relaxed);
        parts.iter().map(|part| read(part).map(|bytes| if damages { damaged(bytes) } else { bytes })).collect()
    }

    fn put(&self, name: &str, _: Bytes, _: Duration) -> Result<()> {
        panic!("{name} is written to a peer");
    }

    fn touch(&self, name: &str, _: Duration) -> Result<()> {
        panic!("{name} is touched at a peer");
    }

    fn delete(&self, name: &str, _: Duration) -> Result<()> {
        panic!("{name} is removed from a peer");
    }

    fn caches(&self) -> u64 {
        self.are().len() as u64
    }
}

impl Peers for Others {
    fn rows(&self, asked: &Asked<'_>, limit: Duration) -> Answers {
        if !self.gives.load(Relaxed) {
            return Answers::default();
        }
        self.asked.fetch_add(1, Relaxed);
        let gate = self.gate.lock().expect("not poisoned").take();
        gate.into_iter().for_each(|gate| _ = gate.wait());
        let given = self.are().into_iter().flat_map(|lent| lent.give(asked, limit).unwrap_or_default().blocks);
        let damages = self.damages.load(Relaxed);
        let damaged = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            let at = self.reads.fetch_add(7919, Relaxed) as usize % bytes.len();
            bytes[at] ^= 1;
            bytes.into()
        };
        let blocks = given.map(|bytes| if damages { damaged(bytes) } else { bytes }).collect();
        let nanos = (!self.is_deaf.load(Relaxed)).then(|| self.takes.load(Relaxed));
        Answers { blocks, nanos }
    }
}

/// A process with a folder of its own, and its clock.
struct Process {
    cache: Arc<Cache>,
    others: Arc<Others>,
    hand: Hand,
}

impl Process {
    fn new(memory: u64, folder: Option<&Path>, store: Option<&Arc<Pail>>) -> Self {
        let (hand, others) = (Hand::default(), Arc::<Others>::default());
        let disk = folder.map(|folder| Disk { folder: folder.to_owned(), bytes: 1 << 30, sources: true });
        let store =
            store.map(|pail| SharedStore { store: pail.clone(), bytes: 1 << 30, watch: Arc::new(hand.clone()) });
        let cache = Cache::open(&Options { memory, disk, store }).expect("opens");
        cache.meet(others.clone(), Arc::new(hand.clone())).expect("a thread");
        Self { cache, others, hand }
    }

    fn meets(self, other: &Self) -> Self {
        self.others.lent.lock().expect("not poisoned").extend(other.cache.lent());
        self
    }

    /// With memory alone.
    fn in_memory(memory: u64) -> Self {
        Self::new(memory, None, None)
    }

    fn prefix(&self) -> Arc<Prefix> {
        self.cache.prefix(prefix_key(1), &schema(), ROWS, "test of peers")
    }

    fn counts(&self) -> Counts {
        self.cache.stats().prefixes[0].counts
    }

    /// Computes all rows, and has them on its disk.
    fn filled(self) -> Self {
        let prefix = self.prefix();
        all().chunks(50).for_each(|rows| assert_eq!(ask(&prefix, rows), rows));
        assert!(self.cache.flush(LIMIT));
        self
    }
}

fn all() -> Vec<u64> {
    (0..ROWS).collect()
}

fn kept() -> Vec<u64> {
    all().into_iter().filter(|&row| !is_without(row)).collect()
}

#[test]
fn what_a_peer_has_on_its_disk_is_not_computed_again() {
    let folders = [folder(), folder()];
    let first = Process::new(0, Some(folders[0].path()), None).filled();
    let second = Process::new(0, Some(folders[1].path()), None).meets(&first);
    let prefix = second.prefix();
    let backwards: Vec<u64> = all().into_iter().rev().collect();
    assert_eq!(ask(&prefix, &backwards), [0; 0]);
    assert_eq!((second.counts().peer_hits, second.counts().misses), (kept().len() as u64, 0));
    assert!(second.cache.flush(LIMIT));
    assert_eq!(blocks(folders[1].path()), [], "each row is on one disk");

    let with_memory = Process::new(1 << 20, None, None).meets(&first);
    let prefix = with_memory.prefix();
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    let reads = with_memory.others.reads.load(Relaxed);
    assert_eq!(ask(&prefix, &backwards), [0; 0]);
    assert_eq!(with_memory.others.reads.load(Relaxed), reads, "fetched once, then in memory");
}

#[test]
fn what_is_computed_while_one_runs_is_found_and_only_the_rest_computed() {
    let folders = [folder(), folder()];
    let second = Process::new(0, Some(folders[1].path()), None);
    let prefix = second.prefix();
    let first = Process::new(0, Some(folders[0].path()), None).filled();
    let second = second.meets(&first);
    assert_eq!(ask(&prefix, &[0]), [0], "nobody looked yet");
    second.hand.pass(LONG);
    let end = std::time::Instant::now() + LIMIT;
    let mut rows = kept().into_iter().skip(1);
    while second.cache.stats().prefixes[0].peer_rows == 0 {
        assert!(std::time::Instant::now() < end, "peers are asked again");
        // What is computed here is here: another row each time.
        ask(&prefix, &[rows.next().expect("rows are left")]);
    }
    let rest: Vec<u64> = rows.collect();
    assert_eq!(ask(&prefix, &rest), [0; 0]);
}

#[test]
fn peers_are_asked_before_the_store_and_the_store_for_what_they_lack() {
    let (folders, pail) = ([folder(), folder()], Arc::<Pail>::default());
    let storing = Process::new(0, None, Some(&pail)).filled();
    let first = Process::new(0, Some(folders[0].path()), None);
    let half = &kept()[..100];
    ask(&first.prefix(), half);
    assert!(first.cache.flush(LIMIT));
    let second = Process::new(0, Some(folders[1].path()), Some(&pail)).meets(&first);
    assert_eq!(ask(&second.prefix(), &kept()), [0; 0]);
    let counts = second.counts();
    assert_eq!((counts.peer_hits, counts.store_hits), (100, kept().len() as u64 - 100));
    drop(storing);
}

#[test]
fn what_others_have_room_for_and_what_reading_there_takes_is_told_to_whoever_decides() {
    let (folders, pail) = ([folder(), folder()], Arc::<Pail>::default());
    let storing = Process::new(0, None, Some(&pail)).filled();
    let first = Process::new(0, Some(folders[0].path()), None);
    ask(&first.prefix(), &kept()[..100]);
    assert!(first.cache.flush(LIMIT));
    let second = Process::new(0, Some(folders[1].path()), Some(&pail));
    assert_eq!(second.cache.elsewhere(1000).map(|tier| tier.room), [0, 1 << 30], "nobody is met");
    let second = second.meets(&first).meets(&storing);
    let [peers, store] = second.cache.elsewhere(1000);
    assert_eq!((peers.room, peers.request_nanos, peers.byte_nanos), (1000, None, None), "one keeps what it can show");
    assert_eq!(store.request_nanos, None);
    assert_eq!(ask(&second.prefix(), &kept()), [0; 0]);
    let read = second.cache.elsewhere(1000).map(|tier| tier.request_nanos.or(tier.byte_nanos).is_some());
    assert_eq!(read, [true, true]);
    pail.fail(Some(Fault::Away));
    let end = std::time::Instant::now() + LIMIT;
    while second.cache.elsewhere(0)[1].room > 0 {
        assert!(std::time::Instant::now() < end, "it is left alone after a while");
        second.hand.pass(LONG);
        second.cache.prefix(prefix_key(2), &schema(), ROWS, "another");
    }
}

#[test]
fn a_peer_that_leaves_is_missed_and_found_again_when_it_is_back() {
    let folders = [folder(), folder()];
    let first = Process::new(0, Some(folders[0].path()), None).filled();
    let second = Process::new(0, None, None).meets(&first);
    let prefix = second.prefix();
    assert_eq!(ask(&prefix, &all()[..50]), [0; 0]);
    second.others.is_away.store(true, Relaxed);
    assert_eq!(ask(&prefix, &kept()), kept(), "computed");
    assert!(second.counts().unreadable > 0);
    second.others.is_away.store(false, Relaxed);
    let end = std::time::Instant::now() + LIMIT;
    while !ask(&prefix, &kept()).is_empty() {
        assert!(std::time::Instant::now() < end, "it is found again");
        second.hand.pass(LONG);
    }
}

#[test]
fn what_a_peer_has_wrongly_is_computed_and_left_to_it() {
    let folders = [folder(), folder()];
    let first = Process::new(0, Some(folders[0].path()), None).filled();
    for (path, len) in blocks(folders[0].path()) {
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[len as usize / 3..][..200].iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(&path, bytes).expect("written");
    }
    let before = blocks(folders[0].path());
    let second = Process::new(0, Some(folders[1].path()), None).meets(&first);
    let computed = ask(&second.prefix(), &all());
    assert!(!computed.is_empty(), "checked there are right bits");
    assert_eq!(blocks(folders[0].path()), before);
}

#[test]
fn what_a_peer_has_in_memory_alone_is_not_computed_again() {
    let first = Process::in_memory(1 << 20).filled();
    let second = Process::in_memory(1 << 20).meets(&first);
    let prefix = second.prefix();
    let backwards: Vec<u64> = all().into_iter().rev().collect();
    assert_eq!(ask(&prefix, &backwards), [0; 0]);
    let (rows, without) = (kept().len() as u64, ROWS - kept().len() as u64);
    let counts = second.counts();
    assert_eq!((counts.peer_hits, counts.without_hits, counts.misses), (rows, without, 0));
    let reads = second.others.reads.load(Relaxed);
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    assert_eq!(second.others.reads.load(Relaxed), reads, "there is room for a copy");

    let third = Process::in_memory(1 << 20).meets(&second);
    assert_eq!(ask(&third.prefix(), &kept()), kept(), "copies are not shown: those who have the rows show them");
}

#[test]
fn what_a_snapshot_has_is_a_block() {
    let first = Process::in_memory(1 << 20).filled();
    let lent = first.cache.lent().expect("memory");
    let blocks = lent.blocks(prefix_key(1));
    let whole = |block: &Object| lent.read(&Part { name: block.name.clone(), range: 0..block.bytes }).expect("read");
    let rows = blocks.iter().map(|block| forebay_cache::check_block(&whole(block)).expect("a block"));
    assert_eq!(rows.sum::<u64>(), ROWS);
    for block in &blocks {
        let bytes = whole(block);
        for range in (0..block.bytes).step_by(37).map(|at| at..block.bytes.min(at + 61)) {
            let part = Part { name: block.name.clone(), range: range.clone() };
            assert_eq!(lent.read(&part).expect("read"), bytes[range.start as usize..range.end as usize]);
        }
        let read = |range| lent.read(&Part { name: block.name.clone(), range }).map_err(|e| e.kind());
        assert_eq!(read(block.bytes - 1..block.bytes + 1), Err(ErrorKind::Data));
        assert_eq!(read(0..PART_BYTES_MAX + 1), Err(ErrorKind::Invalid));
    }
}

#[test]
fn what_a_peer_computed_last_is_known_a_moment_later_without_another_question() {
    let first = Process::in_memory(1 << 20);
    let second = Process::in_memory(1 << 20).meets(&first);
    let prefix = second.prefix();
    let first = first.filled();
    assert_eq!(ask(&prefix, &[0]), [0], "nobody looked yet");
    second.hand.pass(LONG);
    let end = std::time::Instant::now() + LIMIT;
    while second.cache.stats().prefixes[0].peer_rows < kept().len() as u64 {
        assert!(std::time::Instant::now() < end, "peers are asked again");
        std::thread::yield_now();
    }
    let counts = first.counts();
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    assert_eq!(first.counts(), counts, "whoever shows rows is not asked for them as a caller is");
}

#[test]
fn rows_that_leave_a_peers_memory_are_computed_and_the_others_found_again() {
    let first = Process::in_memory(60_000);
    let prefix = first.prefix();
    kept().chunks(10).for_each(|rows| assert_eq!(ask(&prefix, rows), rows));
    let second = Process::in_memory(0).meets(&first);
    let prefix = second.prefix();
    let known = second.cache.stats().prefixes[0].peer_rows;
    assert!(known > 50 && known < kept().len() as u64, "what fits: {known}");
    // Another prefix, asked for again and again, takes room from it.
    let other = first.cache.prefix(prefix_key(2), &schema(), ROWS, "another");
    let left = || first.cache.stats().prefixes[0].memory_rows;
    while left() > known / 2 {
        kept().chunks(10).for_each(|rows| _ = ask(&other, rows));
    }
    let left = left();
    let computed = ask(&prefix, &kept());
    assert!(computed.len() as u64 >= kept().len() as u64 - left, "checked there are right bits");
    let end = std::time::Instant::now() + LIMIT;
    while second.cache.stats().prefixes[0].peer_rows != left {
        assert!(std::time::Instant::now() < end, "{left} are left, and found again");
        first.hand.pass(LONG);
        second.hand.pass(LONG);
        ask(&prefix, &kept()[..1]);
    }
    assert_eq!(ask(&prefix, &kept()).len() as u64, kept().len() as u64 - left);
}

#[test]
fn a_row_of_a_peers_memory_that_is_damaged_on_its_way_is_computed() {
    let first = Process::in_memory(1 << 20).filled();
    let second = Process::in_memory(1 << 20).meets(&first);
    let prefix = second.prefix();
    second.others.damages.store(true, Relaxed);
    assert!(!ask(&prefix, &all()).is_empty(), "checked there are right bits");
    assert!(second.counts().unreadable > 0);
}

#[test]
fn copies_of_what_peers_have_make_room_for_what_nobody_has() {
    let half = &kept()[..kept().len() / 2];
    let rest = &kept()[half.len()..];
    let first = Process::in_memory(1 << 20);
    ask(&first.prefix(), half);
    let with_copies = |memory: u64| {
        let second = Process::in_memory(memory).meets(&first);
        let prefix = second.prefix();
        assert_eq!(ask(&prefix, half), [0; 0]);
        (second, prefix)
    };
    // There is room for a half, and what finds the other.
    let room = with_copies(1 << 20).0.cache.stats().memory.bytes + 4000;
    let (second, prefix) = with_copies(room);
    assert_eq!(second.cache.stats().prefixes[0].memory_rows, half.len() as u64);
    assert_eq!(ask(&prefix, rest), rest);
    assert_eq!(second.counts().memory_refused, 0);
    assert_eq!(ask(&prefix, &kept()), [0; 0], "both together have all");
}

#[test]
fn nothing_but_blocks_is_shown() {
    let folder = folder();
    let first = Process::new(0, Some(folder.path()), None).filled();
    let lent = first.cache.lent().expect("a folder");
    let block = &lent.blocks(prefix_key(1))[0];
    let read = |name: &str, range| lent.read(&Part { name: name.to_owned(), range }).map_err(|e| e.kind());
    assert_eq!(read(&block.name, 0..8).map(|bytes| bytes.len()), Ok(8));
    std::fs::write(folder.path().join("secret.arrow"), "secret").expect("written");
    let within =
        |name: &str| block.name.rsplit_once('/').map(|(before, _)| format!("{before}/{name}")).expect("a name");
    let (up, tmp) = (within("../secret.arrow"), within("used"));
    for name in ["secret.arrow", "../secret.arrow", "/etc/passwd", "", &up, &tmp, &within("other.arrow")] {
        assert_eq!(read(name, 0..1), Err(ErrorKind::NotFound), "{name}");
    }
    assert_eq!(read(&block.name, block.bytes - 1..block.bytes + 1), Err(ErrorKind::Data));
    assert_eq!(read(&block.name, 0..PART_BYTES_MAX + 1), Err(ErrorKind::Invalid));
    assert!(lent.blocks(prefix_key(2)).is_empty());
    assert!(Process::new(0, None, None).cache.lent().is_none());
}

#[test]
fn processes_with_one_folder_say_the_same_place_and_others_do_not() {
    let folders = [folder(), folder()];
    let place = |folder: &Path| open(0, Some((folder, 1 << 20))).lent().expect("a folder").place();
    let [one, same] = [0, 1].map(|_| place(folders[0].path()));
    assert!(one == same && !one.is_empty());
    assert_ne!(one, place(folders[1].path()));
}

/// Two that ask each other for what they do not show yet.
fn neighbours(memory: u64) -> [Process; 2] {
    let [one, other] = [0, 1].map(|_| Process::in_memory(memory));
    let one = one.meets(&other);
    let other = other.meets(&one);
    [&one, &other].iter().for_each(|process| process.others.gives.store(true, Relaxed));
    [one, other]
}

#[test]
fn what_a_peer_computed_a_moment_ago_is_given_before_it_is_shown() {
    let [first, second] = neighbours(1 << 20);
    // Both have looked at each other; nobody looks again for a while.
    let prefixes = [first.prefix(), second.prefix()];
    assert_eq!(ask(&prefixes[0], &all()).len() as u64, ROWS);
    assert_eq!(second.cache.stats().prefixes[0].peer_rows, 0, "nothing is shown yet");
    assert_eq!(ask(&prefixes[1], &all()), [0; 0]);
    let (rows, without) = (kept().len() as u64, ROWS - kept().len() as u64);
    let counts = second.counts();
    assert_eq!((counts.peer_hits, counts.without_hits, counts.misses), (rows, without, 0));
    let asked = second.others.asked.load(Relaxed);
    assert_eq!(ask(&prefixes[1], &all()), [0; 0]);
    assert_eq!(second.others.asked.load(Relaxed), asked, "there is room for a copy");
}

#[test]
fn what_is_on_a_peers_way_to_its_disk_and_there_is_given() {
    let folders = [folder(), folder()];
    let [first, second] = [0, 1].map(|i| Process::new(0, Some(folders[i].path()), None));
    let second = second.meets(&first);
    second.others.gives.store(true, Relaxed);
    let prefix = second.prefix();
    ask(&first.prefix(), &all());
    assert_eq!(ask(&prefix, &all()[..100]), [0; 0]);
    assert!(first.cache.flush(LIMIT));
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    assert_eq!(second.counts().misses, 0);
}

#[test]
fn what_a_peer_computes_now_is_waited_for() {
    let [first, second] = neighbours(1 << 20);
    let prefixes = [first.prefix(), second.prefix()];
    let rows = kept();
    let keys: Vec<_> = rows.iter().map(|&row| key(row)).collect();
    let claim = prefixes[0].look(&keys, &Memory::default()).claim;
    assert_eq!(claim.rows().len(), rows.len());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&prefixes[1], &rows));
        let end = std::time::Instant::now() + LIMIT;
        while second.others.asked.load(Relaxed) == 0 {
            assert!(std::time::Instant::now() < end, "it asks");
            std::thread::yield_now();
        }
        let there: Vec<u32> = (0..rows.len() as u32).collect();
        let given = Computed { rows: &there, columns: &columns(&rows), without: &[], nanos: 1000 };
        claim.fulfil(&given);
        assert_eq!(waits.join().expect("no panic"), [0; 0]);
    });
    // One that gives up holds nobody up for ever.
    let more: Vec<_> = (ROWS..ROWS + 20).filter(|&row| !is_without(row)).collect();
    let keys: Vec<_> = more.iter().map(|&row| key(row)).collect();
    let claim = prefixes[0].look(&keys, &Memory::default()).claim;
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&prefixes[1], &more));
        drop(claim);
        assert_eq!(waits.join().expect("no panic"), more);
    });
}

#[test]
fn of_two_that_want_the_same_rows_at_once_one_computes_each() {
    for round in 0..20 {
        let pair = neighbours(1 << 20);
        let gate = Arc::new(Barrier::new(2));
        // Neither is answered before both have claimed all.
        pair.iter().for_each(|p| *p.others.gate.lock().expect("not poisoned") = Some(gate.clone()));
        let computed: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let asks = pair.each_ref().map(|process| {
                let prefix = process.prefix();
                scope.spawn(move || ask(&prefix, &all()))
            });
            asks.map(|asked| asked.join().expect("no panic")).into()
        });
        let counts: Vec<usize> = computed.iter().map(Vec::len).collect();
        assert!(counts.contains(&0) && counts.contains(&(ROWS as usize)), "round {round}: {counts:?}");
    }
}

#[test]
fn rows_that_a_peer_gave_and_that_are_damaged_are_computed() {
    let first = Process::in_memory(1 << 20);
    ask(&first.prefix(), &kept());
    let mut refused = 0;
    for n in 0..200 {
        let other = Process::in_memory(0);
        other.others.lent.lock().expect("not poisoned").extend(first.cache.lent());
        other.others.gives.store(true, Relaxed);
        other.others.damages.store(true, Relaxed);
        // One byte, in each block another.
        other.others.reads.store(n * 1013, Relaxed);
        let shown = other.cache.prefix(prefix_key(1), &schema(), ROWS, "test of peers");
        refused += usize::from(!ask(&shown, &kept()[..40]).is_empty());
    }
    assert!(refused > 50, "checked there are right bits; {refused} answers were refused");
}

#[test]
fn what_questions_take_is_no_part_of_what_reads_take_and_who_asks_in_vain_asks_seldom() {
    let [first, second] = neighbours(1 << 20);
    let (prefixes, rows) = ([first.prefix(), second.prefix()], kept());
    let asked = || second.others.asked.load(Relaxed) as usize;
    second.others.takes.store(100, Relaxed);
    let (vain, rest) = rows.split_at(200);
    vain.iter().for_each(|&row| assert_eq!(ask(&prefixes[1], &[row]), [row]));
    assert!((200 / 32..200 / 8).contains(&asked()), "{}", asked());
    let [peers, _] = second.cache.elsewhere(1);
    assert_eq!((peers.request_nanos, peers.byte_nanos), (None, None), "nothing was read");
    // Now there is something to be given, for a tenth of what it takes to compute: that is found out, and then always asked for.
    ask(&prefixes[0], rest);
    let computed: usize = rest.iter().map(|&row| ask(&prefixes[1], &[row]).len()).sum();
    assert!(computed <= 32 && second.counts().peer_hits as usize == rest.len() - computed, "{computed}");
}

#[test]
fn whoever_does_not_answer_says_nothing_of_what_a_question_takes() {
    let [_first, second] = neighbours(1 << 20);
    // As long as it was waited for them.
    second.others.is_deaf.store(true, Relaxed);
    second.others.takes.store(u64::MAX, Relaxed);
    let prefix = second.prefix();
    kept()[..50].iter().for_each(|&row| assert_eq!(ask(&prefix, &[row]), [row]));
    assert_eq!(second.others.asked.load(Relaxed), 50);
}

#[test]
fn large_rows_are_given_in_several_answers() {
    let [first, second] = neighbours(1 << 30);
    let schema = Arc::new(Schema::new(vec![Field::new("bytes", Kind::Bytes)]).expect("a schema"));
    let open = |process: &Process| process.cache.prefix(prefix_key(3), &schema, 30, "large rows");
    let prefixes = [open(&first), open(&second)];
    let keys: Vec<_> = (0..30).map(key).collect();
    let large = |row: u64| vec![row as u8; 1 << 20];
    let look = prefixes[0].look(&keys, &Memory::default());
    let there: Vec<u32> = (0..30).collect();
    let column: Arc<dyn arrow_array::Array> = Arc::new(LargeBinaryArray::from_iter_values((0..30).map(large)));
    look.claim.fulfil(&Computed { rows: &there, columns: std::slice::from_ref(&column), without: &[], nanos: 1 << 40 });
    let mut look = prefixes[1].look(&keys, &Memory::default());
    assert!(look.is_complete(), "{:?}", look.claim.rows());
    assert!(same(&look.found.columns(&Memory::default()).expect("columns"), &[column]));
    assert!(second.others.asked.load(Relaxed) > 3);
}

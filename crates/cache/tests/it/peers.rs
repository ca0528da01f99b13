//! Peers: rows that one process exports from its disk or its memory are read by others before they use a store or
//! compute, and rows may leave meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::others::*;
use crate::common::pail::{Fault, Pail};
use crate::common::*;
use forebay_cache::{Object, PART_BYTES_MAX, Part};
use forebay_core::ErrorKind;

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
    assert_eq!(ask(&prefix, &[0]), [0], "no process has looked yet");
    second.hand.pass(LONG);
    let end = std::time::Instant::now() + LIMIT;
    let mut rows = kept().into_iter().skip(1);
    while second.cache.stats().prefixes[0].peer_rows == 0 {
        assert!(std::time::Instant::now() < end, "peers are asked again");
        // Computed rows are in memory afterwards, so this takes another row each time.
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
fn the_room_of_peers_and_the_cost_of_a_read_reach_the_policy() {
    let (folders, pail) = ([folder(), folder()], Arc::<Pail>::default());
    let storing = Process::new(0, None, Some(&pail)).filled();
    let first = Process::new(0, Some(folders[0].path()), None);
    ask(&first.prefix(), &kept()[..100]);
    assert!(first.cache.flush(LIMIT));
    let second = Process::new(0, Some(folders[1].path()), Some(&pail));
    assert_eq!(second.cache.elsewhere(1000).map(|tier| tier.room), [0, 1 << 30], "no peer is known");
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
    assert_eq!((counts.peer_hits, counts.filtered_out_hits, counts.misses), (rows, without, 0));
    let reads = second.others.reads.load(Relaxed);
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    assert_eq!(second.others.reads.load(Relaxed), reads, "there is room for a copy");

    let third = Process::in_memory(1 << 20).meets(&second);
    assert_eq!(ask(&third.prefix(), &kept()), kept(), "copies are not shown: the peers that have the rows show them");
}

#[test]
fn what_a_snapshot_has_is_a_block() {
    let first = Process::in_memory(1 << 20).filled();
    let exports = first.cache.exports().expect("memory");
    let blocks = exports.blocks(prefix_key(1));
    let whole = |block: &Object| exports.read(&Part { name: block.name.clone(), range: 0..block.bytes }).expect("read");
    let rows = blocks.iter().map(|block| forebay_cache::check_block(&whole(block)).expect("a block"));
    assert_eq!(rows.sum::<u64>(), ROWS);
    for block in &blocks {
        let bytes = whole(block);
        for range in (0..block.bytes).step_by(37).map(|at| at..block.bytes.min(at + 61)) {
            let part = Part { name: block.name.clone(), range: range.clone() };
            assert_eq!(exports.read(&part).expect("read"), bytes[range.start as usize..range.end as usize]);
        }
        let read = |range| exports.read(&Part { name: block.name.clone(), range }).map_err(|e| e.kind());
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
    assert_eq!(ask(&prefix, &[0]), [0], "no process has looked yet");
    second.hand.pass(LONG);
    let end = std::time::Instant::now() + LIMIT;
    while second.cache.stats().prefixes[0].peer_rows < kept().len() as u64 {
        assert!(std::time::Instant::now() < end, "peers are asked again");
        std::thread::yield_now();
    }
    let counts = first.counts();
    assert_eq!(ask(&prefix, &all()), [0; 0]);
    assert_eq!(first.counts(), counts, "a process that exports rows is not asked for them as a caller is");
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
    // Another prefix, requested repeatedly, takes room from it.
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
fn copies_of_rows_of_peers_make_room_for_rows_that_no_peer_has() {
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
    // There is room for a half, and for the index of the other.
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
    let exports = first.cache.exports().expect("a folder");
    let block = &exports.blocks(prefix_key(1))[0];
    let read = |name: &str, range| exports.read(&Part { name: name.to_owned(), range }).map_err(|e| e.kind());
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
    assert!(exports.blocks(prefix_key(2)).is_empty());
    assert!(Process::new(0, None, None).cache.exports().is_none());
}

#[test]
fn processes_with_one_folder_say_the_same_place_and_others_do_not() {
    let folders = [folder(), folder()];
    let place = |folder: &Path| open(0, Some((folder, 1 << 20))).exports().expect("a folder").place();
    let [one, same] = [0, 1].map(|_| place(folders[0].path()));
    assert!(one == same && !one.is_empty());
    assert_ne!(one, place(folders[1].path()));
}

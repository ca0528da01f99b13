//! Peers: rows that one process has just computed, or computes now, and does not list yet, are sent to others that
//! request them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};

use crate::common::others::*;
use crate::common::*;
use arrow_array::LargeBinaryArray;
use forebay_cache::Computed;
use forebay_data::{Field, Kind, Memory, Schema};

/// Two processes that request unlisted rows from each other.
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
    // Both have listed each other, and list again only after a while.
    let prefixes = [first.prefix(), second.prefix()];
    assert_eq!(ask(&prefixes[0], &all()).len() as u64, ROWS);
    assert_eq!(second.cache.stats().prefixes[0].peer_rows, 0, "nothing is shown yet");
    assert_eq!(ask(&prefixes[1], &all()), [0; 0]);
    let (rows, without) = (kept().len() as u64, ROWS - kept().len() as u64);
    let counts = second.counts();
    assert_eq!((counts.peer_hits, counts.filtered_out_hits, counts.misses), (rows, without, 0));
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
        let given = Computed { rows: &there, columns: &columns(&rows), filtered_out: &[], nanos: 1000 };
        claim.fulfil(&given);
        assert_eq!(waits.join().expect("no panic"), [0; 0]);
    });
    // An abandoned claim does not block a peer for ever.
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
        other.others.exports.lock().expect("not poisoned").extend(first.cache.exports());
        other.others.gives.store(true, Relaxed);
        other.others.damages.store(true, Relaxed);
        // One byte, another one in each block.
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
    // Now there are rows to receive, at a tenth of their cost: the policy finds this out, and then always requests
    // them.
    ask(&prefixes[0], rest);
    let computed: usize = rest.iter().map(|&row| ask(&prefixes[1], &[row]).len()).sum();
    assert!(computed <= 32 && second.counts().peer_hits as usize == rest.len() - computed, "{computed}");
}

#[test]
fn a_peer_that_does_not_answer_gives_no_cost_of_a_request() {
    let [_first, second] = neighbours(1 << 20);
    // The whole wait.
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
    look.claim.fulfil(&Computed {
        rows: &there,
        columns: std::slice::from_ref(&column),
        filtered_out: &[],
        nanos: 1 << 40,
    });
    let mut look = prefixes[1].look(&keys, &Memory::default());
    assert!(look.is_complete(), "{:?}", look.claim.rows());
    assert!(same(&look.found.columns(&Memory::default()).expect("columns"), &[column]));
    assert!(second.others.asked.load(Relaxed) > 3);
}

//! Threads that request the same rows: one thread computes each row, and a thread that gives up or is late blocks no
//! other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::*;
use forebay_cache::{Computed, RowKey};
use forebay_core::rng::mix64;
use forebay_data::Memory;

const ROWS: u64 = 500;

#[test]
fn each_row_is_computed_once_however_many_ask() {
    for memory in [1 << 30, 0] {
        let cache = open(memory, None);
        let prefix = cache.prefix(prefix_key(1), &schema(), ROWS, "test");
        let counts: Vec<AtomicUsize> = (0..ROWS).map(|_| AtomicUsize::new(0)).collect();
        let all: Vec<u64> = (0..ROWS).collect();
        // All threads look up before one computes: rows are passed on even without memory.
        let (asked, ready) = (std::sync::Barrier::new(8), Memory::default());
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (prefix, counts, all, asked, ready) = (&prefix, &counts, &all, &asked, &ready);
                scope.spawn(move || {
                    // Each begins at another row.
                    let rows: Vec<u64> = all.iter().map(|row| (row + 61 * thread) % ROWS).collect();
                    let keys: Vec<RowKey> = rows.iter().map(|&row| key(row)).collect();
                    let look = prefix.look(&keys[..100], ready);
                    asked.wait();
                    let claimed: Vec<u32> = look.claim.rows().to_vec();
                    let (without, there): (Vec<u32>, Vec<u32>) =
                        claimed.iter().partition(|&&i| is_without(rows[i as usize]));
                    claimed.iter().for_each(|&i| _ = counts[rows[i as usize] as usize].fetch_add(1, Ordering::Relaxed));
                    let columns = columns(&there.iter().map(|&i| rows[i as usize]).collect::<Vec<_>>());
                    let mut found = look.found;
                    found.add(&there, &columns).expect("of the schema");
                    found.add_filtered_out(&without);
                    let given = Computed { rows: &there, columns: &columns, filtered_out: &without, nanos: 1 };
                    let late = look.claim.fulfil(&given).wait(LIMIT, ready);
                    assert!(late.is_complete(), "{late:?}");
                    found.merge(late.found);
                    check(&mut found, &rows[..100], ready);
                });
            }
        });
        let counts: Vec<usize> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert!(counts.iter().all(|&count| count <= 1), "{counts:?}");
        assert!(counts.iter().sum::<usize>() >= 100);
    }
}

#[test]
fn threads_at_random_get_right_rows_and_end() {
    let cache = open(100_000, None);
    let (done, ended) = mpsc::channel();
    for thread in 0..6u64 {
        let prefix = cache.prefix(prefix_key((thread % 2) as u8), &schema(), ROWS, "test");
        let done = done.clone();
        std::thread::spawn(move || {
            for round in 0..60u64 {
                let first = mix64(round * 7 + thread / 2) % ROWS;
                let rows: Vec<u64> = (first..first + 64).map(|row| mix64(row / 3) % ROWS).collect();
                if mix64(thread << 32 | round).is_multiple_of(5) {
                    let keys: Vec<RowKey> = rows.iter().map(|&row| key(row)).collect();
                    drop(prefix.look(&keys, &Memory::default()));
                } else {
                    ask(&prefix, &rows);
                }
            }
            done.send(()).expect("the test receives");
        });
    }
    (0..6).for_each(|_| ended.recv_timeout(LIMIT).expect("no wait is endless"));
}

#[test]
fn what_is_given_up_or_late_is_taken_over() {
    let cache = open(1 << 20, None);
    let prefix = cache.prefix(prefix_key(1), &schema(), ROWS, "test");
    let memory = Memory::default();
    let keys = [key(0), key(2)];
    let none = Computed { rows: &[], columns: &columns(&[]), filtered_out: &[], nanos: 0 };

    let first = prefix.look(&keys, &memory);
    assert_eq!(first.claim.rows(), [0, 1]);
    let second = prefix.look(&keys, &memory).claim.fulfil(&none);
    assert_eq!(second.rows(), [0, 1]);
    // The thread that computes fails at one row and returns the other.
    let one = columns(&[0]);
    first.claim.fulfil(&Computed { rows: &[0], columns: &one, filtered_out: &[], nanos: 1 });
    let mut late = second.wait(LIMIT, &memory);
    assert_eq!((late.found.rows(), late.claim.rows()), (vec![0], &[1][..]));

    // Now this one is late.
    let third = prefix.look(&keys, &memory);
    let mut taken = third.claim.fulfil(&none).wait(Duration::ZERO, &memory);
    assert_eq!((taken.found.rows(), taken.claim.rows()), (vec![], &[1][..]));
    let two = columns(&[2]);
    taken.claim.fulfil(&Computed { rows: &[1], columns: &two, filtered_out: &[], nanos: 1 });
    late.claim.fulfil(&Computed { rows: &[1], columns: &two, filtered_out: &[], nanos: 1 });
    assert!(prefix.look(&keys, &memory).is_complete());
    assert_eq!(cache.stats().prefixes[0].memory_rows, 2);
}

#[test]
fn a_row_twice_in_one_question_is_not_waited_for() {
    let cache = open(1 << 20, None);
    let prefix = cache.prefix(prefix_key(1), &schema(), ROWS, "test");
    assert_eq!(ask(&prefix, &[6, 6, 2, 4, 4, 6]), [6, 6, 2, 4, 4, 6]);
    assert_eq!(ask(&prefix, &[6, 2, 2, 4]), [0; 0]);
    assert_eq!(cache.stats().prefixes[0].memory_rows, 2);
}

#[test]
fn columns_of_another_schema_are_not_kept() {
    let cache = open(1 << 20, None);
    let prefix = cache.prefix(prefix_key(1), &schema(), ROWS, "test");
    let memory = Memory::default();
    let look = prefix.look(&[key(0)], &memory);
    let mut wrong = columns(&[0]);
    wrong.swap(0, 2);
    look.claim.fulfil(&Computed { rows: &[0], columns: &wrong, filtered_out: &[], nanos: 1 });
    assert_eq!(prefix.look(&[key(0)], &memory).claim.rows(), [0]);
    assert_eq!(cache.stats().prefixes[0].counts.unfit, 1);
}

//! Epochs over more rows than fit: the rows that fit are hits in any order, and prefixes share the room by their value.

use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, Int64Array};
use forebay_cache::{Cache, Computed, Found, Prefix, RowKey};
use forebay_core::rng::mix64;
use forebay_data::{DType, Field, Kind, Memory, Schema};
use proptest::prelude::*;

/// Rows of 800 bytes.
fn wide() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("x", Kind::fixed(DType::Int64, &[100]))]).expect("one column"))
}

fn wide_rows(rows: &[u64]) -> ArrayRef {
    let numbers = rows.iter().flat_map(|&row| (0..100).map(move |i| (row * 100 + i) as i64)).collect::<Int64Array>();
    let kind = Kind::fixed(DType::Int64, &[100]);
    let values = arrow_array::Array::to_data(&numbers).buffers()[0].clone();
    forebay_data::column_of(&kind, values, rows.len()).expect("fits")
}

/// Reads one epoch in its own order, in morsels; returns how many rows were found.
fn epoch(prefix: &Arc<Prefix>, rows: u64, morsel: usize, order: u64, nanos: u64) -> u64 {
    let memory = Memory::default();
    let mut all: Vec<u64> = (0..rows).collect();
    all.sort_by_key(|&row| mix64(row ^ order << 32));
    let mut hits = 0;
    for rows in all.chunks(morsel) {
        let keys: Vec<RowKey> = rows.iter().map(|&row| key(row)).collect();
        let look = prefix.look(&keys, &memory);
        let mut found: Found = look.found;
        hits += found.rows().len() as u64;
        let claimed = look.claim.rows().to_vec();
        let column = wide_rows(&claimed.iter().map(|&i| rows[i as usize]).collect::<Vec<_>>());
        found.add(&claimed, std::slice::from_ref(&column)).expect("of the schema");
        let nanos = nanos * claimed.len() as u64;
        look.claim.fulfil(&Computed { rows: &claimed, columns: &[column], filtered_out: &[], nanos });
        assert_eq!(found.columns(&memory).expect("columns")[0].as_ref(), wide_rows(rows).as_ref());
    }
    hits
}

fn prefix(cache: &Cache, n: u8, rows: u64) -> Arc<Prefix> {
    cache.prefix(prefix_key(n), &wide(), rows, "test")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 12, ..ProptestConfig::default() })]

    /// Less one block or morsel, which is kept whole or not at all, and less the index.
    #[test]
    fn every_scan_hits_what_fits(rows in 200..1200u64, share in 5..100u64, morsel in 1..64usize, disk: bool) {
        let per_row = 800 + 96 + if disk { 40 } else { 1024 / morsel as u64 + 1 };
        let bytes = rows * per_row * share / 100;
        let folder = folder();
        let cache = if disk { open(0, Some((folder.path(), bytes))) } else { open(bytes, None) };
        let prefix = prefix(&cache, 1, rows);
        prop_assert_eq!(epoch(&prefix, rows, morsel, 0, 1000), 0);
        prop_assert!(cache.flush(LIMIT));
        for order in 1..4 {
            let hits = epoch(&prefix, rows, morsel, order, 1000);
            prop_assert!(cache.flush(LIMIT));
            // A block of the disk is a sixteenth of the quota, with its own header.
            let block = if disk { bytes / 16 / 800 + 8 + 16 * 6 } else { morsel as u64 };
            let fits = (bytes / per_row).saturating_sub(block);
            prop_assert!(hits >= fits, "{} of {} in epoch {}", hits, fits, order);
        }
    }
}

#[test]
fn another_pipeline_takes_the_room_when_it_is_worth_more_and_not_before() {
    let rows = 400;
    // With room for the file tables of both.
    let cache = open(rows / 2 * 900 + 256, None);
    let (old, new) = (prefix(&cache, 1, rows), prefix(&cache, 2, rows));
    (0..4).for_each(|n| _ = epoch(&old, rows, 16, n, 1000));
    let kept = |n: usize| cache.stats().prefixes[n].memory_rows;
    let full = kept(0);
    assert!(full > 150);
    // One pass over other data, and then alternating passes, at the same cost: no rows move.
    epoch(&new, rows, 16, 7, 1000);
    assert_eq!((kept(0), kept(1)), (full, 0));
    (0..4).for_each(|n| {
        epoch(&old, rows, 16, n, 1000);
        epoch(&new, rows, 16, n, 1000);
    });
    assert!(kept(0) + kept(1) + 16 >= full, "full, in any division");
    // When the old one has ended, the new one gets all of the room.
    (0..4).for_each(|n| _ = epoch(&new, rows, 16, n, 1000));
    assert!(kept(0) == 0 && kept(1) + 16 >= full, "{} {}", kept(0), kept(1));
    // Rows of ten times the cost get it within their first pass.
    epoch(&old, rows, 16, 1, 100_000);
    assert!(kept(0) > 0, "{} {}", kept(0), kept(1));
}

#[test]
fn rows_of_files_that_changed_make_room_for_those_that_are_there() {
    let rows = 200;
    let cache = open(rows * 900 / 2, None);
    let prefix = prefix(&cache, 1, rows);
    epoch(&prefix, rows, 16, 0, 1000);
    let before = epoch(&prefix, rows, 16, 1, 1000);
    assert!(before > 60);
    // The same prefix over other rows: from 1000 on.
    let memory = Memory::default();
    let mut hits = 0;
    for _ in 0..8 {
        hits = 0;
        for first in (1000..1000 + rows).step_by(16) {
            let wanted: Vec<u64> = (first..(first + 16).min(1000 + rows)).collect();
            let keys: Vec<RowKey> = wanted.iter().map(|&row| key(row)).collect();
            let mut look = prefix.look(&keys, &memory);
            hits += look.found.rows().len() as u64;
            let claimed = look.claim.rows().to_vec();
            let column = wide_rows(&claimed.iter().map(|&i| wanted[i as usize]).collect::<Vec<_>>());
            look.claim.fulfil(&Computed { rows: &claimed, columns: &[column], filtered_out: &[], nanos: 1000 });
        }
    }
    assert!(hits > 60, "{hits}");
}

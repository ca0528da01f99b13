//! Measures the cost of looking rows up and copying them, compared with a plain copy of the same bytes.
//!
//! `cargo run --release -p forebay-cache --example speed`

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_buffer::Buffer;
use forebay_cache::{Cache, Computed, Disk, FileKey, Options, Prefix, PrefixKey, RowKey};
use forebay_core::rng::mix64;
use forebay_data::{DType, Field, Kind, Memory, Schema, column_of};

const ROUNDS: u64 = 30;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Rows of `width` bytes: fills the cache with `rows`, then requests `morsel` at random.
fn measure(name: &str, cache: &Cache, width: usize, rows: u64, morsel: usize) {
    let kind = Kind::fixed(DType::Uint8, &[width]);
    let schema = Arc::new(Schema::new(vec![Field::new("x", kind.clone())]).expect("one column"));
    let prefix = cache.prefix(PrefixKey([width as u8; 32]), &schema, rows, "speed");
    let file = FileKey::of("speed", 0, "");
    let key = |row: u64| RowKey { file, row };
    let memory = Memory::reused();
    let mut filled = Vec::new();
    for first in (0..rows).step_by(morsel) {
        let keys: Vec<RowKey> = (first..(first + morsel as u64).min(rows)).map(key).collect();
        let column = column_of(&kind, Buffer::from(vec![first as u8; width * keys.len()]), keys.len()).expect("fits");
        let claimed: Vec<u32> = (0..keys.len() as u32).collect();
        let began = Instant::now();
        let look = prefix.look(&keys, &memory);
        look.claim.fulfil(&Computed { rows: &claimed, columns: &[column], filtered_out: &[], nanos: 1 });
        filled.push(began.elapsed());
        // Nothing is computed here, so the disk would be too slow.
        assert!(cache.flush(Duration::from_secs(60)));
    }
    println!("{name}: {:.2} ms to look in vain and keep {morsel} rows of {width} bytes", median(filled));
    let ask = |prefix: &Arc<Prefix>, round: u64| {
        let keys: Vec<RowKey> = (0..morsel as u64).map(|i| key(mix64(i << 32 | round) % rows)).collect();
        let began = Instant::now();
        let mut look = prefix.look(&keys, &memory);
        assert!(look.is_complete());
        let looked = began.elapsed();
        let columns = look.found.columns(&memory).expect("columns");
        (looked, began.elapsed(), columns)
    };
    let times: Vec<_> = (0..ROUNDS).map(|round| ask(&prefix, round)).map(|(a, b, _)| (a, b)).collect();
    let (look, all) = times.into_iter().unzip();
    let from = vec![1u8; width * rows as usize];
    let copies = (0..ROUNDS).map(|round| {
        let places: Vec<usize> = (0..morsel as u64).map(|i| (mix64(i << 32 | round) % rows) as usize * width).collect();
        let began = Instant::now();
        let mut to = memory.take(width * morsel);
        for (to, at) in to.as_mut_slice().chunks_mut(width).zip(places) {
            to.copy_from_slice(&from[at..at + width]);
        }
        std::hint::black_box(to.as_mut_slice());
        began.elapsed()
    });
    let copy = median(copies.collect());
    let (look, all) = (median(look), median(all));
    println!(
        "{name}: {all:.2} ms, {look:.2} of it to look, for {morsel} rows of {width} bytes; a plain copy {copy:.2} ms"
    );
}

fn main() {
    for (width, rows, morsel) in [(600_000, 2000, 64), (100, 1 << 20, 16_384)] {
        let memory = Cache::open(&Options { memory: 4 << 30, disk: None, store: None }).expect("opens");
        measure("memory", &memory, width, rows, morsel);
        drop(memory);
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk { folder: folder.path().to_owned(), bytes: 4 << 30, sources: false };
        let disk = Cache::open(&Options { memory: 0, disk: Some(disk), store: None }).expect("opens");
        measure("disk", &disk, width, rows.min(1 << 19), morsel);
    }
}

//! A source whose rows are a function of their number, so that all rows from the cache can be checked.
#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod others;
pub(crate) mod paged_store;
pub(crate) mod pail;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{Int64Builder, LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::{Array, ArrayRef};
use forebay_cache::{
    Cache, CacheLocation, Computed, Disk, FileKey, Options, Prefix, PrefixKey, PrefixListing, RowKey, VerifyReport,
};
use forebay_data::{DType, Field, FixedTensorBuilder, Kind, Memory, Schema, VariableTensorBuilder};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// One column of each kind.
pub(crate) fn schema() -> Arc<Schema> {
    let nullable = |name: &str, kind| Field { nullable: true, ..Field::new(name, kind) };
    let fields = vec![
        Field::new("id", Kind::scalar(DType::Int64)),
        nullable("maybe", Kind::scalar(DType::Int64)),
        Field::new("fixed", Kind::fixed(DType::Float32, &[2, 3])),
        nullable("text", Kind::Utf8),
        Field::new("bytes", Kind::Bytes),
        Field::new("image", Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None, Some(3)] }),
        Field::new("ids", Kind::Tensor { dtype: DType::Int32, shape: vec![None] }),
        Field::new("empty", Kind::fixed(DType::Int16, &[0])),
    ];
    Arc::new(Schema::new(fields).expect("names differ"))
}

/// Computes rows as slices of larger columns, like ops do.
pub(crate) fn columns(rows: &[u64]) -> Vec<ArrayRef> {
    let with_more: Vec<u64> = [&[99_999], rows, &[77_777]].concat();
    whole(&with_more).into_iter().map(|column| column.slice(1, rows.len())).collect()
}

fn whole(rows: &[u64]) -> Vec<ArrayRef> {
    let (mut id, mut maybe) = (Int64Builder::new(), Int64Builder::new());
    let (mut text, mut bytes) = (LargeStringBuilder::new(), LargeBinaryBuilder::new());
    let mut fixed = FixedTensorBuilder::new(DType::Float32, &[2, 3], rows.len());
    let mut image = VariableTensorBuilder::new(DType::Uint8, 3);
    let mut ids = VariableTensorBuilder::new(DType::Int32, 1);
    for (i, &row) in rows.iter().enumerate() {
        id.append_value(row as i64);
        maybe.append_option((row % 3 != 0).then_some(row as i64 * 7));
        text.append_option((row % 5 != 1).then(|| "é".repeat((row % 7) as usize)));
        bytes.append_value(vec![row as u8; (row % 11) as usize]);
        fixed.slot(i).copy_from_slice(&[row as f32; 6].map(f32::to_ne_bytes).concat());
        let (h, w) = ((row % 4) as usize, (row % 3) as usize + 1);
        image.push(&[h, w, 3], &vec![row as u8; h * w * 3]).expect("fits");
        let list: Vec<u8> = (0..row % 6).flat_map(|n| (n as i32 + row as i32).to_ne_bytes()).collect();
        ids.push(&[(row % 6) as usize], &list).expect("fits");
    }
    let empty = FixedTensorBuilder::new(DType::Int16, &[0], rows.len());
    vec![
        Arc::new(id.finish()),
        Arc::new(maybe.finish()),
        fixed.finish().expect("valid"),
        Arc::new(text.finish()),
        Arc::new(bytes.finish()),
        image.finish().expect("valid"),
        ids.finish().expect("valid"),
        empty.finish().expect("valid"),
    ]
}

/// Compares columns value by value.
pub(crate) fn same(a: &[ArrayRef], b: &[ArrayRef]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_data() == b.to_data())
}

/// Rows of two files; every ninth is removed by a filter.
pub(crate) fn key(row: u64) -> RowKey {
    RowKey { file: FileKey::of(if row.is_multiple_of(2) { "even" } else { "odd" }, 7, "etag"), row: row / 2 }
}

pub(crate) fn is_without(row: u64) -> bool {
    row % 9 == 4
}

pub(crate) fn prefix_key(n: u8) -> PrefixKey {
    PrefixKey([n; 32])
}

pub(crate) fn open(memory: u64, disk: Option<(&std::path::Path, u64)>) -> Arc<Cache> {
    let disk = disk.map(|(folder, bytes)| Disk { folder: folder.to_owned(), bytes, sources: true });
    Cache::open(&Options { memory, disk, store: None }).expect("opens")
}

/// Acts as a caller: looks up, computes and checks all rows, and returns the rows that it computed.
pub(crate) fn ask(prefix: &Arc<Prefix>, rows: &[u64]) -> Vec<u64> {
    let keys: Vec<RowKey> = rows.iter().map(|&row| key(row)).collect();
    let memory = Memory::default();
    let mut look = prefix.look(&keys, &memory);
    let (mut found, mut computed) = (look.found, Vec::new());
    loop {
        let claimed = look.claim.rows().to_vec();
        computed.extend(claimed.iter().map(|&i| rows[i as usize]));
        let (without, there): (Vec<u32>, Vec<u32>) = claimed.into_iter().partition(|&i| is_without(rows[i as usize]));
        let columns = columns(&there.iter().map(|&i| rows[i as usize]).collect::<Vec<_>>());
        found.add(&there, &columns).expect("of the schema");
        found.add_filtered_out(&without);
        let given =
            Computed { rows: &there, columns: &columns, filtered_out: &without, nanos: 1000 * there.len() as u64 };
        let pending = look.claim.fulfil(&given);
        if pending.is_empty() {
            break;
        }
        look = pending.wait(LIMIT, &memory);
        found.merge(look.found);
    }
    check(&mut found, rows, &memory);
    computed
}

/// Checks an answer that has every row.
pub(crate) fn check(found: &mut forebay_cache::Found, rows: &[u64], memory: &Memory) {
    let (without, there): (Vec<u32>, Vec<u32>) = (0..rows.len() as u32).partition(|&i| is_without(rows[i as usize]));
    assert_eq!(found.filtered_out(), without);
    assert_eq!(found.rows(), there);
    let expected = columns(&there.iter().map(|&i| rows[i as usize]).collect::<Vec<_>>());
    assert!(same(&found.columns(memory).expect("columns"), &expected), "wrong rows");
}

/// A folder in memory where possible, because tests wait for writes.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// The place of a folder, as the command line names it.
pub(crate) fn location(folder: &std::path::Path) -> CacheLocation {
    CacheLocation::Folder(folder.to_owned())
}

pub(crate) fn list(kept: &CacheLocation) -> Vec<PrefixListing> {
    forebay_cache::list(kept).expect("listed")
}

pub(crate) fn verify(kept: &CacheLocation) -> VerifyReport {
    forebay_cache::verify(kept, &mut |_, _| {}).expect("verified")
}

/// The bytes of all blocks in a folder.
pub(crate) fn blocks(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut blocks = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            // A file that was evicted meanwhile has no metadata.
            let is_block = file.path().extension().is_some_and(|e| e == "arrow");
            blocks.extend(file.metadata().ok().filter(|_| is_block).map(|metadata| (file.path(), metadata.len())));
        }
    }
    blocks.sort();
    blocks
}

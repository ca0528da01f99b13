//! An answer to a peer, and the memory for it, are bounded: this test counts all memory of its process, so it has a
//! process of its own.

#[path = "it/common/mod.rs"]
mod common;
#[path = "support/counting_allocator.rs"]
mod counting_allocator;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, LargeBinaryArray};
use common::*;
use counting_allocator::most_held;
use forebay_cache::{Cache, Computed, PeerRequest, check_block};
use forebay_data::{Field, Kind, Memory, Schema};

const ROWS: u64 = 100;
const ROW_BYTES: usize = 1 << 20;
/// The rows of one answer: read, copied, and as a block.
const BYTES_MAX: usize = 40 << 20;

/// A cache with all rows.
fn filled(memory: u64, folder: Option<&std::path::Path>) -> Arc<Cache> {
    let cache = open(memory, folder.map(|folder| (folder, 1 << 30)));
    let schema = Arc::new(Schema::new(vec![Field::new("bytes", Kind::Bytes)]).expect("a schema"));
    let prefix = cache.prefix(prefix_key(1), &schema, ROWS, "large rows");
    for rows in (0..ROWS).collect::<Vec<_>>().chunks(10) {
        let keys: Vec<_> = rows.iter().map(|&row| key(row)).collect();
        let large: ArrayRef =
            Arc::new(LargeBinaryArray::from_iter_values(rows.iter().map(|&row| vec![row as u8; ROW_BYTES])));
        let there: Vec<u32> = (0..rows.len() as u32).collect();
        let computed =
            Computed { rows: &there, columns: std::slice::from_ref(&large), filtered_out: &[], nanos: 1 << 40 };
        prefix.look(&keys, &Memory::default()).claim.fulfil(&computed);
        assert!(cache.flush(LIMIT));
    }
    cache
}

#[test]
fn no_more_is_read_or_copied_for_an_answer_than_it_has_room_for() {
    let folder = folder();
    let keys: Vec<_> = (0..ROWS).map(key).collect();
    for cache in [filled(1 << 30, None), filled(0, Some(folder.path()))] {
        let exports = cache.exports().expect("it keeps rows");
        let request = PeerRequest { prefix: prefix_key(1), rows: &keys, rank: 0 };
        let (reply, taken) = most_held(|| exports.rows(&request, Duration::ZERO));
        let blocks = reply.expect("a block").blocks;
        let rows: u64 = blocks.iter().map(|block| check_block(block).expect("right")).sum();
        assert!(taken < BYTES_MAX, "{} MiB for an answer of 8", taken >> 20);
        assert_eq!(rows, (8 << 20) / ROW_BYTES as u64);
    }
}

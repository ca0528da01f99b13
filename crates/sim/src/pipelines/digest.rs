//! A number for each item of a user: a hash of the names, types and bytes of its columns.

use std::ops::Deref;

use forebay_core::rng::mix64;
use forebay_core::{Epoch, Result};
use forebay_data::{Chunk, Field, tensor_values};
use forebay_exec::Delivery;

/// Odd, with as many ones as zeros.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns a number for each item of a delivery: one for a batch, or one for each single sample.
///
/// # Errors
/// Internal if a column holds no numbers: no pipeline of the simulation has such columns.
pub(crate) fn digests(delivery: &Delivery) -> Result<Vec<u64>> {
    let rows = delivery.chunk.num_rows();
    let items = if delivery.batched { vec![(0, rows)] } else { (0..rows).map(|row| (row, 1)).collect() };
    of_rows(delivery.epoch, &delivery.chunk, &items)
}

/// Returns a number for each of these runs of rows (the first, and their count), as if it were an item.
///
/// # Errors
/// Errors of [`digests`].
pub(crate) fn of_rows(epoch: Epoch, chunk: &Chunk, items: &[(usize, usize)]) -> Result<Vec<u64>> {
    let columns = columns(chunk)?;
    let of = |&(from, len): &(usize, usize)| {
        let start = mix64(epoch.0 ^ (len as u64) << 32);
        columns.iter().fold(start, |hash, (name, values)| {
            let row = values.len() / chunk.num_rows().max(1);
            mixed(mix64(hash ^ name), &values[from * row..(from + len) * row])
        })
    };
    Ok(items.iter().map(of).collect())
}

/// Returns a number for the name and type of each column, and the bytes of its rows.
fn columns(chunk: &Chunk) -> Result<Vec<(u64, impl Deref<Target = [u8]>)>> {
    let column = |(field, column): (&Field, _)| {
        let dtype = field.kind.dtype().map_or("", |dtype| dtype.name());
        Ok((mixed(mixed(0, field.name.as_bytes()), dtype.as_bytes()), tensor_values(&field.kind, column)?))
    };
    chunk.schema().fields().iter().zip(chunk.columns()).map(column).collect()
}

/// Mixes bytes into a hash, eight at a time.
fn mixed(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let word = |hash: u64, word: &[u8; 8]| (hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
    mix64(word(words.iter().fold(hash, word), &last) ^ bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_their_order_count() {
        let bytes: Vec<u8> = (0..20).collect();
        let digest = mixed(1, &bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(mixed(1, &other), digest, "{at}");
        }
        assert_ne!(mixed(1, &bytes[..19]), digest);
        assert_ne!(mixed(1, &[&bytes[8..16], &bytes[..8], &bytes[16..]].concat()), digest);
    }
}

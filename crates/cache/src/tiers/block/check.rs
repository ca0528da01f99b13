//! Checks every row of a block.

use forebay_core::{Error, Result};
use forebay_data::Memory;

use crate::rows::table::{Shape, shapes};
use crate::tiers::block::format::{BlockHeader, open};
use crate::tiers::block::layout::Layout;
use crate::tiers::block::read::{Reading, Want, are_right};
use crate::tiers::block::read_at::{ReadAt, Trouble};

/// The approximate bytes of the rows that are checked together.
const STEP_BYTES: usize = 16 << 20;

/// Reads every row of a block from an untrusted source, for the fuzzer. Returns how many rows are right.
///
/// # Errors
/// Data, with the reason.
pub fn check_block(bytes: &[u8]) -> Result<u64> {
    let rows = open(bytes).and_then(|(header, layout)| check(bytes, &header, &layout));
    rows.map_err(|trouble| Error::data(format!("{trouble:?}")))
}

/// Checks every row of a block; returns the number of rows.
pub(crate) fn check(file: &(impl ReadAt + ?Sized), header: &BlockHeader, layout: &Layout) -> Result<u64, Trouble> {
    let fields = if header.filtered_out { &[] } else { header.schema.fields() };
    let shapes: Vec<Shape> = fields.iter().flat_map(shapes).collect();
    let mut rows = 0;
    while rows < layout.keys.len() {
        let step = layout.step(rows, STEP_BYTES);
        let key = |row: usize| layout.keys[row];
        let wants: Vec<Want> = (0..step).map(|i| Want { slot: i, row: rows + i, key: key(rows + i) }).collect();
        let mut reading = Reading::new(&shapes, &[(layout, &wants)], step, &Memory::default());
        reading.read(file, layout, &wants)?;
        if !are_right(&reading.finish(), layout, &wants) {
            return Err(Trouble::Broken("a row's sum is wrong".to_owned()));
        }
        rows += step;
    }
    Ok(rows as u64)
}

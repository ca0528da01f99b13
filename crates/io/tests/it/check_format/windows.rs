//! Windows of a shuffle whose rows are not counted: together they have each row once, for any division among readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_data::Chunk;
use forebay_io::{ReadOptions, Reader};
use forebay_plan::{EpochLanes, LaneLayout, LaneWindow, RowsKnown, Source};

use super::makers::Sample;
use super::{EPOCH, index, open};

/// Small enough that a file is in several windows.
const WINDOW_BYTES: u64 = 1 << 10;

/// Checks the sources whose readers may begin anywhere in a file. Only these are read in windows.
pub(super) fn have_the_rows_of_the_files(sample: &Sample, source: &Source, whole: &Chunk) {
    let facts = source.facts();
    if facts.rows != RowsKnown::ByReading || !facts.begins_anywhere {
        return;
    }
    let listed = index(source, false).expect("lists");
    let (sizes, extent) = (listed.window_sizes(), listed.extent());
    let layout = LaneLayout::new(extent.blocks, extent.bytes, WINDOW_BYTES, !extent.is_compressed);
    let lanes = Arc::new(EpochLanes::new(layout, &sizes, 11));
    let opened = || open(sample, source, &listed, ReadOptions::default()).expect("opens");
    let read_from = |reader: &dyn Reader, number: u64, first_chunk: u64| -> Vec<Chunk> {
        let window = LaneWindow { lanes: lanes.clone(), number, epoch: EPOCH };
        reader.window(&window, 2, first_chunk).expect("reads").map(|chunk| chunk.expect("no row is damaged")).collect()
    };
    let read = |reader: &dyn Reader, number: u64| read_from(reader, number, 0);
    let shared = opened();
    let mut seen = BTreeMap::new();
    for number in (0..layout.windows()).rev() {
        let alone: Vec<Chunk> = read(&*opened(), number);
        let beside: Vec<Chunk> = read(&*shared, number);
        assert_eq!(alone.len(), beside.len(), "{}: window {number}", sample.name);
        let middle = alone.len() / 2;
        let rest = read_from(&*shared, number, middle as u64);
        assert_eq!(rest.len(), alone.len() - middle, "{}: window {number} from chunk {middle}", sample.name);
        for (rest, alone) in rest.iter().zip(&alone[middle..]) {
            super::assert_same(rest, alone, &format!("{}: window {number} from chunk {middle}", sample.name));
        }
        for (alone, beside) in alone.iter().zip(&beside) {
            super::assert_same(alone, beside, &format!("{}: window {number}", sample.name));
            for (row, id) in alone.ids().iter().enumerate() {
                // Such a sample is named by its file and the byte where it begins, so names rise as rows do.
                assert!(seen.insert(id.sample.0, alone.slice(row, 1)).is_none(), "{}: a row comes twice", sample.name);
            }
        }
    }
    let rows: Vec<Chunk> = seen.into_values().collect();
    let rows = Chunk::concat(&rows).expect("chunks of one source");
    assert!(rows.same_bits(whole), "{}: windows have other rows than the files", sample.name);
}

//! Where rows of one morsel meet that came in two ways: kept ones, whose images are decoded, and others as they were read
//! ([`Seam`](forebay_plan::Seam)). Each side has its own chain of ops; the results lie side by side in one column, so that nothing is
//! copied to put them in order.
//!
//! Invariant: a row has the same bits whichever side it is on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef};
use forebay_cache::Found;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_plan::OpSums;

use crate::images::{ImageWork, Images};
use crate::meter::Slot;
use crate::work::Scratch;

/// Rows on one side, and what is to be done with their images.
pub(crate) struct Side<'a> {
    pub(crate) work: &'a ImageWork,
    /// Where what it costs is counted.
    pub(crate) slot: Slot,
    pub(crate) chunk: &'a Chunk,
}

/// See the module's documentation.
pub(crate) struct Meeting<'a> {
    works: [&'a ImageWork; 2],
    slots: [Slot; 2],
    images: [Images<'a>; 2],
    /// On which side the image of a row is, and where.
    places: HashMap<RowId, (usize, usize)>,
    /// The other columns of all rows.
    others: Chunk,
}

impl<'a> Meeting<'a> {
    /// Puts the rows of both sides in the order of `ids`, which has all of them, and perhaps others.
    ///
    /// # Errors
    /// Internal when the sides differ in another column than the image.
    pub(crate) fn new(sides: &'a [Side<'a>; 2], ids: impl Iterator<Item = RowId>, memory: &Memory) -> Result<Self> {
        let mut rows: [Vec<u32>; 2] = Default::default();
        let mut places = HashMap::new();
        let mut all = Vec::new();
        for id in ids {
            // A row that is asked for twice may be on both sides, and is the same there.
            let next = |side: &usize| sides[*side].chunk.ids().get(rows[*side].len()) == Some(&id);
            let Some(side) = [0, 1].iter().copied().find(next) else { continue };
            places.insert(id, (side, rows[side].len()));
            rows[side].push(all.len() as u32);
            all.push(id);
        }
        let column = sides[0].work.column();
        let others = |chunk: &Chunk| {
            let names = chunk.schema().fields().iter().map(|field| &field.name).filter(|name| *name != column);
            chunk.project(&names.cloned().collect::<Vec<_>>())
        };
        let (first, second) = (others(sides[0].chunk)?, others(sides[1].chunk)?);
        let mut found = Found::new(first.schema());
        found.add(&rows[0], first.columns())?;
        found.add(&rows[1], second.columns())?;
        let others = Chunk::new(first.schema().clone(), found.columns(memory)?, all.into())?;
        let [one, two] = sides;
        let images = [one.work.images(one.chunk)?, two.work.images(two.chunk)?];
        Ok(Self { works: [one.work, two.work], slots: [one.slot, two.slot], images, places, others })
    }

    /// Returns all rows, without the images.
    pub(crate) fn others(&self) -> &Chunk {
        &self.others
    }

    /// Runs both chains, for some of [`Meeting::others`].
    ///
    /// # Errors
    /// That of a row, with the op and the sample.
    pub(crate) fn run(&self, others: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let ids = others.ids();
        let [first, _] = self.works;
        let watch = scratch.tally.watch();
        let counts: [Count; 2] = Default::default();
        let column = first.make(ids.len(), scratch, &|row, scratch, out| {
            let place = self.places.get(&ids[row]);
            let &(side, at) = place.ok_or_else(|| Error::internal("a row that is on no side"))?;
            let began = watch.as_ref().map(|watch| watch.nanos());
            let made = self.works[side].row(&self.images[side], at, ids[row], scratch, out);
            counts[side].add(watch.as_ref().zip(began).map(|(watch, began)| watch.nanos() - began));
            made
        })?;
        let bytes = column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        for (slot, count) in self.slots.iter().zip(&counts) {
            scratch.tally.add(*slot, &count.sums(watch.is_some(), bytes / ids.len().max(1) as u64));
        }
        let schema: &std::sync::Arc<Schema> = first.schema();
        let of = |name: &str| if name == first.column() { Ok(&column) } else { others.column(name) };
        let columns: Vec<ArrayRef> =
            schema.fields().iter().map(|field| of(&field.name).cloned()).collect::<Result<_>>()?;
        Chunk::new(schema.clone(), columns, ids.into())
    }
}

/// What the rows of one side took, on whatever thread.
#[derive(Default)]
struct Count {
    rows: AtomicU64,
    nanos: AtomicU64,
}

impl Count {
    fn add(&self, nanos: Option<u64>) {
        self.rows.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos.unwrap_or(0), Relaxed);
    }

    /// `bytes` is what a row comes to. What it came from is not looked at: the sides differ in that.
    fn sums(&self, is_timed: bool, bytes: u64) -> OpSums {
        let rows = self.rows.load(Relaxed);
        let timed = if is_timed { rows } else { 0 };
        let nanos = self.nanos.load(Relaxed);
        OpSums { rows_in: rows, rows_out: rows, timed, nanos, bytes_out: bytes * timed, ..OpSums::default() }
    }
}

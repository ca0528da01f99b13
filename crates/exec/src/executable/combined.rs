//! Reads the rows of datasets that are read as one. Each dataset reads its rows from its own source and runs its own
//! ops on them. This module puts the rows in the requested order.
//!
//! A dataset is opened when its first row is read. All share the limits of open files and of decoded memory. The
//! costs of their ops count as costs of reading.
//!
//! Invariants: the ops of a dataset see the ids of rows among all datasets, and draw from the seed of their dataset; an
//! error names the dataset.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, LargeStringArray, new_empty_array};
use forebay_core::{Epoch, Error, Fault, Result, SampleId, Seed};
use forebay_data::{Chunk, Loss, Memory, RowId, Schema};
use forebay_io::{Place, SourceIndex, interleave};
use forebay_plan::{Combination, Combining, Source, Stages};

use crate::cached::page_cached::PageCachedSource;
use crate::executable::environment::Environment;
use crate::executable::row_source::{CombinedSource, RowSource};
use crate::executable::windows::stacked;
use crate::lock::lock;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::OpMeter;

/// The inputs of opening a source, besides the source.
#[derive(Clone)]
pub(super) struct PartOpening {
    pub(super) page_cached: Option<PageCachedSource>,
    pub(super) environment: Environment,
    /// The other datasets with which it shares memory and open files.
    pub(super) others: usize,
}

impl PartOpening {
    /// Opens a source: one, or datasets that are read as one. `window_rows` is the size of the windows of its shuffle.
    ///
    /// # Errors
    /// Any error of opening one source; Internal when the index or the plan is of another source.
    pub(super) fn rows(
        &self,
        stages: &Stages,
        index: Option<SourceIndex>,
        combination: Option<&Arc<Combination>>,
        (seed, window_rows): (Seed, u64),
    ) -> Result<RowSource> {
        let Source::Combined(combined) = &stages.source else {
            let sizes = (window_rows, self.others);
            return RowSource::open(stages, index, self.page_cached.as_ref(), sizes, &self.environment);
        };
        let other = || Error::internal("datasets that are read as one need their index and their plan");
        let (index, combination) = index.zip(combination).ok_or_else(other)?;
        if index.parts().len() != combined.parts.len() {
            return Err(other());
        }
        let others = (self.others + 1) * combined.parts.len() - 1;
        let parts = combined.parts.iter().zip(&stages.parts).zip(index.parts()).enumerate();
        let parts = parts.map(|(number, ((part, stages), index))| PartRows {
            name: part.name.clone(),
            stages: stages.clone(),
            index: index.clone(),
            combination: combination.inner(number).cloned(),
            seed: Combination::part_seed(seed, number),
            window_rows: combination.window_rows(number),
            opening: Self { others, ..self.clone() },
            opened: Mutex::default(),
        });
        let rows = CombinedRows {
            schema: Arc::new(stages.source.schema()?),
            has_names: combined.column.is_some(),
            how: How::of(&combined.how),
            parts: parts.collect(),
            index: index.clone(),
            combination: combination.clone(),
            memory: self.environment.memory.clone(),
            scratches: Mutex::default(),
        };
        Ok(RowSource::Combined(Arc::new(rows), index))
    }
}

/// Datasets that are read as one.
struct CombinedRows {
    schema: Arc<Schema>,
    /// Whether the last column is the name of a row's dataset.
    has_names: bool,
    how: How,
    parts: Vec<PartRows>,
    index: SourceIndex,
    combination: Arc<Combination>,
    memory: Memory,
    /// One for each thread that has read.
    scratches: Mutex<Vec<Scratch>>,
}

/// How a row is made of rows of datasets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is a row of one of them.
    OfOne,
    Zip,
    Window,
}

impl How {
    fn of(combining: &Combining) -> Self {
        match combining {
            Combining::Mix { .. } | Combining::Concatenate | Combining::Interleave { .. } => How::OfOne,
            Combining::Zip { .. } => How::Zip,
            Combining::Window { .. } => How::Window,
        }
    }
}

/// One of the datasets.
struct PartRows {
    name: String,
    stages: Arc<Stages>,
    index: SourceIndex,
    combination: Option<Arc<Combination>>,
    seed: Seed,
    window_rows: u64,
    opening: PartOpening,
    opened: Mutex<Option<Arc<OpenPart>>>,
}

/// The opened source of a dataset, and its ops.
struct OpenPart {
    rows: RowSource,
    ops: Vec<CompiledOp>,
}

/// Two functions for one dataset: the first returns the ids that its rows have among all rows, and the second replaces
/// the sample's number in an error of reading.
type Naming<'a> = (&'a dyn Fn(&Chunk) -> Arc<[RowId]>, &'a dyn Fn(Error) -> Error);

impl CombinedSource for CombinedRows {
    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        let mut scratch = lock(&self.scratches).pop().unwrap_or_default();
        let read = match self.how {
            How::OfOne => self.mix(places, &mut scratch),
            How::Zip => self.zip(places, &mut scratch),
            How::Window => self.windows(places, &mut scratch),
        };
        lock(&self.scratches).push(scratch);
        read
    }

    fn as_read(&self, place: Place, name: &str) -> Option<Chunk> {
        let found = |(number, part): (usize, &PartRows)| {
            let (place, open) = (self.own_place(number, place)?, part.open().ok()?);
            match part.name == name {
                true => open.rows.gather(&[place]).ok(),
                false => open.rows.as_read(place, name),
            }
        };
        self.parts.iter().enumerate().find_map(found)
    }
}

impl CombinedRows {
    /// Returns the place of a row of the mix, or of the zip, in one of the datasets; `None` if that dataset has no such
    /// row.
    fn own_place(&self, number: usize, place: Place) -> Option<Place> {
        let row = match self.how {
            How::OfOne => self.index.part_of(place.row).filter(|(part, _)| *part == number).map(|(_, row)| row),
            How::Zip => self.combination.zipped(number, &[place.row]).first().copied(),
            How::Window => self.combination.window(place.row).map(|rows| self.combination.zipped(0, &[rows.start])[0]),
        };
        row.map(|row| Place { row, ..place })
    }

    /// Reads rows of a mix or a concatenation: each row is from one dataset.
    fn mix(&self, places: &[Place], scratch: &mut Scratch) -> Result<Chunk> {
        let mut found = Vec::with_capacity(places.len());
        for (at, place) in places.iter().enumerate() {
            let (part, row) = self.index.part_of(place.row).ok_or_else(|| Error::internal("there is no such row"))?;
            found.push((part, at, row));
        }
        found.sort_unstable();
        let (mut chunks, mut rows, mut losses) = (Vec::new(), vec![(0, 0); places.len()], Vec::new());
        for own in found.chunk_by(|a, b| a.0 == b.0) {
            let (number, part) = (own[0].0, &self.parts[own[0].0]);
            let local: Vec<_> = own.iter().map(|&(_, at, row)| Place { row, epoch: places[at].epoch }).collect();
            let global = |sample: SampleId| self.index.sample_of_part(number, sample);
            let ids = |chunk: &Chunk| {
                chunk.ids().iter().map(|id| RowId { sample: global(id.sample), ..*id }).collect::<Arc<[_]>>()
            };
            let named = |error: Error| match error.get("sample").and_then(sample_id) {
                Some(sample) => error.replace("sample", global(sample)),
                None => error,
            };
            let chunk = part.gather(&local, (&ids, &named), &mut losses, scratch);
            chunks.push(chunk.map_err(|e| e.with("part", &part.name))?);
            own.iter().enumerate().for_each(|(row, &(_, at, _))| rows[at] = (chunks.len() - 1, row));
        }
        let of: Vec<&str> = found.chunk_by(|a, b| a.0 == b.0).map(|own| self.parts[own[0].0].name.as_str()).collect();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields().iter().take(self.schema.fields().len() - usize::from(self.has_names)) {
            let each = chunks.iter().map(|chunk| chunk.column(&field.name)).collect::<Result<Vec<_>>>()?;
            columns.push(match each.as_slice() {
                [] => new_empty_array(&field.kind.arrow()),
                // Rows of a single dataset already have the requested order.
                [one] => (*one).clone(),
                each => interleave(&field.kind, each, &rows, &self.memory)?,
            });
        }
        if self.has_names {
            columns.push(
                Arc::new(rows.iter().map(|(chunk, _)| Some(of[*chunk])).collect::<LargeStringArray>()) as ArrayRef
            );
        }
        let ids = rows.iter().map(|&(chunk, row)| chunks[chunk].ids()[row]).collect();
        Ok(Chunk::new(self.schema.clone(), columns, ids)?.with_losses(losses))
    }

    /// Reads rows of a zip: each row has the columns of all datasets.
    fn zip(&self, places: &[Place], scratch: &mut Scratch) -> Result<Chunk> {
        let rows: Vec<u64> = places.iter().map(|place| place.row).collect();
        let ids: Arc<[RowId]> =
            places.iter().map(|p| RowId { sample: self.index.locate(p.row), epoch: p.epoch }).collect();
        let (mut columns, mut losses) = (Vec::new(), Vec::new());
        for (number, part) in self.parts.iter().enumerate() {
            let local = self.combination.zipped(number, &rows);
            let local: Vec<_> = local.iter().zip(places).map(|(&row, p)| Place { row, epoch: p.epoch }).collect();
            let names: Naming<'_> = (&|_| ids.clone(), &|error| part.described(error));
            let chunk = part.gather(&local, names, &mut losses, scratch).map_err(|e| e.with("part", &part.name))?;
            for field in part.stages.graph.schema().fields() {
                columns.push(chunk.column(&field.name)?.clone());
            }
        }
        Ok(Chunk::new(self.schema.clone(), columns, ids)?.with_losses(losses))
    }
}

impl CombinedRows {
    /// Reads rows that are windows: each row that they share is read once.
    fn windows(&self, places: &[Place], scratch: &mut Scratch) -> Result<Chunk> {
        let other = || Error::internal("there is no such window");
        let [part] = self.parts.as_slice() else { return Err(other()) };
        let windows = places.iter().map(|place| Some((place.epoch, self.combination.window(place.row)?)));
        let windows = windows.collect::<Option<Vec<_>>>().ok_or_else(other)?;
        let mut needed: Vec<_> =
            windows.iter().flat_map(|(epoch, rows)| rows.clone().map(|row| (*epoch, row))).collect();
        needed.sort_unstable();
        needed.dedup();
        let rows: Vec<u64> = needed.iter().map(|(_, row)| *row).collect();
        let local = self.combination.zipped(0, &rows).into_iter().zip(&needed);
        let local: Vec<_> = local.map(|(row, (epoch, _))| Place { row, epoch: *epoch }).collect();
        let ids = |chunk: &Chunk| {
            let global = |id: &RowId| RowId { sample: self.index.sample_of_part(0, id.sample), ..*id };
            chunk.ids().iter().map(global).collect::<Arc<[_]>>()
        };
        let mut losses = Vec::new();
        let names: Naming<'_> = (&ids, &|error| part.described(error));
        // A row of the dataset is no window. Without its number, each window is computed alone to find the failing ones.
        let chunk = part.gather(&local, names, &mut losses, scratch);
        let chunk = chunk.map_err(|e| part.described(e).with("part", &part.name))?;
        // The rows of a window are neighbours among the rows that the chunk has.
        let at = |(epoch, rows): &(Epoch, Range<u64>)| {
            let first = needed.partition_point(|needed| *needed < (*epoch, rows.start));
            first..first + (rows.end - rows.start) as usize
        };
        let ranges: Vec<Range<usize>> = windows.iter().map(at).collect();
        let fields = self.schema.fields().iter();
        let columns = fields.map(|field| {
            let of = chunk.schema().field(&field.name)?;
            stacked(&of.kind, &field.kind, chunk.column(&field.name)?, &ranges)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let ids: Arc<[RowId]> =
            places.iter().map(|p| RowId { sample: self.index.locate(p.row), epoch: p.epoch }).collect();
        Ok(Chunk::new(self.schema.clone(), columns, ids)?.with_losses(losses))
    }
}

impl PartRows {
    /// Reads rows by their numbers in this dataset, and runs its ops on them. The ops see the ids among all datasets.
    fn gather(
        &self,
        places: &[Place],
        (ids, named): Naming<'_>,
        losses: &mut Vec<Loss>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let open = self.open()?;
        let read = open.rows.gather(places).map_err(|e| named(self.blamed(e)))?;
        let own = ids(&read);
        let warning = |loss: &Loss| {
            let at = read.ids().iter().position(|id| *id == loss.row);
            Loss { row: at.map_or(loss.row, |at| own[at]), ..loss.clone() }
        };
        losses.extend(read.losses().iter().map(warning));
        let mut chunk = read.with_ids(own.clone())?;
        for op in &open.ops {
            chunk = op.run(&chunk, None, scratch)?;
            losses.extend(chunk.losses().iter().cloned());
        }
        if chunk.num_rows() != places.len() {
            return Err(Error::internal(format!("{} rows of {} came", chunk.num_rows(), places.len())));
        }
        Ok(chunk)
    }

    /// Opens the dataset at the first call, and returns it.
    fn open(&self) -> Result<Arc<OpenPart>> {
        let mut opened = lock(&self.opened);
        if let Some(open) = &*opened {
            return Ok(open.clone());
        }
        let (stages, environment) = (&self.stages, &self.opening.environment);
        let sizes = (self.seed, self.window_rows);
        let rows = self.opening.rows(stages, Some(self.index.clone()), self.combination.as_ref(), sizes)?;
        let (meter, mut schema) = (OpMeter::new(environment.watch.clone()), Arc::new(stages.source.schema()?));
        let mut ops = Vec::with_capacity(stages.split.len());
        for fused in &stages.split {
            let op = CompiledOp::new(fused, &schema, self.seed, environment, &meter)?;
            schema = op.schema().clone();
            ops.push(op);
        }
        Ok(opened.insert(Arc::new(OpenPart { rows, ops })).clone())
    }

    /// Adds the source to an error of a file that is no sample's fault, and the dataset to the name of a sample.
    fn blamed(&self, error: Error) -> Error {
        let is_of_source = error.fault() == Fault::Other && error.get("file").is_some() && error.get("op").is_none();
        let error = if is_of_source { self.stages.graph.blame_source(error) } else { error };
        match error.get("sample").map(|sample| (sample_id(sample), format!("{sample} (part {})", self.name))) {
            Some((None, name)) => error.replace("sample", name),
            _ => error,
        }
    }

    /// Replaces a sample's number in this dataset by its name.
    fn described(&self, error: Error) -> Error {
        match error.get("sample").and_then(sample_id) {
            Some(sample) => {
                error.replace("sample", format!("{} (part {})", self.index.describe_sample(sample), self.name))
            }
            None => error,
        }
    }
}

/// Parses a sample's number in the form that errors have.
fn sample_id(text: &str) -> Option<SampleId> {
    let (block, row) = text.split_once(':')?;
    let (block, row) = (block.parse().ok()?, row.parse().ok()?);
    (block < SampleId::BLOCKS_MAX && row < SampleId::ROWS_MAX).then(|| SampleId::new(block, row))
}

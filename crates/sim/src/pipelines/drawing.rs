//! Draws the pipelines that simulated jobs run from their numbers.
//!
//! Ranges with ops of every class that changes a consumer's work: splits of whole batches and other splits, rows that
//! are filtered, epochs that end early. From [`CUT`] on, they end in row ops that workers may leave to consumers; some
//! have images, whose default boundary is before `normalize`. All are cheap, so that a seed takes milliseconds.

mod drawn;
pub(crate) mod mixed;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use bytes::Bytes;
use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema, write_ipc};
use forebay_exec::Budget;
use forebay_io::{Blobs, NoBlobs};
use forebay_plan::{Binary, BlobId, Expr, Graph, Layout, Op, Source, ops};

use crate::faults::dice::Dice;
pub(crate) use drawn::{Drawn, PIPELINES};
use drawn::{column, light};

/// The first pipeline with several boundaries.
pub(crate) const CUT: usize = 48;
/// Of these, every fourth has images.
const IMAGES_EVERY: usize = 4;
/// Height and width of an image: large enough that the default boundary is before `normalize`.
const SIDE: usize = 36;

/// Arrays in memory, under any name.
struct Arrays(Bytes);

impl Blobs for Arrays {
    fn get(&self, _: &BlobId) -> Result<Bytes> {
        Ok(self.0.clone())
    }
}

/// Draws the pipeline of a number.
pub(crate) fn draw(number: usize, dice: &mut Dice) -> Result<Drawn> {
    if number >= PIPELINES {
        return mixed::draw(number, dice);
    }
    let has_images = number >= CUT && number.is_multiple_of(IMAGES_EVERY);
    let rows = if has_images { dice.pick(&[61, 120]) } else { dice.pick(&[0, 7, 61, 120, 200, 311]) };
    let (source, blobs) = match has_images {
        true => images(rows)?,
        false => (Source::Range { start: 0, stop: rows, step: 1 }, Arc::new(NoBlobs) as Arc<dyn Blobs>),
    };
    let (graph, rows, budget) = (Graph::new(source, None)?, rows as u64, Budget::default());
    let mut drawn = Drawn { graph, ops: Vec::new(), rows, blobs, budget, fails: false, coordinated: None };
    if dice.percent(60) {
        drawn.then(Op::SHUFFLE)?;
    }
    if dice.percent(30) || number >= CUT {
        let value = column("id", Binary::Mul, 3);
        drawn.then(Op::WithColumn(ops::WithColumn { column: "thrice".to_owned(), value }))?;
    }
    if dice.percent(35) {
        let left = Box::new(column("id", Binary::Mod, 3));
        let predicate = Expr::Binary { op: Binary::Ne, left, right: Box::new(Expr::Int { value: 1 }) };
        drawn.then(Op::FilterExpr(ops::FilterExpr { predicate }))?;
    }
    if has_images {
        let column = "image".to_owned();
        drawn.then(Op::Normalize(ops::Normalize { column, mean: vec![0.4], std: vec![0.2], layout: Layout::Chw }))?;
    }
    if number >= CUT {
        for nth in 0..dice.within(2..5) {
            let op = light(drawn.graph.schema(), nth, dice);
            drawn.then(op)?;
        }
    }
    if dice.percent(20) {
        drawn.then(Op::Take(ops::Take { count: dice.within(0..120) }))?;
    }
    if dice.percent(70) {
        drawn.then(Op::Batch(ops::Batch { size: dice.within(3..17) as usize, drop_remainder: dice.percent(30) }))?;
    }
    Ok(drawn)
}

/// Makes rows with an image each.
fn images(rows: i64) -> Result<(Source, Arc<dyn Blobs>)> {
    let shape = [SIDE, SIDE, 1];
    let fields =
        vec![Field::new("id", Kind::scalar(DType::Int64)), Field::new("image", Kind::fixed(DType::Uint8, &shape))];
    let mut images = FixedTensorBuilder::new(DType::Uint8, &shape, rows as usize);
    for row in 0..rows as usize {
        let pixels = images.slot(row).iter_mut().enumerate();
        pixels.for_each(|(at, pixel)| *pixel = (at * 7 + row * 31) as u8);
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let ids = (0..rows).map(|row| RowId { sample: SampleId(row as u64), epoch: Epoch(0) }).collect();
    let chunk = Chunk::new(Arc::new(Schema::new(fields.clone())?), vec![numbers, images.finish()?], ids)?;
    let mut blob = Vec::new();
    write_ipc(&[chunk], false, &mut blob)?;
    let source = Source::Memory { blob: BlobId("images".to_owned()), rows: rows as u64, fields };
    Ok((source, Arc::new(Arrays(blob.into()))))
}

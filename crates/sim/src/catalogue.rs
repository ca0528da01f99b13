//! The pipelines that simulated jobs run, drawn from their numbers.
//!
//! Ranges with ops of every class that changes a consumer's work: splits of whole batches and other splits, rows that
//! are filtered, epochs that end early. From [`CUT`] on, they end in row ops that workers may leave to consumers; some
//! have images, whose default boundary is before `normalize`. All are cheap, so that a seed takes milliseconds.

pub(crate) mod mixed;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use bytes::Bytes;
use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema, write_ipc};
use forebay_exec::Budget;
use forebay_io::{Blobs, NoBlobs};
use forebay_plan::{Binary, BlobId, Expr, Graph, Layout, Node, Op, Source, ops};

use crate::dice::Dice;
use crate::pipeline::Pipeline;

/// The number of pipelines.
pub(crate) const PIPELINES: usize = 76;
/// The first pipeline with several boundaries.
pub(crate) const CUT: usize = 48;
/// Of these, every fourth has images.
const IMAGES_EVERY: usize = 4;
/// Height and width of an image: large enough that the default boundary is before `normalize`.
const SIDE: usize = 36;

/// A pipeline, and the arrays that travel with it.
pub(crate) struct Drawn {
    pub(crate) graph: Graph,
    pub(crate) ops: Vec<Op>,
    pub(crate) rows: u64,
    pub(crate) blobs: Arc<dyn Blobs>,
    /// The budget of skipped samples.
    pub(crate) budget: Budget,
    /// Whether failing samples are skipped.
    pub(crate) fails: bool,
    /// For coordinated consumers: the graph of the rows that they share, the rows of a batch, and whether short batches
    /// are dropped.
    pub(crate) coordinated: Option<(Graph, usize, bool)>,
}

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

impl Drawn {
    fn then(&mut self, op: Op) -> Result<()> {
        self.graph = self.graph.then(Node::new(op.clone()))?;
        self.ops.push(op);
        Ok(())
    }
}

/// Draws an op that a consumer may run. Ops in another order, or with one missing, yield another result: names change,
/// and narrowed numbers stay narrow.
fn light(schema: &Schema, nth: u64, dice: &mut Dice) -> Op {
    let field = &schema.fields()[dice.index(schema.fields().len())];
    let name = field.name.clone();
    match dice.within(0..10) {
        0..5 if field.kind.dtype() == Some(DType::Float32) => {
            Op::Cast(ops::Cast { columns: vec![(name, DType::Float16.into())] })
        }
        0..5 => {
            let dtype = dice.pick(&[DType::Int8, DType::Uint8, DType::Int16, DType::Float32, DType::Float64]);
            Op::Cast(ops::Cast { columns: vec![(name, dtype.into())] })
        }
        5..8 => Op::Rename(ops::Rename { columns: vec![(name.clone(), format!("{name}{nth}"))] }),
        8 if schema.fields().len() > 1 => Op::Drop(ops::Drop { columns: vec![name] }),
        _ => {
            let mut columns: Vec<_> = schema.fields().iter().map(|field| field.name.clone()).collect();
            columns.reverse();
            Op::Select(ops::Select { columns })
        }
    }
}

fn column(name: &str, op: Binary, value: i64) -> Expr {
    let left = Box::new(Expr::Col { name: name.to_owned() });
    Expr::Binary { op, left, right: Box::new(Expr::Int { value }) }
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

/// All pipelines, each made on first use.
#[derive(Default)]
pub(crate) struct Catalogue(RefCell<HashMap<usize, Rc<Pipeline>>>);

impl Catalogue {
    pub(crate) fn get(&self, number: usize) -> Rc<Pipeline> {
        let made =
            || Rc::new(Pipeline::new(number).unwrap_or_else(|e| panic!("pipeline {number} of the simulation: {e}")));
        self.0.borrow_mut().entry(number).or_insert_with(made).clone()
    }
}

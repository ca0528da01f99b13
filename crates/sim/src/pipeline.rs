//! The pipelines that simulated jobs run, and what each must give: computed once, by the real executable and merge.
//!
//! Ranges with ops of every class that changes what a consumer has to do: splits of whole batches and splits that are
//! not, rows that are left out, epochs that end early. They are cheap, so that a seed takes milliseconds.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use forebay_core::rng::mix64;
use forebay_core::{ConsumerIndex, Epoch, Error, Ordinal, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory};
use forebay_exec::{Asked, Delivery, Environment, Executable, Known, Merge, NoFunctions, Position, Scratch};
use forebay_io::NoBlobs;
use forebay_plan::{Binary, Deal, EpochPlan, Expr, Graph, Node, Op, Sizing, Source};
use forebay_proto::JobDefinition;

use crate::dice::Dice;

/// How many there are.
pub(crate) const PIPELINES: usize = 48;
/// Rows of a unit where batches are not aligned with splits.
const UNIT_ROWS: u64 = 8;

/// (consumer, epoch, ordinal).
type Place = (u32, u64, u64);

/// One pipeline with its job's settings.
pub(crate) struct Pipeline {
    pub(crate) text: String,
    /// As a dispatcher records it, but for its number and name.
    pub(crate) definition: JobDefinition,
    /// Whether its splits are taken to be of unknown length: chunks come in order, their number at the end.
    pub(crate) streamed: bool,
    pub(crate) tail: Arc<Executable>,
    executable: Arc<Executable>,
    /// What each consumer must get.
    pub(crate) expected: Vec<Rc<[u64]>>,
    chunks: RefCell<HashMap<Place, Rc<[Chunk]>>>,
}

fn column(name: &str, op: Binary, value: i64) -> Expr {
    let left = Box::new(Expr::Col { name: name.to_owned() });
    Expr::Binary { op, left, right: Box::new(Expr::Int { value }) }
}

/// Draws the ops of a pipeline.
fn ops(dice: &mut Dice) -> Vec<Op> {
    let mut ops = Vec::new();
    if dice.percent(60) {
        ops.push(Op::Shuffle {});
    }
    if dice.percent(30) {
        let value = column("id", Binary::Mul, 3);
        ops.push(Op::WithColumn { column: "thrice".to_owned(), value });
    }
    if dice.percent(35) {
        let left = Box::new(column("id", Binary::Mod, 3));
        let predicate = Expr::Binary { op: Binary::Ne, left, right: Box::new(Expr::Int { value: 1 }) };
        ops.push(Op::FilterExpr { predicate });
    }
    if dice.percent(20) {
        ops.push(Op::Take { count: dice.within(0..120) });
    }
    if dice.percent(70) {
        ops.push(Op::Batch { size: dice.within(3..17) as usize, drop_remainder: dice.percent(30) });
    }
    ops
}

impl Pipeline {
    /// Makes the pipeline of a number.
    fn new(number: usize) -> Result<Self> {
        let mut dice = Dice::new(number as u64, 77);
        let rows = dice.pick(&[0, 7, 61, 120, 200, 311]);
        let mut graph = Graph::new(Source::Range { start: 0, stop: rows, step: 1 }, None)?;
        let ops = ops(&mut dice);
        for op in &ops {
            graph = graph.then(Node::new(op.clone()))?;
        }
        let (epochs, consumers, seed) = (dice.within(1..4), dice.within(1..4) as u32, dice.within(0..1000));
        let (stages, deal) = Deal::choose(&graph, consumers, None, false)?;
        let stages = Arc::new(stages);
        let index = forebay_io::index(graph.source(), stages.counted, None, None, 1, &|_, _| Ok(()))?;
        let extent = index.extent();
        let unit_rows = stages.aligned.map_or(UNIT_ROWS, |b| b.size as u64);
        let split_units = dice.within(1..5);
        let sizing = Sizing { unit_rows, morsel_units: dice.within(1..1 + split_units), split_units };
        // What several could not do each for itself, one does.
        let shared = EpochPlan::new(&stages, extent, Seed(seed), consumers, Some(sizing)).is_ok();
        let consumers = if shared { consumers } else { 1 };
        let deal = Deal { consumers, even: shared && deal.even, ..deal };
        let plan = |even| {
            let deal = Deal { even, ..deal };
            EpochPlan::new(&stages, extent, Seed(seed), deal, Some(sizing))
        };
        // Where there are fewer batches than consumers, none could have as many as the others.
        let even = deal.even && plan(true).is_ok() && dice.percent(50);
        let plan = Arc::new(plan(even)?);
        let functions = Arc::new(NoFunctions);
        let environment = Environment {
            blobs: Arc::new(NoBlobs),
            functions,
            memory: Memory::default(),
            keeping: None,
            watch: Arc::new(SystemClock::default()),
        };
        let json = |e: serde_json::Error| Error::internal(e.to_string());
        let mut pipeline = Self {
            text: format!(
                "range({rows}) {ops:?}, epochs {epochs}, consumers {consumers}, seed {seed}, even {even}, {sizing:?}"
            ),
            definition: JobDefinition {
                job: 0,
                name: String::new(),
                graph: graph.to_json(),
                seed,
                epochs,
                consumers,
                extent: serde_json::to_string(&extent).map_err(json)?,
                sizing: serde_json::to_string(&sizing).map_err(json)?,
                index: String::new(),
                even,
                ..JobDefinition::default()
            },
            streamed: dice.percent(25),
            tail: Executable::for_reader(stages.clone(), plan.clone(), &environment)?,
            executable: Executable::new(stages, plan, Some(index), &environment)?,
            expected: Vec::new(),
            chunks: RefCell::default(),
        };
        pipeline.expected = (0..consumers).map(|i| pipeline.reference(i)).collect::<Result<_>>()?;
        Ok(pipeline)
    }

    /// Returns the chunks of a split: the pure function that every worker computes.
    pub(crate) fn chunks(&self, consumer: u32, epoch: u64, ordinal: u64) -> Result<Rc<[Chunk]>> {
        if let Some(known) = self.chunks.borrow().get(&(consumer, epoch, ordinal)) {
            return Ok(known.clone());
        }
        let mut chunks = Vec::new();
        let index = ConsumerIndex(consumer);
        for morsel in self.executable.plan().morsels(index, Ordinal(ordinal)) {
            let mut emit = |chunk| {
                chunks.push(chunk);
                Ok(())
            };
            let (known, mut scratch) = (Known::default(), Scratch::default());
            let ops = self.executable.stop(None);
            let asked = Asked { epoch: Epoch(epoch), consumer: index, morsel, known: &known, ops };
            self.executable.morsel(&asked, &mut scratch, &mut emit)?;
        }
        let chunks: Rc<[Chunk]> = chunks.into();
        self.chunks.borrow_mut().insert((consumer, epoch, ordinal), chunks.clone());
        Ok(chunks)
    }

    /// Computes what a consumer must get, one item after the other.
    fn reference(&self, consumer: u32) -> Result<Rc<[u64]>> {
        let mut merge = Merge::new(self.tail.clone(), ConsumerIndex(consumer), &Position::default())?;
        let splits = self.executable.plan().num_splits(ConsumerIndex(consumer)).unwrap_or(0);
        let mut items = Vec::new();
        for epoch in 0..self.definition.epochs {
            for ordinal in 0..splits {
                for (index, chunk) in (0..).zip(&*self.chunks(consumer, epoch, ordinal)?) {
                    if !merge.is_satisfied() {
                        merge.push(ordinal, index, chunk.clone())?;
                    }
                }
            }
            merge.end_epoch()?;
            while let Some(delivery) = merge.pop() {
                items.extend(digests(&delivery));
            }
        }
        Ok(items.into())
    }
}

/// Returns a number for each item that a user gets: for a batch one, for single samples one each.
pub(crate) fn digests(delivery: &Delivery) -> Vec<u64> {
    let of = |chunk: &Chunk| {
        let values = chunk.columns().iter().filter_map(|c| c.as_any().downcast_ref::<Int64Array>());
        let start = mix64(delivery.epoch.0 ^ (chunk.num_rows() as u64) << 32);
        values.flat_map(|c| c.values().iter()).fold(start, |hash, v| mix64(hash ^ *v as u64))
    };
    match delivery.batched {
        true => vec![of(&delivery.chunk)],
        false => (0..delivery.chunk.num_rows()).map(|row| of(&delivery.chunk.slice(row, 1))).collect(),
    }
}

/// Every pipeline, made when it is first asked for.
#[derive(Default)]
pub(crate) struct Catalogue(RefCell<HashMap<usize, Rc<Pipeline>>>);

impl Catalogue {
    pub(crate) fn get(&self, number: usize) -> Rc<Pipeline> {
        let made =
            || Rc::new(Pipeline::new(number).unwrap_or_else(|e| panic!("pipeline {number} of the simulation: {e}")));
        self.0.borrow_mut().entry(number).or_insert_with(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_every_row_once_where_nothing_is_left_out() {
        let catalogue = Catalogue::default();
        let mut seen = 0;
        for pipeline in (0..PIPELINES).map(|n| catalogue.get(n)) {
            if ["Take", "Filter", "drop_remainder: true"].iter().any(|op| pipeline.text.contains(op)) {
                continue;
            }
            seen += 1;
            let splits = |i| pipeline.executable.plan().num_splits(ConsumerIndex(i)).expect("counted");
            let places = (0..pipeline.definition.consumers).flat_map(|i| (0..splits(i)).map(move |o| (i, o)));
            let mut ids: Vec<i64> = Vec::new();
            for (consumer, ordinal) in places {
                for chunk in &*pipeline.chunks(consumer, 0, ordinal).expect("computed") {
                    let column = chunk.column("id").expect("a column").clone();
                    ids.extend(column.as_any().downcast_ref::<Int64Array>().expect("int64").values());
                }
            }
            ids.sort_unstable();
            let rows = pipeline.executable.plan().rows().expect("counted") as i64;
            assert!(ids.into_iter().eq(0..rows), "{}", pipeline.text);
        }
        assert!(seen > PIPELINES / 8, "{seen}");
    }
}

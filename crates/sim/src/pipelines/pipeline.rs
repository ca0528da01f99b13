//! One pipeline with its job's settings, and the expected output of each consumer: computed once, by the real
//! executable and merge.
//!
//! The expected output is computed as in one process, without a placement boundary. Workers' chunks are computed up to
//! any boundary that they may get, and consumers finish them.

mod due;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, ErrorKind, Ordinal, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_exec::{Budget, Environment, Executable, KnownSkips, MorselRequest, NoFunctions, Scratch};
use forebay_plan::{Ending, EpochPlan, Graph, Op, Sharding, Sizing, Stages};
use forebay_proto::JobDefinition;

use crate::faults::dice::Dice;
use crate::pipelines::drawing::{Drawn, draw, mixed};
use due::Rounds;
pub(crate) use due::{Due, KnownLost, missing};

/// Rows of a unit if batches are not aligned with splits.
const UNIT_ROWS: u64 = 8;

/// (consumer, epoch, ordinal).
type Split = (u32, u64, u64);
/// A split, and the number of row ops that have run.
type Piece = (Split, u32);

/// Returns the rows of a window of the shuffle; 0 if the shuffle permutes all rows at once. Pipelines with even numbers
/// have windows, some of them shorter than a split.
fn window_rows(graph: &Graph, number: usize) -> u64 {
    let is_shuffled = graph.nodes().first().is_some_and(|node| matches!(node.op, Op::Shuffle(_)));
    if is_shuffled && number.is_multiple_of(2) { 16 + number as u64 * 7 % 64 } else { 0 }
}

/// One pipeline with its job's settings.
pub(crate) struct Pipeline {
    pub(crate) text: String,
    /// The definition as a dispatcher records it, except for number and name.
    pub(crate) definition: JobDefinition,
    /// Whether its splits count as of unknown length: chunks come in order, and their number at the end.
    pub(crate) streamed: bool,
    /// The executable of consumers.
    pub(crate) tail: Arc<Executable>,
    /// The executable of workers.
    pub(crate) worker: Arc<Executable>,
    /// The executable of a single process; for coordinated consumers, that of the rows that they share.
    whole: Arc<Executable>,
    /// The budget of skipped samples.
    pub(crate) budget: Budget,
    /// Whether failing samples are skipped.
    pub(crate) fails: bool,
    /// The batches of coordinated consumers.
    rounds: Option<Rounds>,
    /// The expected output of each consumer, if only failing samples are lost.
    pub(crate) expected: Vec<Rc<Due>>,
    chunks: RefCell<HashMap<Piece, Rc<[Chunk]>>>,
    whole_chunks: RefCell<HashMap<Split, Rc<[Chunk]>>>,
}

impl Pipeline {
    /// Makes the pipeline of a number.
    pub(crate) fn new(number: usize) -> Result<Self> {
        let (number, more_epochs, more_seed) = mixed::variant(number);
        let mut dice = Dice::new(number as u64, 77);
        let Drawn { graph, ops, rows, blobs, budget, fails, coordinated } = draw(number, &mut dice)?;
        let (epochs, consumers, seed) = (dice.within(1..4), dice.within(1..4) as u32, dice.within(0..1000));
        let (epochs, seed) = (epochs + more_epochs, seed + more_seed);
        // Common endings of epochs are tested apart from these: their samples do not fail, and each rank has its own
        // rows.
        let is_mixed = fails || coordinated.is_some();
        let (stages, sharding) = Sharding::choose(&graph, consumers, None, coordinated.is_some())?;
        let stages = Arc::new(stages);
        let index = forebay_io::index(
            graph.source(),
            &forebay_io::Allowed::everything(),
            stages.counted,
            None,
            None,
            1,
            &|_, _| Ok(()),
        )?;
        let extent = index.extent();
        let unit_rows = stages.unit.map_or(UNIT_ROWS, |rows| rows as u64);
        // A split with two boundaries has several chunks.
        let is_cut = stages.placement_boundaries()?.len() > 1;
        let split_units = dice.within(if is_cut { 3..8 } else { 1..5 });
        let morsel_units = dice.within(1..1 + if is_cut { 2 } else { split_units });
        let window_rows = window_rows(&graph, number);
        let sizing = Sizing { unit_rows, morsel_units, split_units, window_rows, window_bytes: 0 };
        // If several consumers cannot divide the plan, one consumer reads all.
        let among = Sharding { even: false, ..sharding };
        let shared = EpochPlan::new(&stages, extent.clone(), Seed(seed), among, Some(sizing)).is_ok();
        let consumers = if shared { consumers } else { 1 };
        let sharding = Sharding { consumers, even: shared && sharding.even, ..sharding };
        let plan = |even| {
            let sharding = Sharding { even, ..sharding };
            EpochPlan::new(&stages, extent.clone(), Seed(seed), sharding, Some(sizing))
        };
        // With fewer batches than consumers, shares cannot be even.
        let even = sharding.even && plan(true).is_ok() && dice.percent(50);
        let plan = Arc::new(plan(even)?);
        let functions = Arc::new(NoFunctions);
        let environment = Environment {
            blobs,
            functions,
            memory: Memory::default(),
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        let json = |e: serde_json::Error| Error::internal(e.to_string());
        let (whole, rounds) = match coordinated {
            None => (Executable::new(stages.clone(), plan.clone(), Some(index.clone()), &environment)?, None),
            Some((graph, size, drop_remainder)) => {
                let stages = Arc::new(Stages::in_parts(&graph, 1)?);
                let plan = EpochPlan::new(&stages, extent.clone(), Seed(seed), 1, Some(sizing))?;
                let alone = Executable::new(stages, Arc::new(plan), Some(index.clone()), &environment)?;
                (alone, Some(Rounds { consumers: consumers as usize, size, drop_remainder }))
            }
        };
        let mut pipeline = Self {
            text: format!(
                "{rows} rows {ops:?}, epochs {epochs}, consumers {consumers}, seed {seed}, even {even}, \
                 {}budget {budget:?}, {sizing:?}",
                if rounds.is_some() { "coordinated, " } else { "" }
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
                coordinated: rounds.is_some(),
                ..JobDefinition::default()
            },
            streamed: dice.percent(25),
            tail: Executable::for_consumer(stages.clone(), plan.clone(), &environment)?,
            worker: Executable::for_worker(stages, plan, Some(index), &environment)?,
            whole,
            budget,
            fails,
            rounds,
            expected: Vec::new(),
            chunks: RefCell::default(),
            whole_chunks: RefCell::default(),
        };
        let due = |i| pipeline.due(i, &KnownLost::new());
        let all = (0..consumers).map(due).collect::<Result<Vec<_>>>()?;
        // A consumer without batches has none to repeat: all consumers would fail.
        let can_pad = all.iter().flat_map(|due| &due.ends).all(|items| items.start < items.end);
        let ending = match dice.within(0..4) {
            _ if even || consumers == 1 || is_mixed => Ending::Apart,
            0 => Ending::Apart,
            1 if can_pad => Ending::Pad,
            _ => Ending::Drop,
        };
        pipeline.definition.ending = forebay_proto::Ending::from(ending).into();
        pipeline.text += &format!(", ending {ending:?}");
        pipeline.expected = due::ended(ending, all);
        Ok(pipeline)
    }

    /// Returns whether its splits may come in any order, with the same output.
    pub(crate) fn may_come_in_any_order(&self) -> bool {
        let stages = self.tail.stages();
        let is_cut_in_splits = stages.aligned.is_some() || stages.batching().is_none();
        let is_apart = self.definition.ending() == forebay_proto::Ending::Apart;
        is_apart && !self.fails && is_cut_in_splits && self.tail.check_any_order().is_ok()
    }

    /// Returns the number of placement boundaries of its splits.
    pub(crate) fn places(&self) -> u32 {
        self.worker.boundaries().count() as u32
    }

    /// Returns the columns of chunks on which so many row ops have run; `None` if that is no boundary.
    pub(crate) fn columns(&self, ops: u32) -> Option<&Arc<Schema>> {
        self.worker.boundaries().find(|(stop, _)| *stop == ops).map(|(_, schema)| schema)
    }

    /// Returns the chunks of a split after so many row ops: the pure function that every worker computes.
    pub(crate) fn chunks(&self, place: (u32, u64, u64), ops: u32) -> Result<Rc<[Chunk]>> {
        if let Some(known) = self.chunks.borrow().get(&(place, ops)) {
            return Ok(known.clone());
        }
        let chunks: Rc<[Chunk]> = compute(&self.worker, place, ops, &KnownSkips::default())?.into();
        self.chunks.borrow_mut().insert((place, ops), chunks.clone());
        Ok(chunks)
    }

    /// Returns one of these chunks, without samples that are known to be lost.
    pub(crate) fn chunk(
        &self,
        place: (u32, u64, u64),
        ops: u32,
        index: usize,
        known: &KnownSkips,
    ) -> Result<Option<Chunk>> {
        if known.is_empty() {
            return Ok(self.chunks(place, ops)?.get(index).cloned());
        }
        Ok(compute(&self.worker, place, ops, known)?.get(index).cloned())
    }
}

/// Returns the error of a sample whose process died: it might not fail again.
pub(crate) fn process_died(row: RowId) -> Error {
    Error::new(ErrorKind::Function, "the process that ran it died").with("fault", "process").with("sample", row.sample)
}

/// Computes the chunks of a split, up to a boundary.
fn compute(
    executable: &Executable,
    (consumer, epoch, ordinal): (u32, u64, u64),
    ops: u32,
    known: &KnownSkips,
) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let consumer = ConsumerIndex(consumer);
    for morsel in executable.plan().morsels(consumer, Ordinal(ordinal)) {
        let mut emit = |chunk| {
            chunks.push(chunk);
            Ok(())
        };
        let mut scratch = Scratch::default();
        let asked = MorselRequest { epoch: Epoch(epoch), consumer, morsel, first_chunk: 0, known_skips: known, ops };
        executable.morsel(&asked, &mut scratch, &mut emit)?;
    }
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, Int64Array};

    use super::*;
    use crate::pipelines::catalogue::Catalogue;
    use crate::pipelines::drawing::{CUT, PIPELINES};

    /// Returns all splits of the first epoch.
    fn splits(pipeline: &Pipeline) -> impl Iterator<Item = (u32, u64, u64)> {
        let splits = |i| pipeline.whole.plan().num_splits(ConsumerIndex(i)).expect("counted");
        (0..pipeline.definition.consumers).flat_map(move |i| (0..splits(i)).map(move |o| (i, 0, o)))
    }

    #[test]
    fn the_reference_is_every_row_once_where_nothing_is_left_out() {
        let catalogue = Catalogue::default();
        let mut seen = 0;
        for pipeline in (0..CUT).map(|n| catalogue.get(n)) {
            if ["Take", "Filter", "drop_remainder: true"].iter().any(|op| pipeline.text.contains(op)) {
                continue;
            }
            seen += 1;
            let mut ids: Vec<i64> = Vec::new();
            for place in splits(&pipeline) {
                for chunk in &*pipeline.chunks(place, pipeline.worker.resolve_boundary(None)).expect("computed") {
                    let column = chunk.column("id").expect("a column").clone();
                    ids.extend(column.as_any().downcast_ref::<Int64Array>().expect("int64").values());
                }
            }
            ids.sort_unstable();
            let rows = pipeline.whole.plan().rows().expect("counted") as i64;
            assert!(ids.into_iter().eq(0..rows), "{}", pipeline.text);
        }
        assert!(seen > PIPELINES / 8, "{seen}");
    }

    #[test]
    fn readers_make_the_same_of_what_workers_send_wherever_it_is_cut() {
        let catalogue = Catalogue::default();
        let (mut cut, mut before) = (0, 0);
        for pipeline in (0..PIPELINES).map(|n| catalogue.get(n)) {
            let stops: Vec<_> = pipeline.worker.boundaries().map(|(ops, _)| ops).collect();
            cut += usize::from(stops.len() > 2);
            before += usize::from(stops.last() != Some(&pipeline.worker.resolve_boundary(None)));
            for place in splits(&pipeline) {
                let whole =
                    compute(&pipeline.whole, place, pipeline.whole.resolve_boundary(None), &KnownSkips::default())
                        .expect("computed");
                for &ops in &stops {
                    let sent = pipeline.chunks(place, ops).expect("computed");
                    assert_eq!(sent.len(), whole.len(), "{}", pipeline.text);
                    for (sent, whole) in sent.iter().zip(&whole) {
                        let done = pipeline.tail.finish(sent.clone(), ops).expect("finished");
                        assert!(done.same_bits(whole), "{} cut after {ops} row ops", pipeline.text);
                    }
                }
            }
        }
        assert!(
            cut > (PIPELINES - CUT) / 2 && before > 2,
            "{cut} have three places or more, {before} another usual one"
        );
    }
}

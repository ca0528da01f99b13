//! Where the row ops of a split may be divided between a worker and the reader of a service: before ops that do little but
//! make the rows larger (`normalize` turns 150 KB into 600 KB), so that the smaller rows travel.
//!
//! A pure function of the stages: every worker and every reader of a job find the same places. Only ops that see one row, draw
//! nothing, fail on no sample and cost about as much as copying may move; what they give does not depend on where they
//! run, and they come after `cache()` and every place that `autocache()` may keep: what is kept is made by workers. Which of the
//! places it is may change from one chunk to the next, because a chunk says which ops have run on it. In one
//! process there is no cut.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::ops::expr::cast_may_fail;
use crate::ops::op::Op;
use crate::physical::stages::{Stages, Step, Work};

/// A column whose size is not fixed is taken to be this large.
const UNKNOWN_BYTES: usize = 64 << 10;
/// Rows below this are not worth a second pass over them.
const ROW_BYTES_MIN: usize = 4 << 10;

/// The row ops of a split, divided.
#[derive(Debug, Clone)]
pub struct Cut {
    /// How many of them workers do: names the place.
    pub ops: u32,
    /// What workers do.
    pub worker: Vec<Work>,
    /// What readers do with the chunks that workers send.
    pub reader: Vec<Work>,
    /// The columns that travel.
    pub schema: Arc<Schema>,
}

impl Cut {
    /// Returns the bytes of a row that travels, as far as its columns say.
    pub fn row_bytes(&self) -> usize {
        self.schema.row_bytes(UNKNOWN_BYTES)
    }
}

impl Stages {
    /// Returns the places where row ops may be divided, the earliest first; at the last one nothing is left to readers.
    ///
    /// # Errors
    /// Internal when the graph is not what it was checked to be.
    pub fn cuts(&self) -> Result<Vec<Cut>> {
        let kept = match self.candidates.last() {
            Some(last) => last.steps,
            None => self.prefix().iter().map(|work| work.steps().len()).sum(),
        };
        let all: Vec<_> = self.split.iter().flat_map(Work::steps).collect();
        let source = self.source.schema()?;
        let inputs = std::iter::once(&source).chain(all.iter().map(|step| &*step.schema));
        let steps: Vec<_> = all.iter().zip(inputs).skip(kept).collect();
        let may_move = |(step, input): &&(&&Step, &Schema)| may_run_at_reader(&step.node.op, input);
        let moving = steps.iter().rev().take_while(may_move).count();
        (all.len() - moving..=all.len()).map(|ops| self.cut_after(&all, ops)).collect()
    }

    /// Returns the place that is taken while nothing is known but the columns: where rows are smallest, if that saves at least half
    /// of large rows; as late as possible.
    ///
    /// # Errors
    /// As [`Stages::cuts`].
    pub fn cut(&self) -> Result<Cut> {
        let mut cuts = self.cuts()?;
        let usual = usual(&cuts);
        Ok(cuts.swap_remove(usual))
    }

    /// Divides the row ops after the first `ops` of them.
    fn cut_after(&self, all: &[&Step], ops: usize) -> Result<Cut> {
        let schema = match ops.checked_sub(1).and_then(|last| all.get(last)) {
            Some(last) => last.schema.clone(),
            None => Arc::new(self.source.schema()?),
        };
        let reader = all.iter().skip(ops).map(|step| Work::of((*step).clone())).collect();
        Ok(Cut { ops: ops as u32, worker: self.first_ops(ops), reader, schema })
    }

    /// Returns what the first `ops` row ops are.
    pub fn first_ops(&self, ops: usize) -> Vec<Work> {
        let mut left = ops;
        let mut first = Vec::new();
        for work in &self.split {
            match work {
                _ if left == 0 => break,
                Work::Image { column, steps } => {
                    let steps: Vec<_> = steps.iter().take(left).cloned().collect();
                    left -= steps.len();
                    first.push(Work::Image { column: column.clone(), steps });
                }
                work => {
                    left -= 1;
                    first.push(work.clone());
                }
            }
        }
        first
    }
}

/// Returns the number of the place that is taken while nothing is known but the columns, among [`Stages::cuts`].
pub fn usual(cuts: &[Cut]) -> usize {
    let last = cuts.len().saturating_sub(1);
    let whole = cuts.last().map_or(0, Cut::row_bytes);
    if whole < ROW_BYTES_MIN {
        return last;
    }
    let mut best = (whole / 2 + 1, last);
    for (place, cut) in cuts.iter().enumerate().rev().skip(1) {
        if cut.row_bytes() < best.0 {
            best = (cut.row_bytes(), place);
        }
    }
    best.1
}

/// Says whether an op over rows of `input` sees one row, draws nothing, fails on none and costs about as much as copying.
pub(crate) fn may_run_at_reader(op: &Op, input: &Schema) -> bool {
    match op {
        Op::Normalize { .. } | Op::Select { .. } | Op::Drop { .. } | Op::Rename { .. } => true,
        Op::Cast { columns } => !cast_may_fail(columns, input),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use forebay_data::{DType, Field, Kind};

    use super::*;
    use crate::ops::arguments::Layout;
    use crate::source::{BlobId, Source};
    use crate::{Graph, Node};

    const SIDE: usize = 64;

    fn normalize() -> Op {
        Op::Normalize { column: "x".to_owned(), mean: vec![0.5; 3], std: vec![0.5; 3], layout: Layout::Chw }
    }

    fn cast(dtype: DType) -> Op {
        Op::Cast { columns: vec![("x".to_owned(), dtype.into())] }
    }

    /// The names of the ops on each side, and the bytes of a row that travels.
    fn cut(side: usize, ops: Vec<Op>) -> (Vec<&'static str>, Vec<&'static str>, usize) {
        let fields = vec![
            Field::new("x", Kind::fixed(DType::Uint8, &[side, side, 3])),
            Field::new("label", Kind::scalar(DType::Int64)),
        ];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.into_iter().fold(graph, |graph, op| graph.then(Node::new(op)).expect("an op"));
        let cut = Stages::new(&graph).expect("stages").cut().expect("a cut");
        let names = |works: &[Work]| works.iter().flat_map(Work::steps).map(|s| s.node.op.name()).collect();
        (names(&cut.worker), names(&cut.reader), cut.schema.row_bytes(0))
    }

    #[test]
    fn what_only_makes_rows_larger_is_done_by_the_reader() {
        let crop = || Op::CenterCrop { column: "x".to_owned(), height: 48, width: 48 };
        let pixels = 48 * 48 * 3;
        assert_eq!(cut(SIDE, vec![crop(), normalize()]), (vec!["center_crop"], vec!["normalize"], pixels + 8));
        let only_y = Op::Rename { columns: vec![("x".to_owned(), "y".to_owned())] };
        let ops = vec![normalize(), only_y, Op::Cast { columns: vec![("y".to_owned(), DType::Float64.into())] }];
        assert_eq!(cut(SIDE, ops), (vec![], vec!["normalize", "rename", "cast"], SIDE * SIDE * 3 + 8));
    }

    #[test]
    fn there_are_as_many_places_as_ops_that_may_move_and_an_image_op_is_cut_in_two() {
        let fields = vec![Field::new("x", Kind::fixed(DType::Uint8, &[SIDE, SIDE, 3]))];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let crop = Op::CenterCrop { column: "x".to_owned(), height: 48, width: 48 };
        let ops = [crop, normalize(), cast(DType::Float64)];
        let graph =
            ops.into_iter().try_fold(Graph::new(source, None).expect("a source"), |g, op| g.then(Node::new(op)));
        let stages = Stages::new(&graph.expect("ops")).expect("stages");
        let cuts = stages.cuts().expect("cuts");
        let found: Vec<_> = cuts.iter().map(|cut| (cut.ops, cut.worker.len(), cut.reader.len())).collect();
        assert_eq!(found, [(1, 1, 2), (2, 1, 1), (3, 2, 0)]);
        assert_eq!(cuts[1].worker[0].steps().len(), 2, "cropped and normalized in one pass");
        assert_eq!((usual(&cuts), stages.cut().expect("a cut").ops), (0, 1));
    }

    #[test]
    fn a_cast_that_may_fail_stays_with_the_worker() {
        let to = |column: &str, dtype: DType| (column.to_owned(), dtype.into());
        let fields =
            vec![Field::new("x", Kind::fixed(DType::Uint8, &[SIDE, SIDE, 3])), Field::new("label", Kind::Utf8)];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let both = Op::Cast { columns: vec![to("x", DType::Float32), to("label", DType::Int64)] };
        let graph = Graph::new(source, None).and_then(|graph| graph.then(Node::new(both)));
        let cuts = Stages::new(&graph.expect("an op")).expect("stages").cuts().expect("cuts");
        assert_eq!(cuts.iter().map(|cut| cut.reader.len()).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn nothing_moves_that_saves_little_or_could_see_more_than_its_row() {
        assert_eq!(cut(SIDE, vec![cast(DType::Int8)]).1, [""; 0], "no smaller before");
        assert_eq!(cut(16, vec![normalize()]).1, [""; 0], "small rows");
        let (column, value) = ("x".to_owned(), None);
        let erase = Op::RandomErasing { column, probability: 0.5, scale: (0.1, 0.2), ratio: (0.5, 2.0), value };
        assert_eq!(cut(SIDE, vec![normalize(), erase]).1, [""; 0], "a random op comes after");
    }
}

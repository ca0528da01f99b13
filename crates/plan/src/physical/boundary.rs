//! Placement boundaries: the places where the row ops of a split may be divided between a worker and the consumer.
//!
//! Some ops only make rows larger (`normalize` turns 150 KB into 600 KB), so a consumer may run them on the smaller
//! rows that travel. An op may move if it processes one row at a time, draws no random number, fails on no sample and
//! costs about as much as a copy: then its output does not depend on where it runs. It must come after `cache()` and
//! every candidate of `autocache()`, because workers fill the cache.
//!
//! A pure function of the stages, so every worker and consumer of a job finds the same boundaries. The boundary may
//! change from one chunk to the next, because a chunk states which ops have run on it. A pipeline in one process has
//! none.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::physical::stages::Stages;
use crate::physical::steps::{FusedOp, Step};

/// The assumed size of a column whose size is not fixed.
const UNKNOWN_BYTES: usize = 64 << 10;
/// Smaller rows than this are not worth a second pass.
const ROW_BYTES_MIN: usize = 4 << 10;

/// The row ops of a split, divided between a worker and the consumer.
#[derive(Debug, Clone)]
pub struct PlacementBoundary {
    /// The number of row ops that the worker runs. It identifies the boundary.
    pub ops_on_worker: u32,
    /// The ops that the worker runs.
    pub worker: Vec<FusedOp>,
    /// The ops that the consumer runs on the worker's chunks.
    pub consumer: Vec<FusedOp>,
    /// The columns that travel.
    pub schema: Arc<Schema>,
}

impl PlacementBoundary {
    /// Returns the bytes of a row that travels; a column of unknown size counts as 64 KiB.
    pub fn row_bytes(&self) -> usize {
        self.schema.row_bytes(UNKNOWN_BYTES)
    }
}

impl Stages {
    /// Returns the legal boundaries, the earliest first. At the last one the consumer runs no op.
    ///
    /// # Errors
    /// Internal when the graph does not pass its own checks.
    pub fn placement_boundaries(&self) -> Result<Vec<PlacementBoundary>> {
        let cached = match self.candidates.last() {
            Some(last) => last.steps,
            None => self.prefix().iter().map(|fused| fused.steps().len()).sum(),
        };
        let all: Vec<_> = self.split.iter().flat_map(FusedOp::steps).collect();
        let source = self.source.schema()?;
        let inputs = std::iter::once(&source).chain(all.iter().map(|step| &*step.schema));
        let steps: Vec<_> = all.iter().zip(inputs).skip(cached).collect();
        let may_move = |(step, input): &&(&&Step, &Schema)| step.node.op.spec().may_run_on_consumer(input);
        let moving = steps.iter().rev().take_while(may_move).count();
        (all.len() - moving..=all.len()).map(|ops| self.boundary_after(&all, ops)).collect()
    }

    /// Returns the boundary that holds until costs are measured: see [`default_boundary`].
    ///
    /// # Errors
    /// Errors of [`Stages::placement_boundaries`].
    pub fn default_boundary(&self) -> Result<PlacementBoundary> {
        let mut boundaries = self.placement_boundaries()?;
        let default = default_boundary(&boundaries);
        Ok(boundaries.swap_remove(default))
    }

    /// Divides the row ops after the first `ops` of them.
    fn boundary_after(&self, all: &[&Step], ops: usize) -> Result<PlacementBoundary> {
        let schema = match ops.checked_sub(1).and_then(|last| all.get(last)) {
            Some(last) => last.schema.clone(),
            None => Arc::new(self.source.schema()?),
        };
        let consumer = all.iter().skip(ops).map(|step| FusedOp::of((*step).clone())).collect();
        Ok(PlacementBoundary { ops_on_worker: ops as u32, worker: self.first_ops(ops), consumer, schema })
    }

    /// Returns the first `ops` row ops, fused.
    pub fn first_ops(&self, ops: usize) -> Vec<FusedOp> {
        let mut left = ops;
        let mut first = Vec::new();
        for fused in &self.split {
            match fused {
                _ if left == 0 => break,
                FusedOp::Image { column, steps } => {
                    let steps: Vec<_> = steps.iter().take(left).cloned().collect();
                    left -= steps.len();
                    first.push(FusedOp::Image { column: column.clone(), steps });
                }
                fused => {
                    left -= 1;
                    first.push(fused.clone());
                }
            }
        }
        first
    }
}

/// Returns the index, in [`Stages::placement_boundaries`], of the boundary that holds until costs are measured: the one
/// with the smallest rows, if it at least halves large rows; else the last. Among equals, the latest.
pub fn default_boundary(boundaries: &[PlacementBoundary]) -> usize {
    let last = boundaries.len().saturating_sub(1);
    let whole = boundaries.last().map_or(0, PlacementBoundary::row_bytes);
    if whole < ROW_BYTES_MIN {
        return last;
    }
    let mut best = (whole / 2 + 1, last);
    for (index, boundary) in boundaries.iter().enumerate().rev().skip(1) {
        if boundary.row_bytes() < best.0 {
            best = (boundary.row_bytes(), index);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use forebay_data::{DType, Field, Kind};

    use super::*;
    use crate::ops::{self, Layout, Op};
    use crate::source::{BlobId, Source};
    use crate::{Graph, Node};

    const SIDE: usize = 64;

    fn normalize() -> Op {
        Op::Normalize(ops::Normalize {
            column: "x".to_owned(),
            mean: vec![0.5; 3],
            std: vec![0.5; 3],
            layout: Layout::Chw,
        })
    }

    fn cast(dtype: DType) -> Op {
        Op::Cast(ops::Cast { columns: vec![("x".to_owned(), dtype.into())] })
    }

    /// Returns the names of the ops on each side, and the bytes of a row that travels.
    fn split_at_default(side: usize, ops: Vec<Op>) -> (Vec<&'static str>, Vec<&'static str>, usize) {
        let fields = vec![
            Field::new("x", Kind::fixed(DType::Uint8, &[side, side, 3])),
            Field::new("label", Kind::scalar(DType::Int64)),
        ];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.into_iter().fold(graph, |graph, op| graph.then(Node::new(op)).expect("an op"));
        let boundary = Stages::new(&graph).expect("stages").default_boundary().expect("a boundary");
        let names =
            |fused_ops: &[FusedOp]| fused_ops.iter().flat_map(FusedOp::steps).map(|s| s.node.op.name()).collect();
        (names(&boundary.worker), names(&boundary.consumer), boundary.schema.row_bytes(0))
    }

    #[test]
    fn the_consumer_runs_ops_that_only_make_rows_larger() {
        let crop = || Op::CenterCrop(ops::CenterCrop { column: "x".to_owned(), height: 48, width: 48 });
        let pixels = 48 * 48 * 3;
        assert_eq!(
            split_at_default(SIDE, vec![crop(), normalize()]),
            (vec!["center_crop"], vec!["normalize"], pixels + 8)
        );
        let only_y = Op::Rename(ops::Rename { columns: vec![("x".to_owned(), "y".to_owned())] });
        let ops =
            vec![normalize(), only_y, Op::Cast(ops::Cast { columns: vec![("y".to_owned(), DType::Float64.into())] })];
        assert_eq!(split_at_default(SIDE, ops), (vec![], vec!["normalize", "rename", "cast"], SIDE * SIDE * 3 + 8));
    }

    #[test]
    fn each_op_that_may_move_adds_a_boundary_and_a_fused_image_op_can_be_divided() {
        let fields = vec![Field::new("x", Kind::fixed(DType::Uint8, &[SIDE, SIDE, 3]))];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let crop = Op::CenterCrop(ops::CenterCrop { column: "x".to_owned(), height: 48, width: 48 });
        let ops = [crop, normalize(), cast(DType::Float64)];
        let graph =
            ops.into_iter().try_fold(Graph::new(source, None).expect("a source"), |g, op| g.then(Node::new(op)));
        let stages = Stages::new(&graph.expect("ops")).expect("stages");
        let boundaries = stages.placement_boundaries().expect("boundaries");
        let found: Vec<_> = boundaries.iter().map(|b| (b.ops_on_worker, b.worker.len(), b.consumer.len())).collect();
        assert_eq!(found, [(1, 1, 2), (2, 1, 1), (3, 2, 0)]);
        assert_eq!(boundaries[1].worker[0].steps().len(), 2, "cropped and normalized in one pass");
        assert_eq!(
            (default_boundary(&boundaries), stages.default_boundary().expect("a boundary").ops_on_worker),
            (0, 1)
        );
    }

    #[test]
    fn a_cast_that_may_fail_stays_with_the_worker() {
        let to = |column: &str, dtype: DType| (column.to_owned(), dtype.into());
        let fields =
            vec![Field::new("x", Kind::fixed(DType::Uint8, &[SIDE, SIDE, 3])), Field::new("label", Kind::Utf8)];
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 10, fields };
        let both = Op::Cast(ops::Cast { columns: vec![to("x", DType::Float32), to("label", DType::Int64)] });
        let graph = Graph::new(source, None).and_then(|graph| graph.then(Node::new(both)));
        let stages = Stages::new(&graph.expect("an op")).expect("stages");
        let boundaries = stages.placement_boundaries().expect("boundaries");
        assert_eq!(boundaries.iter().map(|b| b.consumer.len()).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn an_op_that_saves_little_or_could_see_more_than_its_row_stays() {
        assert_eq!(split_at_default(SIDE, vec![cast(DType::Int8)]).1, [""; 0], "no smaller before");
        assert_eq!(split_at_default(16, vec![normalize()]).1, [""; 0], "small rows");
        let (column, value) = ("x".to_owned(), None);
        let erase = Op::RandomErasing(ops::RandomErasing {
            column,
            probability: 0.5,
            scale: (0.1, 0.2),
            ratio: (0.5, 2.0),
            value,
        });
        assert_eq!(split_at_default(SIDE, vec![normalize(), erase]).1, [""; 0], "a random op comes after");
    }
}

//! Where the row ops of a split are divided between a worker and the reader of a service: before ops that do little but
//! make the rows larger (`normalize` turns 150 KB into 600 KB), so that the smaller rows travel.
//!
//! A pure function of the stages: every worker and every reader of a job find the same cut. Only ops that see one row, draw
//! nothing, fail on no sample and cost about as much as copying may move; what they give does not depend on where they
//! run, and they come after `cache()` and every place that `autocache()` may keep: what is kept is made by workers. In one
//! process there is no cut.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::op::Op;
use crate::stages::{Stages, Work};

/// A column whose size is not fixed is taken to be this large.
const UNKNOWN_BYTES: usize = 64 << 10;
/// Rows below this are not worth a second pass over them.
const ROW_BYTES_MIN: usize = 4 << 10;

/// The row ops of a split, divided.
#[derive(Debug, Clone)]
pub struct Cut {
    /// What workers do.
    pub worker: Vec<Work>,
    /// What readers do with the chunks that workers send.
    pub reader: Vec<Work>,
    /// The columns that travel.
    pub schema: Arc<Schema>,
}

impl Stages {
    /// Divides the row ops: where rows are smallest, if that saves at least half of large rows; as late as possible.
    ///
    /// # Errors
    /// Internal when the graph is not what it was checked to be.
    pub fn cut(&self) -> Result<Cut> {
        let source = Arc::new(self.source.schema()?);
        let mut cut = Cut { worker: self.split.clone(), reader: Vec::new(), schema: self.split_schema()? };
        let whole = cut.schema.row_bytes(UNKNOWN_BYTES);
        if whole < ROW_BYTES_MIN {
            return Ok(cut);
        }
        let mut best = (whole / 2 + 1, None);
        let kept = match self.candidates.last() {
            Some(last) => last.steps,
            None => steps(self.prefix()),
        };
        while steps(&cut.worker) > kept
            && let Some(moved) = take_last(&mut cut.worker)
        {
            cut.reader.insert(0, moved);
            let before = cut.worker.last().and_then(|w| w.steps().last()).map(|s| &s.schema);
            cut.schema = before.unwrap_or(&source).clone();
            let bytes = cut.schema.row_bytes(UNKNOWN_BYTES);
            if bytes < best.0 {
                best = (bytes, Some(cut.clone()));
            }
        }
        match best {
            (_, Some(cut)) => Ok(cut),
            _ => Ok(Cut { worker: self.split.clone(), reader: Vec::new(), schema: self.split_schema()? }),
        }
    }
}

/// Says whether an op sees one row, draws nothing, fails on none and costs about as much as copying.
pub(crate) fn may_run_at_reader(op: &Op) -> bool {
    matches!(op, Op::Normalize { .. } | Op::Cast { .. } | Op::Select { .. } | Op::Drop { .. } | Op::Rename { .. })
}

fn steps(works: &[Work]) -> usize {
    works.iter().map(|work| work.steps().len()).sum()
}

/// Takes the last op, if it is one that may move.
fn take_last(works: &mut Vec<Work>) -> Option<Work> {
    let last = works.last_mut()?;
    if !last.steps().last().is_some_and(|s| may_run_at_reader(&s.node.op)) {
        return None;
    }
    match last {
        Work::Image { column, steps } if steps.len() > 1 => {
            steps.pop().map(|step| Work::Image { column: column.clone(), steps: vec![step] })
        }
        _ => works.pop(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_data::{DType, Field, Kind};

    use super::*;
    use crate::op::Layout;
    use crate::source::{BlobId, Source};
    use crate::{Graph, Node};

    const SIDE: usize = 64;

    fn normalize() -> Op {
        Op::Normalize { column: "x".to_owned(), mean: vec![0.5; 3], std: vec![0.5; 3], layout: Layout::Chw }
    }

    fn cast(dtype: DType) -> Op {
        Op::Cast { columns: vec![("x".to_owned(), dtype)] }
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
        let ops = vec![normalize(), only_y, Op::Cast { columns: vec![("y".to_owned(), DType::Float64)] }];
        assert_eq!(cut(SIDE, ops), (vec![], vec!["normalize", "rename", "cast"], SIDE * SIDE * 3 + 8));
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

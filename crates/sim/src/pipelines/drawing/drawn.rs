//! A drawn pipeline, and ops that are drawn alike for all pipelines.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::{DType, Schema};
use forebay_exec::Budget;
use forebay_io::Blobs;
use forebay_plan::{Binary, Expr, Graph, Node, Op, ops};

use crate::faults::dice::Dice;

/// The number of pipelines that are not mixed.
pub(crate) const PIPELINES: usize = 76;

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

impl Drawn {
    /// Adds an op.
    pub(super) fn then(&mut self, op: Op) -> Result<()> {
        self.graph = self.graph.then(Node::new(op.clone()))?;
        self.ops.push(op);
        Ok(())
    }
}

/// Draws an op that a consumer may run. Ops in another order, or with one missing, yield another result: names change,
/// and narrowed numbers stay narrow.
pub(super) fn light(schema: &Schema, nth: u64, dice: &mut Dice) -> Op {
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

/// Returns an expression of a column and a number.
pub(super) fn column(name: &str, op: Binary, value: i64) -> Expr {
    let left = Box::new(Expr::Col { name: name.to_owned() });
    Expr::Binary { op, left, right: Box::new(Expr::Int { value }) }
}

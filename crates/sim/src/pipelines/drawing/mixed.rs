//! Pipelines that skip failing samples, and jobs whose consumers are coordinated.
//!
//! A job may have a twin: its number plus some [`VARIANT`]s. One variant has the same samples for one more epoch; the
//! other has another seed, so that its chunks must never be used for the first job.

use std::sync::Arc;

use forebay_core::Result;
use forebay_exec::Budget;
use forebay_io::NoBlobs;
use forebay_plan::{Binary, Expr, Graph, OnError, Op, Source, ops};

use super::drawn::{Drawn, PIPELINES, column, light};
use crate::faults::dice::Dice;

/// The number of these pipelines, after the others.
const MIXED: usize = 48;
/// The summand for a variant of a job.
const VARIANT: usize = 1000;
/// The variants: no change; one epoch more; another seed.
const LONGER: usize = 1;
const RESEEDED: usize = 2;

/// Draws the number of such a job.
pub(crate) fn number(dice: &mut Dice) -> usize {
    PIPELINES + dice.index(MIXED)
}

/// Returns whether a number is one of these.
pub(crate) fn is_mixed(number: usize) -> bool {
    number % VARIANT >= PIPELINES
}

/// Draws a job that is like another one, or nearly so.
pub(crate) fn twin(number: usize, dice: &mut Dice) -> usize {
    number % VARIANT + VARIANT * dice.pick(&[0, 0, 0, LONGER, RESEEDED])
}

/// Returns whether the jobs of two numbers have the same samples.
pub(crate) fn is_same(a: usize, b: usize) -> bool {
    let ((a, _, a_seed), (b, _, b_seed)) = (variant(a), variant(b));
    (a, a_seed) == (b, b_seed)
}

/// Returns a job's own number, and the additional epochs and seed of its variant.
pub(crate) fn variant(number: usize) -> (usize, u64, u64) {
    let variant = number / VARIANT;
    (number % VARIANT, u64::from(variant == LONGER), u64::from(variant == RESEEDED))
}

/// Draws the pipeline of a number.
pub(super) fn draw(number: usize, dice: &mut Dice) -> Result<Drawn> {
    // A sample that fails at one consumer alone would shift the others' batches, so coordinated jobs may not skip
    // samples.
    let (fails, coordinated) = (!number.is_multiple_of(3), number.is_multiple_of(3));
    let rows = dice.pick(&[7, 61, 120, 200]);
    let source = Source::Range { start: 0, stop: rows, step: 1 };
    let on_error = if fails { OnError::Skip } else { OnError::Raise };
    let graph = Graph::new(source, None)?.with_on_error(on_error);
    let budget = match dice.within(0..10) {
        0..6 => Budget::Count(u64::MAX),
        6..9 => Budget::Count(dice.within(0..15)),
        _ => Budget::Share(0.05),
    };
    let mut drawn =
        Drawn { ops: Vec::new(), rows: rows as u64, blobs: Arc::new(NoBlobs), budget, fails, coordinated: None, graph };
    if dice.percent(60) {
        drawn.then(Op::SHUFFLE)?;
    }
    if fails && dice.percent(85) {
        let value = powers(dice.within(7..40) as i64, dice.within(1..4) as i64);
        drawn.then(Op::WithColumn(ops::WithColumn { column: "power".to_owned(), value }))?;
    }
    if dice.percent(35) {
        let left = Box::new(column("id", Binary::Mod, 3));
        let predicate = Expr::Binary { op: Binary::Ne, left, right: Box::new(Expr::Int { value: 1 }) };
        drawn.then(Op::FilterExpr(ops::FilterExpr { predicate }))?;
    }
    if dice.percent(50) {
        for nth in 0..dice.within(1..4) {
            let op = light(drawn.graph.schema(), nth, dice);
            drawn.then(op)?;
        }
    }
    if dice.percent(20) {
        drawn.then(Op::Take(ops::Take { count: dice.within(0..120) }))?;
    }
    if coordinated || dice.percent(70) {
        let (size, drop_remainder) = (dice.within(3..17) as usize, dice.percent(30));
        drawn.coordinated = coordinated.then(|| (drawn.graph.clone(), size, drop_remainder));
        drawn.then(Op::Batch(ops::Batch { size, drop_remainder }))?;
    }
    Ok(drawn)
}

/// Returns a column of integer powers whose exponents are negative for `some` of every `of` samples: these fail.
fn powers(of: i64, some: i64) -> Expr {
    let largest = Box::new(Expr::Int { value: of - 1 - some });
    let exponent = Expr::Binary { op: Binary::Sub, left: largest, right: Box::new(column("id", Binary::Mod, of)) };
    Expr::Binary { op: Binary::Pow, left: Box::new(column("id", Binary::Mod, 5)), right: Box::new(exponent) }
}

//! Token ids as a model trains on them: masked, with spans replaced, with the middle moved, with a prefix.
//!
//! Invariant: the result of a row follows from its ids and from its own random stream, which (seed, epoch, op, sample)
//! name. Each form draws in a fixed order.
//!
//! - `masked`: `mask_tokens`; `spans`: `corrupt_spans`; `middle`: `fill_in_middle`; `prefix`: `prefix_lm`

mod masked;
mod middle;
mod prefix;
mod spans;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, LargeStringArray};
use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Error, ErrorKind, Result, Seed};
use forebay_data::{Chunk, Int32Lists, Schema};
use forebay_plan::{MiddleTokens, Op, Step};

/// The label of an id that is not learned.
const IGNORED: i32 = -100;

/// A training form at its place.
pub(crate) struct TrainingFormOp {
    step: Step,
    seed: Seed,
}

/// A column of lists that is being made.
#[derive(Default)]
struct Lists {
    ids: Vec<i32>,
    ends: Vec<i32>,
}

impl Lists {
    /// Ends a list with the ids that were appended to `ids`.
    fn end(&mut self) -> Result<()> {
        self.ends.push(i32::try_from(self.ids.len()).map_err(|_| {
            Error::new(ErrorKind::Exhausted, "more than 2^31 tokens in one run of rows")
                .hint("give shorter documents: split them before they are tokenized")
        })?);
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef> {
        Int32Lists::column(self.ids, &self.ends)
    }
}

impl TrainingFormOp {
    pub(crate) fn new(step: &Step, seed: Seed) -> Self {
        Self { step: step.clone(), seed }
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    pub(crate) fn run(&self, chunk: &Chunk) -> Result<Chunk> {
        let made = self.columns(chunk).map_err(|e| self.step.node.blame(e))?;
        let column = |name: &str| match made.iter().find(|(made, _)| *made == name) {
            Some((_, column)) => Ok(column.clone()),
            None => chunk.column(name).cloned(),
        };
        let all = self.step.schema.fields().iter().map(|field| column(&field.name)).collect::<Result<_>>()?;
        chunk.with_columns(self.step.schema.clone(), all)
    }

    /// Returns the columns that the op makes.
    fn columns(&self, chunk: &Chunk) -> Result<Vec<(&str, ArrayRef)>> {
        let ids = chunk.random_ids();
        let rng = |row: usize| SampleRng::new(op_key(self.seed, ids[row].epoch, self.step.random), ids[row].sample);
        let lists = |column: &str| Int32Lists::of(chunk.column(column)?);
        let (mut kept, mut labels) = (Lists::default(), Lists::default());
        match &self.step.node.op {
            Op::MaskTokens(op) => {
                let given = lists(&op.column)?;
                for row in 0..given.rows() {
                    masked::mask(op, given.get(row), &mut rng(row), &mut kept.ids, &mut labels.ids);
                    kept.end()?;
                    labels.end()?;
                }
                Ok(vec![(&op.column, kept.finish()?), (&op.labels, labels.finish()?)])
            }
            Op::CorruptSpans(op) => {
                let given = lists(&op.column)?;
                for row in 0..given.rows() {
                    spans::corrupt(op, given.get(row), &mut rng(row), &mut kept.ids, &mut labels.ids);
                    kept.end()?;
                    labels.end()?;
                }
                Ok(vec![(&op.column, kept.finish()?), (&op.labels, labels.finish()?)])
            }
            Op::PrefixLm(op) => {
                let given = lists(&op.column)?;
                let mut lengths = Vec::with_capacity(given.rows());
                for row in 0..given.rows() {
                    lengths.push(prefix::divide(given.get(row), &mut rng(row), &mut labels.ids));
                    labels.end()?;
                }
                let lengths: ArrayRef = Arc::new(Int32Array::from(lengths));
                Ok(vec![(&op.labels, labels.finish()?), (&op.prefix_length, lengths)])
            }
            Op::FillInMiddle(op) => {
                let column = match &op.tokens {
                    MiddleTokens::Ids(tokens) => {
                        let given = lists(&op.column)?;
                        for row in 0..given.rows() {
                            let cut = middle::Cut::draw(op, given.get(row).len(), &mut rng(row));
                            middle::move_ids(cut, tokens, given.get(row), &mut kept.ids);
                            kept.end()?;
                        }
                        kept.finish()?
                    }
                    MiddleTokens::Texts(tokens) => {
                        let texts = chunk.column(&op.column)?.as_any().downcast_ref::<LargeStringArray>();
                        let texts = texts.ok_or_else(|| Error::internal("a text is a string"))?;
                        let moved = |row: usize| {
                            let text = (!texts.is_null(row)).then(|| texts.value(row))?;
                            let cut = middle::Cut::draw(op, text.chars().count(), &mut rng(row));
                            Some(middle::move_text(cut, tokens, text))
                        };
                        Arc::new((0..texts.len()).map(moved).collect::<LargeStringArray>()) as ArrayRef
                    }
                };
                Ok(vec![(&op.column, column)])
            }
            _ => Err(Error::internal("no training form")),
        }
    }
}

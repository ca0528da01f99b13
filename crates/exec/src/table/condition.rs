//! The conditions of filters, for a reader that leaves out rows.

use arrow_buffer::BooleanBufferBuilder;
use forebay_data::Chunk;
use forebay_io::{ConditionBits, RowCondition};
use forebay_plan::SourceCondition;

use super::expr::truths;

/// A condition, and the columns that it needs.
pub(crate) struct Condition {
    of: SourceCondition,
    columns: Vec<String>,
}

impl Condition {
    pub(crate) fn new(of: SourceCondition) -> Self {
        let mut columns: Vec<String> = Vec::new();
        of.expr.columns(&mut |name| {
            if !columns.iter().any(|known| known == name) {
                columns.push(name.to_owned());
            }
        });
        Self { of, columns }
    }

    /// Adds the bits of rows. Rows whose common result is an error are halved, down to the rows that fail.
    fn add(&self, rows: &Chunk, met: &mut BooleanBufferBuilder, failed: &mut BooleanBufferBuilder) {
        let count = rows.num_rows();
        match truths(&self.of.expr, rows, self.of.missing_stays) {
            Ok(bits) => {
                met.append_buffer(&bits);
                failed.append_n(count, false);
            }
            Err(_) if count <= 1 => {
                met.append_n(count, false);
                failed.append_n(count, true);
            }
            Err(_) => {
                self.add(&rows.slice(0, count / 2), met, failed);
                self.add(&rows.slice(count / 2, count - count / 2), met, failed);
            }
        }
    }
}

impl RowCondition for Condition {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn compute(&self, rows: &Chunk) -> ConditionBits {
        let (mut met, mut failed) =
            (BooleanBufferBuilder::new(rows.num_rows()), BooleanBufferBuilder::new(rows.num_rows()));
        self.add(rows, &mut met, &mut failed);
        ConditionBits { met: met.finish(), failed: failed.finish() }
    }
}

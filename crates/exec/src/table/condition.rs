//! The conditions of filters, for a reader that leaves out rows.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use forebay_data::Chunk;
use forebay_io::RowCondition;
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

    /// Adds one bit for each row. Rows whose common result is an error are halved, down to the rows that fail.
    fn add(&self, rows: &Chunk, bits: &mut BooleanBufferBuilder) {
        match (truths(&self.of.expr, rows, self.of.missing_stays), rows.num_rows()) {
            (Ok(stays), _) => bits.append_buffer(&stays),
            (Err(_), count @ 0..=1) => bits.append_n(count, true),
            (Err(_), count) => {
                self.add(&rows.slice(0, count / 2), bits);
                self.add(&rows.slice(count / 2, count - count / 2), bits);
            }
        }
    }
}

impl RowCondition for Condition {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn stays(&self, rows: &Chunk) -> BooleanBuffer {
        let mut bits = BooleanBufferBuilder::new(rows.num_rows());
        self.add(rows, &mut bits);
        bits.finish()
    }
}

//! The cost of a row, or a batch, at each placement boundary of a job, on both sides. Pure.

use std::sync::Arc;

use forebay_policy::placement::Cut;

use crate::state::limits::WORKER_SHARE_MIN;

/// The cost of a row at each boundary, and the index of the current one.
#[derive(Debug, Clone)]
pub(in crate::state) struct BoundaryCosts {
    pub(in crate::state) rows: Vec<RowCost>,
    pub(in crate::state) at: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct RowCost {
    /// Seconds of worker threads beyond those at the current boundary.
    pub(in crate::state) more: f64,
    /// Seconds of the consumer's process.
    pub(in crate::state) after: f64,
    pub(in crate::state) bytes: f64,
}

impl Default for BoundaryCosts {
    /// Returns the costs if there is no choice of boundaries, and nothing is known.
    fn default() -> Self {
        Self { rows: vec![RowCost::default()], at: 0 }
    }
}

impl BoundaryCosts {
    /// Returns the number of boundaries.
    pub(in crate::state) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of the current boundary, from 1 on.
    pub(in crate::state) fn current_number(&self) -> u32 {
        self.at as u32 + 1
    }

    /// Returns the cost of a row at the current boundary: seconds of the consumer's process, and bytes.
    pub(in crate::state) fn current(&self) -> (f64, f64) {
        self.rows.get(self.at).map_or((0.0, 0.0), |row| (row.after, row.bytes))
    }

    /// Returns the cost of a batch of `rows` rows at each boundary; at the current one workers spend `compute` seconds
    /// of one thread.
    pub(in crate::state) fn of_batch(&self, rows: f64, compute: f64) -> Arc<[Cut]> {
        let of = |row: &RowCost| Cut {
            before: (compute + row.more * rows).max(compute * WORKER_SHARE_MIN),
            after: row.after * rows,
            bytes: row.bytes * rows,
        };
        self.rows.iter().map(of).collect()
    }
}

//! Conversions between the counters of ops and their message.

use forebay_plan::{OpCounters, OpReport};

use crate::OpSpent;

impl From<OpReport> for OpSpent {
    fn from(OpReport { places, sums }: OpReport) -> Self {
        Self {
            places: places.into_iter().map(|place| place as u32).collect(),
            rows_in: sums.rows_in,
            rows_out: sums.rows_out,
            rows_found: sums.rows_found,
            timed: sums.timed,
            nanos: sums.nanos,
            bytes_in: sums.bytes_in,
            bytes_out: sums.bytes_out,
        }
    }
}

impl From<&OpSpent> for OpCounters {
    fn from(said: &OpSpent) -> Self {
        Self {
            rows_in: said.rows_in,
            rows_out: said.rows_out,
            rows_found: said.rows_found,
            timed: said.timed,
            nanos: said.nanos,
            bytes_in: said.bytes_in,
            bytes_out: said.bytes_out,
        }
    }
}

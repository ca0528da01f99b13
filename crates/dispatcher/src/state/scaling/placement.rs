//! The placement boundary of a job: workers run the ops before it, consumers run the ops behind it.
//!
//! The pipeline defines the legal boundaries (`plan::boundary`), the policy chooses one, and a lease names the boundary
//! at its grant. A chunk has the number of ops that ran on it, so processes need not agree on the boundary: it may
//! change from one lease to the next, and it is not persisted. A local worker runs all ops: it yields to the trainer,
//! and the consumer's process does not. Pure.

use forebay_plan::{FusedOp, Graph, PlacementBoundary, Stages, default_boundary};

use crate::records::JobRecord;
use crate::state::load::boundary_costs::{BoundaryCosts, RowCost};
use crate::state::load::op_costs::OpCosts;

/// Seconds per byte in or out of an op of unknown cost: about the cost of copying.
const COPY_BYTE_SECONDS: f64 = 0.25e-9;

/// A legal boundary.
#[derive(Debug, Clone)]
struct Boundary {
    /// How many row ops come before it.
    ops: u32,
    /// The places in the graph of the op before it and of the op behind it.
    before: Option<u32>,
    behind: Option<u32>,
    /// The name of the op behind it.
    name: &'static str,
    /// Bytes of a row there, as far as its columns show.
    row_bytes: f64,
}

/// The legal boundaries of a job, the earliest first, and the index of the current one.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Placement {
    boundaries: Vec<Boundary>,
    at: usize,
    /// Rows of a batch, if the pipeline makes batches.
    pub(in crate::state) batch: Option<usize>,
}

impl Placement {
    /// Finds the boundaries of a job. If its graph cannot be read there are none, and nothing is decided.
    pub(in crate::state) fn of(record: &JobRecord) -> Self {
        let read = || {
            let stages = Stages::in_parts(&Graph::from_json(&record.graph).ok()?, record.sharding().parts()).ok()?;
            let legal = stages.placement_boundaries().ok()?;
            let places: Vec<_> =
                stages.split.iter().flat_map(FusedOp::steps).map(|s| (s.place as u32, s.node.op.name())).collect();
            let of = |boundary: &PlacementBoundary| {
                let ops = boundary.ops_on_worker as usize;
                let behind = places.get(ops);
                Boundary {
                    ops: boundary.ops_on_worker,
                    before: ops.checked_sub(1).and_then(|last| places.get(last)).map(|(place, _)| *place),
                    behind: behind.map(|(place, _)| *place),
                    name: behind.map_or("", |(_, name)| name),
                    row_bytes: boundary.row_bytes() as f64,
                }
            };
            let batch = stages.batching().map(|batching| batching.size);
            Some(Self { boundaries: legal.iter().map(of).collect(), at: default_boundary(&legal), batch })
        };
        read().unwrap_or_default()
    }

    /// Returns how many row ops workers run; `None` if there is no choice.
    pub(in crate::state) fn ops_on_worker(&self) -> Option<u32> {
        let boundary = self.boundaries.get(self.at).filter(|_| self.boundaries.len() > 1)?;
        Some(boundary.ops)
    }

    /// Sets the boundary by its number, from 1 on. Returns whether it changed.
    pub(in crate::state) fn set(&mut self, number: u32) -> bool {
        let at = (number.max(1) as usize).min(self.boundaries.len().max(1)) - 1;
        std::mem::replace(&mut self.at, at) != at
    }

    /// Returns the number of row ops before a boundary; `None` if there is no choice.
    pub(in crate::state) fn ops_before(&self, number: u32) -> Option<u32> {
        let last = self.boundaries.len().checked_sub(1).filter(|last| *last > 0)?;
        self.boundaries.get((number.max(1) as usize - 1).min(last)).map(|boundary| boundary.ops)
    }

    /// Returns the worker seconds per row at the current boundary, estimated from the op costs of jobs that may have
    /// had another boundary.
    pub(in crate::state) fn worker_row(&self, ops: &OpCosts, costs: &BoundaryCosts) -> Option<f64> {
        let taken = self.boundaries.iter().zip(costs.rows.windows(2));
        let behind =
            taken.filter_map(|(boundary, rows)| Some((boundary.behind?, rows[0].after - rows[1].after))).collect();
        // The last op that workers run at every boundary; `None` stands for reading.
        let last = self.boundaries.first().and_then(|boundary| boundary.before);
        Some(ops.worker_row(last, &behind)? - costs.rows.first()?.more)
    }

    /// Returns the cost of rows at each boundary. For each op, the first of `shown` that has figures of it counts.
    pub(in crate::state) fn costs(&self, shown: &[&OpCosts]) -> BoundaryCosts {
        let between =
            |boundary: &Boundary| shown.iter().find_map(|ops| ops.bytes_between(boundary.before, boundary.behind));
        let bytes: Vec<_> =
            self.boundaries.iter().map(|boundary| between(boundary).unwrap_or(boundary.row_bytes)).collect();
        let op = |(place, boundary): (usize, &Boundary)| {
            let known = boundary.behind.and_then(|behind| shown.iter().find_map(|ops| ops.row_ns(behind)));
            let copied = || COPY_BYTE_SECONDS * bytes[place..].iter().take(2).sum::<f64>();
            known.map_or_else(copied, |ns| ns / 1e9)
        };
        let ops: Vec<_> = self.boundaries.iter().enumerate().map(op).collect();
        let sum = |from: usize, to: usize| ops.get(from..to).map_or(0.0, |ops| ops.iter().sum::<f64>());
        let last = self.boundaries.len().saturating_sub(1);
        let row = |(place, &bytes): (usize, &f64)| RowCost {
            more: sum(self.at, place.max(self.at)) - sum(place, self.at.max(place)),
            after: sum(place, last),
            bytes,
        };
        let rows: Vec<_> = bytes.iter().enumerate().map(row).collect();
        if rows.is_empty() { BoundaryCosts::default() } else { BoundaryCosts { rows, at: self.at } }
    }

    /// Describes the ops that consumers run, and the bytes of a row on the network; empty if there is no choice.
    pub(in crate::state) fn describe(&self, costs: &BoundaryCosts) -> String {
        if self.boundaries.len() < 2 {
            return String::new();
        }
        let names: Vec<_> = self
            .boundaries
            .iter()
            .skip(self.at)
            .map(|boundary| boundary.name)
            .filter(|name| !name.is_empty())
            .collect();
        let all = costs.rows.iter().map(|row| row.bytes).collect::<Vec<_>>();
        let (now, whole) = (kib(all[self.at]), kib(all.last().copied().unwrap_or_default()));
        match names.is_empty() {
            true => format!(
                "consumers run no ops: {now} a row travel; before {} it would be {}",
                self.boundaries[0].name,
                kib(all[0])
            ),
            false => format!("consumers run {}: {now} a row travel, not {whole}", names.join(", ")),
        }
    }
}

fn kib(bytes: f64) -> String {
    if bytes < 10_240.0 { format!("{bytes:.0} bytes") } else { format!("{:.0} KiB", bytes / 1024.0) }
}

#[cfg(test)]
pub(in crate::state) mod tests;

//! Where a job's splits are cut in two, the ops behind it being run by its readers, and what that costs on both sides.
//!
//! The places are the pipeline's own (`plan::cut`), the policy chooses among them, and a lease says which it was when it was granted.
//! A chunk says itself which ops have run on it, so nobody has to agree on the cut: it may change from one lease to the
//! next, and nothing of it is written down. A local worker runs all ops: it gives way to the trainer, and readers do not.
//! Pure.

use std::sync::Arc;

use forebay_core::Ticks;
use forebay_plan::{Graph, Stages, Work, usual_cut};
use forebay_policy::placement::Cut;
use forebay_policy::scaling::{Decision, Reason};

use crate::records::JobRecord;
use crate::state::jobs::lifecycle::whole;
use crate::state::limits::WORKER_SHARE_MIN;
use crate::state::load::op_costs::OpCosts;
use crate::state::{Job, State};

/// Seconds for each byte that goes in or out of an op of which nothing is known, but that it costs about as much as copying.
const COPY_BYTE_SECONDS: f64 = 0.25e-9;
/// Row ops that a worker is told to run, where it is to run all.
const ALL: u32 = u32::MAX;

/// A place where splits may be cut.
#[derive(Debug, Clone)]
struct Boundary {
    /// Row ops before it.
    ops: u32,
    /// The places in the graph of the op before it and of the one behind it.
    before: Option<u32>,
    behind: Option<u32>,
    /// The name of the one behind it.
    name: &'static str,
    /// Bytes of a row there, as far as its columns say.
    row_bytes: f64,
}

/// The places of a job, the earliest first, and which it is.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Placement {
    boundaries: Vec<Boundary>,
    at: usize,
    /// Rows of a batch, where it has any.
    pub(in crate::state) batch: Option<usize>,
}

/// What a row costs: seconds of a thread, and bytes, at each place.
#[derive(Debug, Clone)]
pub(in crate::state) struct BoundaryCosts {
    rows: Vec<RowCost>,
    at: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct RowCost {
    /// Of workers, more than where it is cut now.
    more: f64,
    /// Of the reader's process.
    after: f64,
    bytes: f64,
}

impl Placement {
    /// Finds the places of a job. One whose graph cannot be read has none, and nothing is decided.
    pub(in crate::state) fn of(record: &JobRecord) -> Self {
        let read = || {
            let stages = Stages::in_parts(&Graph::from_json(&record.graph).ok()?, record.deal().parts()).ok()?;
            let cuts = stages.cuts().ok()?;
            let places: Vec<_> =
                stages.split.iter().flat_map(Work::steps).map(|s| (s.place as u32, s.node.op.name())).collect();
            let of = |cut: &forebay_plan::Cut| {
                let ops = cut.ops as usize;
                let behind = places.get(ops);
                Boundary {
                    ops: cut.ops,
                    before: ops.checked_sub(1).and_then(|last| places.get(last)).map(|(place, _)| *place),
                    behind: behind.map(|(place, _)| *place),
                    name: behind.map_or("", |(_, name)| name),
                    row_bytes: cut.row_bytes() as f64,
                }
            };
            let batch = stages.batching().map(|batching| batching.size);
            Some(Self { boundaries: cuts.iter().map(of).collect(), at: usual_cut(&cuts), batch })
        };
        read().unwrap_or_default()
    }

    /// Returns how many row ops a worker is told to run.
    pub(in crate::state) fn ops_on_worker(&self, is_local: bool) -> Option<u32> {
        let boundary = self.boundaries.get(self.at).filter(|_| self.boundaries.len() > 1)?;
        Some(if is_local { ALL } else { boundary.ops })
    }

    /// Cuts there from now on; the first place is 1. Returns whether it was another one.
    pub(in crate::state) fn set(&mut self, cut: u32) -> bool {
        let at = (cut.max(1) as usize).min(self.boundaries.len().max(1)) - 1;
        std::mem::replace(&mut self.at, at) != at
    }

    /// Returns the number of row ops before a place, where there is more than one.
    pub(in crate::state) fn ops_before(&self, cut: u32) -> Option<u32> {
        let last = self.boundaries.len().checked_sub(1).filter(|last| *last > 0)?;
        self.boundaries.get((cut.max(1) as usize - 1).min(last)).map(|boundary| boundary.ops)
    }

    /// Returns what a row takes workers that run the ops before the cut, in seconds of a thread, as some jobs' ops show it: wherever
    /// the splits of these were cut.
    pub(in crate::state) fn worker_row(&self, ops: &OpCosts, costs: &BoundaryCosts) -> Option<f64> {
        let taken = self.boundaries.iter().zip(costs.rows.windows(2));
        let behind =
            taken.filter_map(|(boundary, rows)| Some((boundary.behind?, rows[0].after - rows[1].after))).collect();
        // What workers run wherever it is cut ends with this; `None` is what reads.
        let last = self.boundaries.first().and_then(|boundary| boundary.before);
        Some(ops.worker_row(last, &behind)? - costs.rows.first()?.more)
    }

    /// Returns what rows cost, as the first of some jobs' ops that says anything of an op shows it.
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
        BoundaryCosts { rows: if rows.is_empty() { vec![RowCost::default()] } else { rows }, at: self.at }
    }

    /// Says which ops readers run, and what travels so; nothing where there is nothing to choose.
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
                "readers run no ops: {now} a row travel; before {} it would be {}",
                self.boundaries[0].name,
                kib(all[0])
            ),
            false => format!("readers run {}: {now} a row travel, not {whole}", names.join(", ")),
        }
    }
}

fn kib(bytes: f64) -> String {
    if bytes < 10_240.0 { format!("{bytes:.0} bytes") } else { format!("{:.0} KiB", bytes / 1024.0) }
}

impl BoundaryCosts {
    /// Returns how many places there are.
    pub(in crate::state) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of the place where it is cut; the first is 1.
    pub(in crate::state) fn current_number(&self) -> u32 {
        self.at as u32 + 1
    }

    /// Returns what a row takes the reader's process where it is cut: seconds, and bytes.
    pub(in crate::state) fn current(&self) -> (f64, f64) {
        self.rows.get(self.at).map_or((0.0, 0.0), |row| (row.after, row.bytes))
    }

    /// Returns what a batch of so many rows takes, of which workers spend `compute` seconds of one thread.
    pub(in crate::state) fn of_batch(&self, rows: f64, compute: f64) -> Arc<[Cut]> {
        let of = |row: &RowCost| Cut {
            before: (compute + row.more * rows).max(compute * WORKER_SHARE_MIN),
            after: row.after * rows,
            bytes: row.bytes * rows,
        };
        self.rows.iter().map(of).collect()
    }
}

impl State {
    /// Returns what the rows of a job cost, as its own ops show it, and where they do not, those of earlier jobs on its dataset.
    pub(in crate::state) fn boundary_costs(&self, job: &Job) -> BoundaryCosts {
        let shown: Vec<_> = std::iter::once(&job.op_costs).chain(self.profiles.ops(&job.record)).collect();
        job.placement.costs(&shown)
    }

    /// Decides where a job is cut, as its policy may, and nothing else of it: for the simulation. Returns how many row ops workers are
    /// told to run.
    pub(crate) fn set_boundary(&mut self, now: Ticks, tenant: &str, name: &str, place: u32) -> Option<u32> {
        let id = *self.names.get(&whole(tenant, name))?;
        let workers = self.jobs.get(&id)?.scale.wanted().unwrap_or(1);
        let decision = Decision { workers, local: 0, cut: Some(place), reason: Reason::Fixed, figures: None };
        self.decided(now, id, workers, decision);
        self.jobs.get(&id)?.placement.ops_on_worker(false)
    }
}

#[cfg(test)]
pub(in crate::state) mod tests;

//! The state for display, put together from its machines, and the checks of its invariants.

use forebay_core::{Result, Ticks};
use forebay_plan::{Graph, Site};
use forebay_proto::{JobStatus, WorkerStatus, WrittenOp};

use super::leases::check::ensure;
use super::router::State;
use crate::records::{Ledger, Position};

/// The most ops of a pipeline that are listed, and the most characters of a title.
const WRITTEN_MAX: usize = 256;
const TITLE_CHARS_MAX: usize = 200;

/// Returns the ops of a graph in the order in which they were written; none if it cannot be read.
fn as_written(graph: &str) -> Vec<WrittenOp> {
    let Ok(graph) = Graph::from_json(graph) else { return Vec::new() };
    let op = |title: &str, site: Option<&Site>| WrittenOp {
        op: title.chars().take(TITLE_CHARS_MAX).collect(),
        line: site.map(ToString::to_string).unwrap_or_default(),
    };
    let source = op(graph.source().name(), graph.site());
    let ops = graph.nodes().iter().map(|node| op(&node.title(), node.site.as_ref()));
    std::iter::once(source).chain(ops).take(WRITTEN_MAX).collect()
}

impl State {
    /// Lists the jobs of a tenant, or of all tenants, the oldest first. For one name all decisions are listed, for all
    /// names only the last few. Keys are shown only to their tenant.
    pub(crate) fn list_jobs(&self, now: Ticks, tenant: Option<&str>, name: &str) -> Vec<JobStatus> {
        let local = self.leases.local_threads();
        let status = |(id, mut status): (u64, JobStatus)| {
            self.load.describe_consumers(now, id, &mut status.consumers);
            let record = self.leases.record(id);
            let op_costs = record.map(|record| self.load.shown_op_costs(record)).unwrap_or_default();
            JobStatus {
                local_threads: (0..status.consumers.len() as u32).filter_map(|i| local.get(&(id, i))).sum(),
                workers: self.scaling.wanted(id).unwrap_or(0),
                decisions: self.scaling.decisions(now, id, !name.is_empty()),
                caching: self.load.caching(id),
                ops: record.filter(|_| !name.is_empty()).map(|record| self.load.ops(record)).unwrap_or_default(),
                cut: self.scaling.describe_boundary(id, &op_costs),
                worked: self.fleet.cost(id),
                written: record
                    .filter(|_| !name.is_empty())
                    .map(|record| as_written(&record.graph))
                    .unwrap_or_default(),
                ..status
            }
        };
        self.leases.list_jobs(now, tenant, name).into_iter().map(status).collect()
    }

    /// Lists the workers that compute for a tenant, or all workers. The lost workers of the last 10 minutes come last. If
    /// several tenants use a worker, a tenant does not see the share of the others.
    pub(crate) fn list_workers(&self, now: Ticks, tenant: Option<&str>) -> Vec<WorkerStatus> {
        let status = |(id, status)| {
            let worker_type = self.fleet.worker_type(id);
            WorkerStatus {
                worker: format!("{:032x}", id.0),
                kind: worker_type.name().to_owned(),
                price: worker_type.price(),
                spot: worker_type.is_spot(),
                ..status
            }
        };
        let live = self.leases.list_workers(now, tenant).into_iter().map(status);
        live.chain(self.lost.list(now, tenant)).collect()
    }

    /// Checks the invariants of the module's documentation, if not too many splits are leased.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        self.leases.check()
    }

    /// Checks SP-10, and SP-5 except for splits that wait for another worker.
    ///
    /// # Errors
    /// Internal, naming a split that could be granted.
    pub(crate) fn check_progress(&self) -> Result<()> {
        self.leases.check_progress()
    }

    /// Checks SP-6, once everything is written: the ledger holds this state. A frontier at the start may be unwritten,
    /// and tokens that were sent to no process may be used again.
    ///
    /// # Errors
    /// Internal, with both.
    pub(crate) fn check_written(&self, written: &Ledger) -> Result<()> {
        let ours = Ledger { profiles: self.load.profiles().written().collect(), ..self.leases.ledger() };
        let moved = || written.frontiers.iter().filter(|(_, p)| **p != Position::default());
        let same = ours.jobs == written.jobs
            && ours.grants == written.grants
            && ours.skipped == written.skipped
            && ours.profiles == written.profiles
            && ours.frontiers.iter().eq(moved());
        ensure(same && ours.next_token >= written.next_token, || format!("SP-6: {ours:?} was written as {written:?}"))
    }
}

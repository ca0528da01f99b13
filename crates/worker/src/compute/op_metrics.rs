//! The cost of each job's ops on this worker since the last report to the dispatcher.
//!
//! A job that has ended is reported once more. Bounds: the jobs that are held, and the jobs that are not reported yet. A
//! report has about [`OPS_MAX`] ops; the others follow in the next reports, jobs in rotation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use forebay_exec::{Executable, OpMeter};
use forebay_proto::{JobOps, OpSpent};

use crate::lock::lock;

/// Ops in one report, unless one job alone has more.
const OPS_MAX: usize = 1024;

/// The meters of all jobs; the job to report next is in front.
#[derive(Default)]
pub(crate) struct OpMetrics(Mutex<VecDeque<(u64, Arc<OpMeter>)>>);

impl std::fmt::Debug for OpMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpMetrics").field("jobs", &lock(&self.0).len()).finish()
    }
}

impl OpMetrics {
    /// Reports the ops of a job from now on.
    pub(crate) fn watch(&self, job: u64, executable: &Executable) {
        lock(&self.0).push_back((job, executable.meter().clone()));
    }

    /// Returns the costs that are not reported yet.
    pub(crate) fn take_unreported(&self) -> Vec<JobOps> {
        let mut meters = lock(&self.0);
        let (mut report, mut ops) = (Vec::new(), 0);
        for _ in 0..meters.len() {
            if ops >= OPS_MAX {
                break;
            }
            let Some((job, meter)) = meters.pop_front() else { break };
            // Checked first: costs that are counted after this are in the next report.
            let is_over = Arc::strong_count(&meter) == 1;
            let costs: Vec<_> = meter.take(OPS_MAX).into_iter().map(OpSpent::from).collect();
            ops += costs.len();
            if !costs.is_empty() {
                report.push(JobOps { job, ops: costs });
            }
            if !is_over {
                meters.push_back((job, meter));
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, Result, SampleId, Seed, SystemClock};
    use forebay_data::{Chunk, Memory, RowId};
    use forebay_exec::{Environment, NoFunctions};
    use forebay_io::NoBlobs;
    use forebay_plan::{EpochPlan, Extent, Graph, Node, Op, Source, Stages, ops};

    use super::*;

    /// A pipeline of two ops, and a row for it.
    fn pipeline() -> Result<(Arc<Executable>, Chunk)> {
        let graph = Graph::new(Source::Range { start: 0, stop: 9, step: 1 }, None)?;
        let rename = |from: &str, to: &str| {
            Node::new(Op::Rename(ops::Rename { columns: vec![(from.to_owned(), to.to_owned())] }))
        };
        let graph = graph.then(rename("id", "a"))?.then(rename("a", "b"))?;
        let stages = Arc::new(Stages::new(&graph)?);
        let extent = Extent { rows: Some(9), blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
        let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(1), 1, None)?);
        let environment = Environment {
            blobs: Arc::new(NoBlobs),
            functions: Arc::new(NoFunctions),
            memory: Memory::default(),
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        let schema = Arc::new(graph.source().schema()?);
        let id = RowId { sample: SampleId(0), epoch: Epoch(0) };
        let row = Chunk::new(schema, vec![Arc::new(arrow_array::Int64Array::from(vec![7]))], [id].into())?;
        Ok((Executable::for_rows(stages, plan, &environment)?, row))
    }

    #[test]
    fn what_ops_did_is_told_once_jobs_take_turns_and_one_that_is_over_has_the_last_word() {
        let metrics = OpMetrics::default();
        let jobs: Vec<_> = (0..600).map(|_| pipeline().expect("a pipeline")).collect();
        for (job, (executable, row)) in (0..).zip(&jobs) {
            metrics.watch(job, executable);
            executable.finish(row.clone(), 0).expect("runs");
        }
        let names = |told: Vec<JobOps>| told.iter().map(|job| (job.job, job.ops.len())).collect::<Vec<_>>();
        let (first, second) = (names(metrics.take_unreported()), names(metrics.take_unreported()));
        assert_eq!((first.len(), second.len()), (OPS_MAX / 2, 600 - OPS_MAX / 2), "two ops each, and a bound");
        assert_eq!((first[0], second[0]), ((0, 2), (512, 2)));
        assert_eq!(names(metrics.take_unreported()), []);
        let (executable, row) = &jobs[3];
        executable.finish(row.clone(), 0).expect("runs");
        drop(jobs);
        assert_eq!(names(metrics.take_unreported()), [(3, 2)]);
        assert!(lock(&metrics.0).is_empty(), "they are over");
    }
}

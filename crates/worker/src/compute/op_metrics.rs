//! What the ops of each job cost on this worker since the dispatcher was told.
//!
//! A job that is over is told of once more. Bounds: the jobs that are held, and those that are not told of yet; a report has about
//! [`OPS_MAX`] ops, and the rest is in the next ones, jobs in turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use forebay_exec::{Executable, OpMeter};
use forebay_proto::{JobOps, OpSpent};

use crate::lock::lock;

/// Ops in one report, unless one job has more left.
const OPS_MAX: usize = 1024;

/// The meters of jobs, whoever is next in front.
#[derive(Default)]
pub(crate) struct OpMetrics(Mutex<VecDeque<(u64, Arc<OpMeter>)>>);

impl std::fmt::Debug for OpMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpMetrics").field("jobs", &lock(&self.0).len()).finish()
    }
}

impl OpMetrics {
    /// Tells of a job from here on.
    pub(crate) fn watch(&self, job: u64, executable: &Executable) {
        lock(&self.0).push_back((job, executable.meter().clone()));
    }

    /// Returns what is not told yet.
    pub(crate) fn tell(&self) -> Vec<JobOps> {
        let mut meters = lock(&self.0);
        let (mut told, mut ops) = (Vec::new(), 0);
        for _ in 0..meters.len() {
            if ops >= OPS_MAX {
                break;
            }
            let Some((job, meter)) = meters.pop_front() else { break };
            // Looked at first: what is counted from then on is told next time.
            let is_over = Arc::strong_count(&meter) == 1;
            let said: Vec<_> = meter.take(OPS_MAX).into_iter().map(OpSpent::from).collect();
            ops += said.len();
            if !said.is_empty() {
                told.push(JobOps { job, ops: said });
            }
            if !is_over {
                meters.push_back((job, meter));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, Result, SampleId, Seed, SystemClock};
    use forebay_data::{Chunk, Memory, RowId};
    use forebay_exec::{Environment, NoFunctions};
    use forebay_io::NoBlobs;
    use forebay_plan::{EpochPlan, Extent, Graph, Node, Op, Source, Stages};

    use super::*;

    /// A pipeline of two ops, and a row for it.
    fn pipeline() -> Result<(Arc<Executable>, Chunk)> {
        let graph = Graph::new(Source::Range { start: 0, stop: 9, step: 1 }, None)?;
        let rename = |from: &str, to: &str| Node::new(Op::Rename { columns: vec![(from.to_owned(), to.to_owned())] });
        let graph = graph.then(rename("id", "a"))?.then(rename("a", "b"))?;
        let stages = Arc::new(Stages::new(&graph)?);
        let extent = Extent { rows: Some(9), blocks: 1, bytes: 0, is_compressed: false };
        let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(1), 1, None)?);
        let environment = Environment {
            blobs: Arc::new(NoBlobs),
            functions: Arc::new(NoFunctions),
            memory: Memory::default(),
            keeping: None,
            watch: Arc::new(SystemClock::default()),
        };
        let schema = Arc::new(graph.source().schema()?);
        let id = RowId { sample: SampleId(0), epoch: Epoch(0) };
        let row = Chunk::new(schema, vec![Arc::new(arrow_array::Int64Array::from(vec![7]))], [id].into())?;
        Ok((Executable::for_rows(stages, plan, &environment)?, row))
    }

    #[test]
    fn what_ops_did_is_told_once_jobs_take_turns_and_one_that_is_over_has_the_last_word() {
        let told = OpMetrics::default();
        let jobs: Vec<_> = (0..600).map(|_| pipeline().expect("a pipeline")).collect();
        for (job, (executable, row)) in (0..).zip(&jobs) {
            told.watch(job, executable);
            executable.finish(row.clone(), 0).expect("runs");
        }
        let names = |told: Vec<JobOps>| told.iter().map(|job| (job.job, job.ops.len())).collect::<Vec<_>>();
        let (first, second) = (names(told.tell()), names(told.tell()));
        assert_eq!((first.len(), second.len()), (OPS_MAX / 2, 600 - OPS_MAX / 2), "two ops each, and a bound");
        assert_eq!((first[0], second[0]), ((0, 2), (512, 2)));
        assert_eq!(names(told.tell()), []);
        let (executable, row) = &jobs[3];
        executable.finish(row.clone(), 0).expect("runs");
        drop(jobs);
        assert_eq!(names(told.tell()), [(3, 2)]);
        assert!(lock(&told.0).is_empty(), "they are over");
    }
}

//! The order of a pipeline's ops, chosen by measuring them on its first samples.

use std::sync::Arc;
use std::time::Instant;

use forebay_core::{Error, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory};
use forebay_exec::{Environment, Executable, compare, measure};
use forebay_plan::{Chosen, EpochPlan, Extent, Graph, Reorder, RunOrder, Stages};

use crate::functions::PyFunctions;
use crate::pipeline::Pipeline;

/// Another order must be this much faster. Less could be chance.
const SPEEDUP_MIN: f64 = 1.03;

impl Pipeline {
    /// Measures each op on the first `samples` rows of the source, chooses the order of a mode that is cheapest with
    /// these figures, and keeps it when it is faster and yields the bytes that the mode requires: the same, or
    /// plausibly ones of the same distribution. The returned graph has its order: that one, the best of the same bytes,
    /// or as written.
    pub(crate) fn optimized(
        &self,
        mode: Reorder,
        samples: usize,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Graph> {
        let source = Stages::new(&self.graph)?.source;
        let source = self.with(Graph::new(source, None)?);
        let (Some(rows), _) = source.first_rows(samples, poll)? else {
            return Err(Error::invalid("optimize: the source gives no sample"));
        };
        let written = Prepared::new(self, self.graph.clone().with_reorder(Reorder::Off))?;
        let (start, rows) = (Instant::now(), rows.with_losses(Vec::new()));
        let now = || start.elapsed();
        let figures = measure(&written.stages, &written.plan, &written.environment, &rows, &now)?;
        poll()?;
        let mut best = Chosen { mode, places: (0..self.graph.nodes().len()).collect(), speedup: 1.0 };
        let modes: &[_] = if mode == Reorder::Relaxed { &[Reorder::Exact, mode] } else { &[mode] };
        for &mode in modes {
            let places = RunOrder::measured(&self.graph, mode, &figures)?.places().to_vec();
            if places == best.places {
                continue;
            }
            let tried = Chosen { mode, places, speedup: 1.0 };
            let graph = self.graph.clone().with_reorder(mode).with_chosen(tried.clone())?;
            let speedup = Prepared::new(self, graph)?.faster_than(&written, mode, &rows, &now)?;
            poll()?;
            if let Some(speedup) = speedup.filter(|speedup| *speedup >= best.speedup * SPEEDUP_MIN) {
                best = Chosen { mode: best.mode, speedup, ..tried };
            }
        }
        self.graph.clone().with_chosen(best)
    }
}

/// Returns the size of a source that was not counted. The plan of a streamed mix has a plan for each dataset.
fn unknown_extent(stages: &Stages) -> Extent {
    let parts = stages.parts.iter().filter(|_| stages.source.is_streamed_mix());
    Extent { blocks: 1, parts: parts.map(|part| unknown_extent(part)).collect(), ..Extent::default() }
}

/// The row ops of a graph, ready to run on given rows.
struct Prepared {
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    environment: Environment,
}

impl Prepared {
    fn new(pipeline: &Pipeline, graph: Graph) -> Result<Self> {
        let stages = Arc::new(Stages::new(&graph)?);
        let plan = Arc::new(EpochPlan::new(&stages, unknown_extent(&stages), Seed(0), 1, None)?);
        let (blobs, functions) = (Arc::new(pipeline.blobs.clone()), Arc::new(PyFunctions::default()));
        Ok(Self {
            stages,
            plan,
            environment: Environment {
                blobs,
                functions,
                memory: Memory::reused(),
                cache_context: None,
                watch: Arc::new(SystemClock::default()),
            },
        })
    }

    fn executable(&self) -> Result<Arc<Executable>> {
        Executable::for_rows(self.stages.clone(), self.plan.clone(), &self.environment)
    }

    fn faster_than(
        &self,
        written: &Self,
        mode: Reorder,
        rows: &Chunk,
        now: forebay_exec::Now<'_>,
    ) -> Result<Option<f64>> {
        compare(&written.executable()?, &self.executable()?, mode, rows, now)
    }
}

//! A service as Python holds it: its dispatcher's address, its jobs and workers, and the streams of its jobs.

use std::time::Duration;

use forebay_client::{JobSpec, Service, ServiceStream, StreamOptions};
use forebay_core::{ConsumerIndex, Error, Seed};
use forebay_exec::LeftOut;
use forebay_io::Blobs;
use pyo3::prelude::*;

use crate::errors::{guard, interruptible, raise};
use crate::iter::{Iteration, NativeIterator};
use crate::pipeline::{ErrorBudget, Pipeline, saved};
use crate::runner::Runner;

/// A dispatcher that has answered.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct ServiceClient {
    service: Service,
}

type ConsumerRow = (u32, bool, u64, u64, u64, u32, u64);
type JobRow = (String, String, String, u64, u64, Vec<ConsumerRow>);
type WorkerRow = (String, String, u32, String, u32, u64, u64, u64);

#[pymethods]
impl ServiceClient {
    #[staticmethod]
    fn connect(py: Python<'_>, address: String, timeout_s: f64) -> PyResult<Self> {
        let deadline = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| raise(py, &Error::invalid(format!("connect: timeout={timeout_s} is out of range"))))?;
        Ok(Self { service: interruptible(py, |poll| Service::connect(&address, deadline, poll))? })
    }

    #[getter]
    fn address(&self) -> String {
        let address = self.service.address();
        if address.contains("://") { address.to_owned() } else { format!("forebay://{address}") }
    }

    /// Name, dataset, state, epochs, seed, consumers (index, attached, epoch, split, splits, leased, skipped).
    fn jobs(&self, py: Python<'_>) -> PyResult<Vec<JobRow>> {
        let jobs = interruptible(py, |poll| self.service.jobs(poll))?;
        Ok(jobs
            .into_iter()
            .map(|j| {
                let consumers = j.consumers.iter();
                let consumers =
                    consumers.map(|c| (c.consumer, c.attached, c.epoch, c.ordinal, c.splits, c.leased, c.skipped));
                (j.name, j.dataset, j.state, j.epochs, j.seed, consumers.collect())
            })
            .collect())
    }

    /// Id, address, threads, state, leases, splits done, rows done, milliseconds of silence.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerRow>> {
        let workers = interruptible(py, |poll| self.service.workers(poll))?;
        let row = |w: forebay_client::WorkerStatus| {
            (w.worker, w.address, w.threads, w.state, w.leases, w.splits_done, w.rows_done, w.silent_ms)
        };
        Ok(workers.into_iter().map(row).collect())
    }

    fn cancel(&self, py: Python<'_>, job: &str) -> PyResult<()> {
        interruptible(py, |poll| self.service.cancel(job, poll))
    }

    /// Creates or joins a job, and starts to read it.
    #[pyo3(signature = (pipeline, *, job, seed, epochs, consumer, consumers, even, budget, state))]
    #[expect(clippy::too_many_arguments, reason = "keywords, named in Python")]
    fn open(
        &self,
        py: Python<'_>,
        pipeline: &Bound<'_, Pipeline>,
        job: String,
        seed: u64,
        epochs: Option<u64>,
        consumer: u32,
        consumers: u32,
        even: Option<bool>,
        budget: ErrorBudget,
        state: Option<&str>,
    ) -> PyResult<NativeIterator> {
        let state = guard(py, || state.map(saved).transpose())?;
        let consumer = ConsumerIndex(consumer);
        let pipeline = pipeline.get();
        let runner = Runner::new(py, "thread")?;
        let functions = runner.functions();
        let graph = pipeline.graph.clone();
        let spec = JobSpec { name: job, graph, seed: Seed(seed), epochs, consumers, even };
        let (stream, from, plan, left_out) = interruptible(py, |poll| {
            let blobs = |id: &_| pipeline.blobs.get(id).ok();
            let show = crate::indexing::progress_line();
            let opened = self.service.open_job(&spec, &blobs, &mut |done, total| show.show(done, total), poll)?;
            let from = state.as_ref().map(|s| s.position_in(opened.plan(), consumer)).transpose()?;
            let left_out = state.map(|s| s.left_out).unwrap_or_default();
            let (budget, known) = (budget.into(), left_out.iter().map(LeftOut::lost).collect());
            let options = StreamOptions { consumer, from: from.clone(), budget, known, ..StreamOptions::default() };
            let stream = ServiceStream::start(&opened, functions, options)?;
            Ok((stream, from.unwrap_or_default(), opened.plan().clone(), left_out))
        })?;
        Ok(NativeIterator::new(Iteration::Service(stream), from, plan, consumer, left_out, runner))
    }
}

//! A service as Python holds it: its dispatcher's address, its jobs and workers, and the streams of its jobs.

use std::path::PathBuf;
use std::time::Duration;

use forebay_client::{Credentials, JobSpec, Remote, Service, ServiceStream, StreamOptions, TlsFiles};
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
/// Milliseconds ago, workers before and since, the reason, its JSON.
type DecisionRow = (u64, u32, u32, String, String);
type JobRow =
    (String, String, String, u64, u64, u64, Vec<ConsumerRow>, String, String, u32, Vec<DecisionRow>, Vec<CachingRow>);
/// A worker, and JSON.
type CachingRow = (String, String);
/// Files of the authority, the own certificate and its key; the name to expect.
type TlsRow = (PathBuf, Option<PathBuf>, Option<PathBuf>, Option<String>);
type WorkerRow = (String, String, u32, String, u32, u64, u64, u64, u64);

#[pymethods]
impl ServiceClient {
    #[staticmethod]
    #[pyo3(signature = (address, timeout_s, *, tls=None, token=None, token_file=None))]
    fn connect(
        py: Python<'_>,
        address: String,
        timeout_s: f64,
        tls: Option<TlsRow>,
        token: Option<&str>,
        token_file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let files = tls.map_or_else(TlsFiles::default, |(ca, cert, key, name)| TlsFiles {
            ca: Some(ca),
            cert,
            key,
            name,
            client_ca: None,
        });
        let deadline = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| raise(py, &Error::invalid(format!("connect: timeout={timeout_s} is out of range"))))?;
        let service = interruptible(py, |poll| {
            let credentials = Credentials::load(&files, token, token_file.as_deref())?;
            Service::connect(Remote { address, credentials }, deadline, poll)
        })?;
        Ok(Self { service })
    }

    #[getter]
    fn address(&self) -> String {
        let address = self.service.address();
        if address.contains("://") { address.to_owned() } else { format!("forebay://{address}") }
    }

    /// Name, dataset, state, epochs, seed, splits raced, consumers (index, attached, epoch, split, splits, leased, skipped),
    /// tenant, key, workers wanted, decisions, what workers keep.
    #[pyo3(signature = (name=None))]
    fn jobs(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Vec<JobRow>> {
        let jobs = interruptible(py, |poll| self.service.jobs(name, poll))?;
        Ok(jobs
            .into_iter()
            .map(|j| {
                let consumers = j.consumers.iter();
                let consumers =
                    consumers.map(|c| (c.consumer, c.attached, c.epoch, c.ordinal, c.splits, c.leased, c.skipped));
                let key = j.key.iter().map(|b| format!("{b:02x}")).collect();
                let decisions = j.decisions.into_iter();
                let decisions = decisions.map(|d| (d.ago_ms, d.before, d.workers, d.reason, d.json)).collect();
                let consumers = consumers.collect();
                let caching = j.caching.into_iter().map(|c| (c.worker, c.json)).collect();
                let (name, dataset, state, tenant, workers) = (j.name, j.dataset, j.state, j.tenant, j.workers);
                let (epochs, seed, raced) = (j.epochs, j.seed, j.raced);
                (name, dataset, state, epochs, seed, raced, consumers, tenant, key, workers, decisions, caching)
            })
            .collect())
    }

    /// Id, address, threads, state, leases, splits done, rows done, rows shared, milliseconds of silence.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerRow>> {
        let workers = interruptible(py, |poll| self.service.workers(poll))?;
        let row = |w: forebay_client::WorkerStatus| {
            (w.worker, w.address, w.threads, w.state, w.leases, w.splits_done, w.rows_done, w.rows_shared, w.silent_ms)
        };
        Ok(workers.into_iter().map(row).collect())
    }

    /// Workers wanted, workers there, the most, the policy.
    fn scale(&self, py: Python<'_>) -> PyResult<(u32, u32, u32, String)> {
        let scale = interruptible(py, |poll| self.service.scale(poll))?;
        Ok((scale.wanted, scale.workers, scale.workers_max, scale.policy))
    }

    #[pyo3(signature = (job, tenant=None))]
    fn cancel(&self, py: Python<'_>, job: &str, tenant: Option<&str>) -> PyResult<()> {
        interruptible(py, |poll| self.service.cancel(job, tenant, poll))
    }

    /// Creates or joins a job, and starts to read it.
    #[pyo3(signature = (pipeline, *, job, seed, epochs, consumer, consumers, even, coordinated, weight, budget, state))]
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
        coordinated: bool,
        weight: u32,
        budget: ErrorBudget,
        state: Option<&str>,
    ) -> PyResult<NativeIterator> {
        let state = guard(py, || state.map(saved).transpose())?;
        let consumer = ConsumerIndex(consumer);
        let pipeline = pipeline.get();
        let runner = Runner::new(py, "thread")?;
        let functions = runner.functions();
        let graph = pipeline.graph.clone();
        let spec = JobSpec { name: job, graph, seed: Seed(seed), epochs, consumers, even, coordinated, weight };
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

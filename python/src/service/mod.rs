//! A service in Python's hands: its dispatcher's address, its jobs and workers, and the streams of its jobs.

pub(super) mod provision;
pub(super) mod up;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forebay_client::{Credentials, JobSpec, LocalWorkerSlot, Remote, Service, ServiceStream, StreamOptions, TlsFiles};
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result, Seed};
use forebay_exec::SavedSkip;
use forebay_io::Blobs;
use forebay_plan::{Ending, Stages};
use forebay_server::{JobKey, LocalRecipe, LocalThreads, LocalWorker, local_key, look_at_machine, memory_budget};
use pyo3::prelude::*;

use crate::errors::{guard, interruptible, raise};
use crate::functions::runner::Runner;
use crate::iter::{Iteration, NativeIterator};
use crate::pipeline::Pipeline;
use crate::pipeline::iterate::{ErrorBudget, saved};

/// A dispatcher that has answered.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct ServiceClient {
    service: Arc<Service>,
    /// The credentials that it was made with, for local workers.
    identity: Identity,
}

/// The credentials of this process for the service.
struct Identity {
    tls: TlsFiles,
    token: Option<String>,
    token_file: Option<PathBuf>,
}

type ConsumerRow = (u32, bool, u64, u64, u64, u32, u64);
/// Milliseconds ago, workers before and since, the reason, its JSON, the ops of consumers.
type DecisionRow = (u64, u32, u32, String, String, String);
/// Numbers, name, dataset, state; tenant and key; the ops of consumers; the work of workers.
type JobRow = (
    Numbers,
    String,
    String,
    String,
    Vec<ConsumerRow>,
    String,
    String,
    Vec<DecisionRow>,
    Vec<CachingRow>,
    Vec<OpRow>,
    String,
    Vec<WorkedRow>,
);
/// Epochs, seed, splits raced, workers wanted and computing, threads of local workers, priority.
type Numbers = (u64, u64, u64, u32, u32, u32, u32);
/// The op, its line, the side; rows in, out and found; seconds, bytes in and out; recent microseconds of a row; whether
/// all figures are of earlier jobs.
type OpRow = (String, String, String, (u64, u64, u64), f64, (u64, u64), f64, bool);
/// Kind, whether they may be preempted, seconds and cost of work, the same of idleness.
type WorkedRow = (String, bool, f64, f64, f64, f64);
/// Kind, whether they may be preempted, price, threads, wanted, present, the most, pace, reason.
type KindRow = (String, bool, f64, u32, Option<u32>, u32, u32, f64, String);
/// A worker, and JSON.
type CachingRow = (String, String);
/// Files of the authority, the own certificate and its key; the name to expect.
type TlsRow = (PathBuf, Option<PathBuf>, Option<PathBuf>, Option<String>);
/// The last fields of a worker's row: its kind, price, whether it may be preempted, the jobs that it does not compute,
/// milliseconds since it was lost, and why.
type WorkerKind = (String, f64, bool, BTreeMap<String, String>, Option<u64>, String);
type WorkerRow =
    (String, String, u32, String, u32, Option<u64>, Option<u64>, Option<u64>, u64, bool, String, WorkerKind);

fn op(o: forebay_client::OpStatus) -> OpRow {
    let (rows, bytes) = ((o.rows_in, o.rows_out, o.rows_found), (o.bytes_in, o.bytes_out));
    (o.op, o.line, o.at, rows, o.seconds, bytes, o.row_us, o.earlier)
}

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
        let token = token.map(str::to_owned);
        Ok(Self { service: Arc::new(service), identity: Identity { tls: files, token, token_file } })
    }

    #[getter]
    fn address(&self) -> String {
        let address = self.service.address();
        if address.contains("://") { address.to_owned() } else { format!("forebay://{address}") }
    }

    /// Returns numbers (epochs, seed, splits raced, workers wanted and computing, threads of local workers, priority), name, dataset,
    /// state, consumers (index, attached, epoch, split, splits, leased, skipped), tenant, key, decisions, cache reports
    /// of workers, costs of ops, the ops of consumers, the work of workers.
    #[pyo3(signature = (name=None))]
    fn jobs(&self, py: Python<'_>, name: Option<&str>) -> PyResult<Vec<JobRow>> {
        let jobs = self.ask(py, |service, poll| service.jobs(name, poll))?;
        Ok(jobs
            .into_iter()
            .map(|j| {
                let consumers = j.consumers.iter();
                let consumers =
                    consumers.map(|c| (c.consumer, c.attached, c.epoch, c.ordinal, c.splits, c.leased, c.skipped));
                let key = j.key.iter().map(|b| format!("{b:02x}")).collect();
                let decisions = j.decisions.into_iter();
                let decisions = decisions.map(|d| (d.ago_ms, d.before, d.workers, d.reason, d.json, d.cut)).collect();
                let consumers = consumers.collect();
                let caching = j.caching.into_iter().map(|c| (c.worker, c.json)).collect();
                let ops = j.ops.into_iter().map(op).collect();
                let worked = j.worked.into_iter();
                let worked = worked.map(|w| (w.kind, w.spot, w.seconds, w.cost, w.idle_seconds, w.idle_cost)).collect();
                let numbers = (j.epochs, j.seed, j.raced, j.workers, j.workers_computing, j.local_threads, j.priority);
                (numbers, j.name, j.dataset, j.state, consumers, j.tenant, key, decisions, caching, ops, j.cut, worked)
            })
            .collect())
    }

    /// Returns id, address, threads, state, leases, splits done, rows done, rows shared, milliseconds of silence,
    /// whether it is local, why it does not write to its cache folder, its kind, price, whether it may be preempted, and
    /// the jobs that it does not compute with the differences; milliseconds since it was lost, and why.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerRow>> {
        let workers = self.ask(py, |service, poll| service.workers(poll))?;
        let row = |w: forebay_client::WorkerStatus| {
            let (done, rows, shared) = (w.splits_done, w.rows_done, w.rows_shared);
            (w.worker, w.address, w.threads, w.state, w.leases, done, rows, shared, w.silent_ms, w.local, w.disk_off, {
                let differs = w.differs.into_iter().map(|d| (d.job, d.difference)).collect();
                (w.kind, w.price, w.spot, differs, w.lost_ms, w.lost)
            })
        };
        Ok(workers.into_iter().map(row).collect())
    }

    /// Returns workers wanted, workers present, the most, the policy, the kinds.
    fn scale(&self, py: Python<'_>) -> PyResult<(u32, u32, u32, String, Vec<KindRow>)> {
        let scale = self.ask(py, |service, poll| service.scale(poll))?;
        let kind = |k: forebay_client::KindWanted| {
            (k.kind, k.spot, k.price, k.threads, k.wanted, k.workers, k.max, k.pace, k.reason)
        };
        let kinds = scale.kinds.into_iter().map(kind).collect();
        Ok((scale.wanted, scale.workers, scale.workers_max, scale.policy, kinds))
    }

    /// Returns how many workers of one kind a provisioner must have; `None` while that is not known.
    #[pyo3(signature = (kind=None, spot=false))]
    fn wanted(&self, py: Python<'_>, kind: Option<&str>, spot: bool) -> PyResult<Option<u32>> {
        let scale = self.ask(py, |service, poll| service.scale(poll))?;
        scale.wanted_of(kind.map(|kind| (kind, spot))).map_err(|e| raise(py, &e))
    }

    /// Returns in one sentence what holds a job back.
    fn why(&self, py: Python<'_>, job: &str) -> PyResult<String> {
        let jobs = self.ask(py, |service, poll| service.jobs(Some(job), poll))?;
        let workers = self.ask(py, |service, poll| service.workers(poll))?;
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no job {job:?}")).hint("see service.jobs()");
        // A cancelled job of the same name is older.
        let newest = jobs.last().ok_or_else(|| raise(py, &missing()))?;
        Ok(forebay_dashboard::why::why(newest, &workers).sentence)
    }

    #[pyo3(signature = (job, tenant=None))]
    fn cancel(&self, py: Python<'_>, job: &str, tenant: Option<&str>) -> PyResult<()> {
        self.ask(py, |service, poll| service.cancel(job, tenant, poll))
    }

    #[pyo3(signature = (job, tenant=None))]
    fn forget(&self, py: Python<'_>, job: &str, tenant: Option<&str>) -> PyResult<()> {
        self.ask(py, |service, poll| service.forget(job, tenant, poll))
    }

    /// Creates or joins a job, and starts to read it, with a local worker of so many threads; `None` is as many as
    /// help.
    #[pyo3(signature = (
        pipeline, *, job, seed, epochs, consumer, consumers, even, ending, absence_s, coordinated, ordered, weight, priority, budget, local,
        memory, state
    ))]
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
        ending: Option<&str>,
        absence_s: f64,
        coordinated: bool,
        ordered: bool,
        weight: u32,
        priority: u32,
        budget: ErrorBudget,
        local: Option<usize>,
        memory: Option<&str>,
        state: Option<&str>,
    ) -> PyResult<NativeIterator> {
        let state = guard(py, || state.map(saved).transpose())?;
        let memory = guard(py, || crate::memory_budget::said(memory))?;
        let (ending, absence) = guard(py, || Ok((ending.map(read_ending).transpose()?, read_absence(absence_s)?)))?;
        let consumer = ConsumerIndex(consumer);
        let pipeline = pipeline.get();
        let runner = Runner::new(py, "thread", Vec::new())?;
        let functions = runner.functions();
        let graph = pipeline.graph.clone();
        if !ordered {
            // Before there is a job.
            guard(py, || Stages::new(&graph)?.check_any_order())?;
        }
        let spec = JobSpec {
            name: job,
            graph,
            seed: Seed(seed),
            epochs,
            consumers,
            even,
            ending,
            coordinated,
            weight,
            priority,
        };
        let command = crate::cli::command(py)?;
        let (stream, from, plan, left_out, source) = interruptible(py, |poll| {
            let blobs = |id: &_| pipeline.blobs.get(id).ok();
            let show = crate::sources::indexing::progress_line();
            crate::service::up::check(self.service.address())?;
            let mut progress = |done, total| show.show(done, total);
            if spec.graph.source().is_streamed_mix() {
                let opened = self.service.open_mix(&spec, &blobs, &mut progress, poll)?;
                let from = state.as_ref().map(|s| s.position_in(opened.plan(), consumer)).transpose()?;
                let left_out = state.map(|s| s.left_out).unwrap_or_default();
                let options = StreamOptions {
                    consumer,
                    ordered,
                    memory: memory_budget(memory),
                    from: from.clone(),
                    budget: budget.into(),
                    known: left_out.iter().map(SavedSkip::to_skipped).collect(),
                    warn: crate::cache::warn,
                    rank_timeout: absence,
                    liveness: crate::service::up::watch(&self.service, false),
                    ..StreamOptions::default()
                };
                let stream = Iteration::Mix(Box::new(opened.start(functions, options)?));
                return Ok((stream, from.unwrap_or_default(), opened.plan().clone(), left_out, None));
            }
            let opened = self.service.open_job(&spec, &blobs, &mut progress, poll)?;
            let from = state.as_ref().map(|s| s.position_in(opened.plan(), consumer)).transpose()?;
            let left_out = state.map(|s| s.left_out).unwrap_or_default();
            let (budget, known) = (budget.into(), left_out.iter().map(SavedSkip::to_skipped).collect());
            let threads = local.map_or(LocalThreads::Auto, LocalThreads::Fixed);
            // The supervisor of a local worker measures the host; without one, the consumer does.
            let is_alone = threads == LocalThreads::Fixed(0);
            let slot = Arc::new(if is_alone {
                LocalWorkerSlot::with_probe(look_at_machine())
            } else {
                LocalWorkerSlot::for_worker(local_key()?)
            });
            let options = StreamOptions {
                consumer,
                ordered,
                memory: memory_budget(memory),
                from: from.clone(),
                budget,
                known,
                local_worker: slot.clone(),
                warn: crate::cache::warn,
                rank_timeout: absence,
                liveness: crate::service::up::watch(&self.service, !is_alone),
                ..StreamOptions::default()
            };
            let stream = ServiceStream::start(&opened, functions, options)?;
            let recipe = self.recipe(command, (opened.id(), consumer.0), slot.key());
            let start = || LocalWorker::start(recipe, threads, slot);
            let local = if is_alone { None } else { Some(start()?) };
            let stream = Iteration::Service(Box::new(stream), local);
            let source = Some(opened.stages().graph.source().clone());
            Ok((stream, from.unwrap_or_default(), opened.plan().clone(), left_out, source))
        })?;
        if let Some(source) = source {
            pipeline.listing.warn_of_changes(py, &source, plan.extent().bytes)?;
        }
        Ok(NativeIterator::new(stream, from, plan, consumer, left_out, runner))
    }
}

impl ServiceClient {
    /// Calls the service; does not wait for one that was started here and has ended.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Service, &mut dyn FnMut() -> Result<()>) -> Result<T> + Send,
    ) -> PyResult<T> {
        interruptible(py, |poll| {
            crate::service::up::check(self.service.address())?;
            call(&self.service, poll)
        })
    }

    /// Returns the recipe of a consumer's local worker.
    fn recipe(&self, command: Vec<String>, reader: (u64, u32), key: JobKey) -> LocalRecipe {
        let Identity { tls, token, token_file } = &self.identity;
        let (tls, token, token_file) = (tls.clone(), token.clone(), token_file.clone());
        LocalRecipe { command, service: self.service.address().to_owned(), tls, token, token_file, reader, key }
    }
}

/// Reads the user's word for the end of epochs.
fn read_ending(word: &str) -> Result<Ending> {
    let known = [Ending::Drop, Ending::Pad, Ending::Error].into_iter().find(|ending| ending.word() == word);
    known.ok_or_else(|| Error::invalid(format!("even={word:?} is unknown")).hint("\"drop\", \"pad\" or \"error\""))
}

fn read_absence(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::invalid(format!("rank_timeout={seconds} is out of range")))
}

/// Returns how many threads may compute at once in this process: its cores, within the limits of its control groups.
#[pyfunction]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Says in one sentence what holds a trainer back that computes its batches itself.
///
/// The seconds are those for which it waited and trained in the last minute, and `ops` the seconds of threads in each op.
#[pyfunction]
pub(crate) fn why_in_process(waited_s: f64, step_s: f64, batches: u64, ops: Vec<(String, f64)>) -> String {
    use forebay_dashboard::why::{Figures, judge};
    judge(&Figures::in_process(waited_s, step_s, batches, &ops)).sentence
}

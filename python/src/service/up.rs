//! A service on this machine, in Python's hands.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use forebay_client::{LivenessCheck, Service};
use forebay_core::Result;
use forebay_server::{CacheConfig, CachePlaces, Objective, Policy, StorePrices, UpOptions, Workers, parse_bytes};
use pyo3::prelude::*;

use crate::errors::{detached, guard, interruptible};
use crate::functions::lock;

/// A dispatcher and workers, as child processes.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Up {
    up: Arc<forebay_server::Up>,
}

/// The services that this process started and still has.
static STARTED: Mutex<Vec<Weak<forebay_server::Up>>> = Mutex::new(Vec::new());

/// Reads a number of bytes in a user's notation: `256MiB`.
#[pyfunction]
pub(crate) fn bytes_of(py: Python<'_>, text: &str) -> PyResult<u64> {
    parse_bytes(text).map_err(|e| crate::errors::raise(py, &e))
}

/// Returns the service at this address, if this process started it.
fn started(address: &str) -> Option<Arc<forebay_server::Up>> {
    let address = address.strip_prefix("forebay://").unwrap_or(address);
    lock(&STARTED).iter().filter_map(Weak::upgrade).find(|up| up.address() == address)
}

/// Returns an error if this process started the service at this address and its dispatcher has ended.
///
/// # Errors
/// Unavailable, with how its dispatcher ended.
pub(crate) fn check(address: &str) -> Result<()> {
    started(address).map_or(Ok(()), |up| up.check())
}

/// Returns a check for the consumers of a service that this process started: fails when nothing can come any more.
/// `local` is true if the consumer has a local worker.
pub(crate) fn watch(service: &Arc<Service>, local: bool) -> LivenessCheck {
    let Some(up) = started(service.address()).map(|up| Arc::downgrade(&up)) else { return LivenessCheck::default() };
    let service = service.clone();
    LivenessCheck::new(move |poll| match up.upgrade() {
        Some(up) => up.check_workers(&service, local, poll),
        None => Ok(()),
    })
}

#[pymethods]
impl Up {
    #[staticmethod]
    #[pyo3(signature = (
        workers, max_workers, threads, state_dir, policy, objective, prices, cache, cache_memory, cache_disk, cache_store,
        cache_source, cache_prices
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords, one by one")]
    fn start(
        py: Python<'_>,
        workers: Option<usize>,
        max_workers: usize,
        threads: usize,
        state_dir: Option<PathBuf>,
        policy: &str,
        objective: &str,
        prices: (Option<f64>, Option<f64>),
        cache: Vec<std::ffi::OsString>,
        cache_memory: Option<&str>,
        cache_disk: Option<&str>,
        cache_store: Option<&str>,
        cache_source: Option<bool>,
        cache_prices: Option<&str>,
    ) -> PyResult<Self> {
        let workers = workers.map_or(Workers::Auto { max: max_workers }, Workers::Fixed);
        let (policy, objective, cache) = guard(py, || {
            let own = CacheConfig::from_env()?;
            let bytes = |text: Option<&str>| text.map(parse_bytes).transpose();
            let (memory, disk) = (bytes(cache_memory)?.or(own.memory), bytes(cache_disk)?.or(own.disk));
            let (store, source) = (bytes(cache_store)?.or(own.store), cache_source.or(own.source));
            let paid = cache_prices.map(str::parse::<StorePrices>).transpose()?.or(own.prices);
            let parts = cache.iter().map(|text| CachePlaces::parse(text));
            let named = parts.into_iter().try_fold(CachePlaces::default(), |all, part| all.and(part?))?;
            let places = if named.is_empty() { own.places } else { named };
            let objective = Objective::priced(objective, prices.0, prices.1)?;
            Ok((
                policy.parse::<Policy>()?,
                objective,
                CacheConfig { places, memory, disk, store, source, prices: paid },
            ))
        })?;
        let command = crate::cli::command(py)?;
        let options = UpOptions { workers, threads, state_dir, policy, objective, cache, ..UpOptions::new(command) };
        let up = Arc::new(interruptible(py, |poll| forebay_server::Up::start(options, poll))?);
        let mut started = lock(&STARTED);
        started.retain(|up| up.strong_count() > 0);
        started.push(Arc::downgrade(&up));
        drop(started);
        Ok(Self { up })
    }

    #[getter]
    fn address(&self) -> String {
        format!("forebay://{}", self.up.address())
    }

    fn worker_pids(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        detached(py, || Ok(self.up.worker_pids()))
    }

    fn dispatcher_pid(&self, py: Python<'_>) -> PyResult<u32> {
        detached(py, || Ok(self.up.dispatcher_pid()))
    }

    fn kill_worker(&self, py: Python<'_>, index: usize) -> PyResult<u32> {
        detached(py, || self.up.kill_worker(index))
    }

    fn add_worker(&self, py: Python<'_>) -> PyResult<u32> {
        interruptible(py, |poll| self.up.add_worker(poll))
    }

    fn restart_dispatcher(&self, py: Python<'_>) -> PyResult<u32> {
        interruptible(py, |poll| self.up.restart_dispatcher(poll))
    }

    fn notice(&self) -> Option<&str> {
        self.up.notice()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            self.up.close();
            Ok(())
        })
    }
}

//! A whole service on this machine: a dispatcher and workers, as processes of their own.
//!
//! They are the same processes as on a cluster, so a program that works here works there. The service ends with the
//! handle, and with this process.

#![expect(clippy::disallowed_methods, reason = "processes are waited for within a bound, and a thread watches them")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockResult};
use std::time::{Duration, Instant};

use forebay_client::{Remote, Service};
use forebay_core::{Error, ErrorKind, Result};
use forebay_dispatcher::{Objective, Policy, Scaling};
use tempfile::TempDir;

use crate::cache::CacheConfig;
use crate::children::fleet::{Fleet, Recipe};
use crate::children::patience::{START, Verdict, load};
use crate::children::provision;

/// How often a wait checks its condition.
const LOOK: Duration = Duration::from_millis(20);
/// How often the service looks for dead workers.
const WATCH: Duration = Duration::from_millis(200);

/// The options of a service.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// The beginning of every command: `forebay`, or `python -m forebay`.
    pub command: Vec<String>,
    /// Workers. Default: 1.
    pub workers: Workers,
    /// Compute threads of each worker. Default: 0, an equal share of the cores, or 1 if the service decides the number
    /// of workers.
    pub threads: usize,
    /// The dispatcher's address, of the loopback interface. Default: any free port of 127.0.0.1.
    pub listen: SocketAddr,
    /// The dispatcher's state. Default: a folder of its own, removed at the end.
    pub state_dir: Option<PathBuf>,
    /// Whether a worker that dies is restarted, after 1 s. Default: no.
    pub respawn: bool,
    /// The cache of each worker, for the rows of `cache()` and the bytes of remote files. Default: memory, of which the
    /// workers share the default of one process.
    pub cache: CacheConfig,
    /// The policy for the number of workers. Default: Forebay's policy.
    pub policy: Policy,
    /// The figure that the policy minimises. Default: the time of a job.
    pub objective: Objective,
}

/// The number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// A fixed number.
    Fixed(usize),
    /// As many as the jobs need.
    Auto {
        /// The most workers; 0 is the number of cores.
        max: usize,
    },
}

impl UpOptions {
    /// Returns the defaults, for children that begin with `command`.
    pub fn new(command: Vec<String>) -> Self {
        let (policy, cache) = (Policy::default(), CacheConfig::default());
        Self {
            command,
            workers: Workers::Fixed(1),
            threads: 0,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state_dir: None,
            respawn: false,
            cache,
            policy,
            objective: Objective::default(),
        }
    }
}

impl UpOptions {
    /// Checks that the options are compatible.
    ///
    /// # Errors
    /// Invalid.
    pub fn check(&self) -> Result<()> {
        if !self.listen.ip().is_loopback() {
            let message =
                format!("`up` serves only this machine, and {} can be reached from other machines", self.listen);
            return Err(Error::invalid(message)
                .hint("listen on 127.0.0.1, or start `forebay dispatcher` and `forebay worker` for a network"));
        }
        Plan::new(self, 1).scaling.check()
    }
}

/// A running service. Dropping it ends its processes.
pub struct Up {
    fleet: Arc<Mutex<Fleet>>,
    address: String,
    /// Dropped last.
    temporary: Mutex<Option<TempDir>>,
    pid: u32,
    /// Whether the dispatcher decides the number of workers.
    is_auto: bool,
    /// Whether a worker that dies is restarted.
    respawns: bool,
    /// A warning about the start, for the user.
    notice: Option<String>,
}

/// The processes to start.
struct Plan {
    workers: usize,
    /// The most workers at a time.
    workers_most: usize,
    threads: usize,
    scaling: Scaling,
}

/// Returns a folder that only this user can read: it has functions and arrays of jobs.
fn own_folder() -> Result<TempDir> {
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let made = tempfile::Builder::new().prefix("forebay-").permissions(own).tempdir();
    made.map_err(|e| {
        let (kind, at) = (Error::from(std::io::Error::from(e.kind())).kind(), std::env::temp_dir());
        Error::new(kind, format!("cannot make a temporary folder in {}: {e}", at.display()))
            .with("folder", at.display())
            .hint("set TMPDIR to a folder that can be written to, or name a state_dir")
    })
}

impl Plan {
    fn new(options: &UpOptions, cores: usize) -> Self {
        let (policy, objective) = (options.policy.clone(), options.objective);
        let (workers, threads, workers_max) = match options.workers {
            Workers::Fixed(workers) => (workers, (cores / workers.max(1)).max(1), Scaling::default().workers_max),
            // One thread each, so that as many workers as cores fit.
            Workers::Auto { max: 0 } => (1, 1, u32::try_from(cores).unwrap_or(u32::MAX)),
            Workers::Auto { max } => (1, 1, u32::try_from(max).unwrap_or(u32::MAX)),
        };
        let threads = if options.threads == 0 { threads } else { options.threads };
        let workers_most = match options.workers {
            Workers::Fixed(workers) => workers,
            Workers::Auto { .. } => workers_max as usize,
        };
        Self { workers, workers_most, threads, scaling: Scaling { policy, objective, workers_max } }
    }
}

impl Up {
    /// Starts the processes and waits until every worker is registered, calling `poll` about every 50 ms. After 30 s
    /// it begins with the workers that are registered, if any: see [`Up::notice`].
    ///
    /// # Errors
    /// Invalid, if options are incompatible. Unavailable, with its last output, when a process ends, or when the
    /// dispatcher or all workers are not ready within 120 s; the error of `poll`. After an error all started processes are ended.
    pub fn start(options: UpOptions, poll: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let temporary = match &options.state_dir {
            Some(_) => None,
            None => Some(own_folder()?),
        };
        let own = temporary.as_ref().map(|d| d.path().to_owned());
        let state_dir = options.state_dir.clone().or(own).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = Plan::new(&options, cores);
        plan.scaling.check()?;
        let (threads, cache, scaling) =
            (plan.threads, options.cache.shared_by(plan.workers_most), plan.scaling.clone());
        let is_temporary = temporary.is_some();
        let recipe = Recipe { command: options.command, threads, state_dir, is_temporary, cache, scaling };
        let began = Instant::now();
        let end = began + START.most;
        let dispatcher = recipe.dispatcher(&options.listen.to_string())?;
        let (address, workers) = (String::new(), Vec::new());
        let mut fleet = Fleet { recipe, address, dispatcher, workers, started: 0, closed: false };
        // From here on the handle ends the started processes after an error.
        let started = fleet.dispatcher.address(end, poll).and_then(|address| {
            fleet.address = address;
            (0..plan.workers).map(|_| fleet.add_worker()).collect::<Result<Vec<u32>>>()
        });
        let address = fleet.address.clone();
        let mut up = Self {
            fleet: Arc::new(Mutex::new(fleet)),
            address,
            temporary: Mutex::new(temporary),
            pid: std::process::id(),
            is_auto: matches!(options.workers, Workers::Auto { .. }),
            respawns: options.respawn,
            notice: None,
        };
        up.notice = up.wait_for_workers(&started?, began, poll)?;
        match options.workers {
            Workers::Auto { .. } => provision::start(&up.fleet, up.address.clone(), plan.scaling.workers_max)?,
            Workers::Fixed(_) if options.respawn => up.watch()?,
            Workers::Fixed(_) => {}
        }
        Ok(up)
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Up::fleet`], if no other thread holds the lock.
    pub(crate) fn try_fleet(&self) -> TryLockResult<MutexGuard<'_, Fleet>> {
        self.fleet.try_lock()
    }

    /// Returns whether another worker replaces one that ends.
    pub(crate) fn starts_others(&self) -> bool {
        self.is_auto || self.respawns
    }

    /// Returns the dispatcher's `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the dispatcher's process.
    pub fn dispatcher_pid(&self) -> u32 {
        self.fleet().dispatcher.pid()
    }

    /// Returns a warning about the start, for the user, if some workers were not registered when it ended.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns the processes of the workers that have not ended, in the order in which they were started.
    pub fn worker_pids(&self) -> Vec<u32> {
        self.fleet().live().map(|child| child.pid()).collect()
    }

    /// Starts another worker and waits until it is registered; returns its process.
    ///
    /// # Errors
    /// Conflict if the service decides the number of workers; as [`Up::start`].
    pub fn add_worker(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<u32> {
        if self.is_auto {
            let error = Error::new(ErrorKind::Conflict, "this service decides by itself how many workers there are");
            return Err(error.hint("start it with a number of workers, or with a larger max_workers"));
        }
        let pid = self.fleet().add_worker()?;
        self.wait_for_workers(&[pid], Instant::now(), poll)?;
        Ok(pid)
    }

    /// Kills the dispatcher (SIGKILL) and restarts it, with its state, at the same address; returns its process.
    ///
    /// # Errors
    /// As [`Up::start`].
    pub fn restart_dispatcher(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<u32> {
        let end = Instant::now() + START.most;
        let mut fleet = self.fleet();
        fleet.dispatcher.kill();
        fleet.dispatcher = fleet.recipe.dispatcher(&self.address)?;
        fleet.dispatcher.address(end, poll)?;
        Ok(fleet.dispatcher.pid())
    }

    /// Kills a worker (SIGKILL), by its place in [`Up::worker_pids`], and returns its process: for tests and
    /// demonstrations.
    ///
    /// # Errors
    /// NotFound when there is no such worker.
    pub fn kill_worker(&self, index: usize) -> Result<u32> {
        let mut fleet = self.fleet();
        let count = fleet.live().count();
        let missing = || {
            let message = format!("there is no worker {index}: {count} are running, counted from 0");
            Error::new(ErrorKind::NotFound, message)
        };
        let child = fleet.live().nth(index).ok_or_else(missing)?;
        child.kill();
        Ok(child.pid())
    }

    /// Waits until the workers with these processes are registered: they were just started, and must not end. Other
    /// workers are not counted. Returns a notice if some of them are not registered in the usual time.
    fn wait_for_workers(
        &self,
        pids: &[u32],
        began: Instant,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<String>> {
        let rest = (began + START.most).saturating_duration_since(Instant::now());
        let service = Service::connect(Remote::new(&*self.address), rest, poll)?;
        loop {
            let addresses = self.fleet().listening(pids)?;
            let there = service.workers(poll)?;
            let lives = |address: &&String| there.iter().any(|w| w.address == **address && w.state != "lost");
            let (live, started, waited) = (addresses.iter().filter(lives).count(), pids.len(), began.elapsed());
            let seconds = waited.as_secs();
            match START.verdict(waited, live, started) {
                Verdict::All => return Ok(None),
                Verdict::Wait => {}
                Verdict::Some => {
                    let load = load().map(|load| format!(" (load {load})")).unwrap_or_default();
                    let notice = format!(
                        "the service begins with {live} of {started} workers: the others are still starting after \
                         {seconds} s{load}, and join when they are ready"
                    );
                    tracing::warn!("{notice}");
                    return Ok(Some(notice));
                }
                Verdict::None => {
                    let message = format!("none of {started} new workers was registered within {seconds} s");
                    let error = self.fleet().late(pids, &message);
                    let error = load().into_iter().fold(error, |error, load| error.with("load", load));
                    return Err(error.hint("start fewer workers, or start them when the machine is less busy"));
                }
            }
            self.check()?;
            poll()?;
            std::thread::sleep(LOOK);
        }
    }

    /// Restarts dead workers until the service is closed.
    fn watch(&self) -> Result<()> {
        let fleet = Arc::downgrade(&self.fleet);
        std::thread::Builder::new().name("forebay-watch".to_owned()).spawn(move || {
            while let Some(fleet) = fleet.upgrade() {
                let mut fleet = fleet.lock().unwrap_or_else(PoisonError::into_inner);
                if fleet.closed {
                    return;
                }
                fleet.respawn();
                drop(fleet);
                std::thread::sleep(WATCH);
            }
        })?;
        Ok(())
    }

    /// Ends the processes: the workers within 3 s, then the dispatcher within 3 s, or they are killed.
    pub fn close(&self) {
        let mut temporary = self.temporary.lock().unwrap_or_else(PoisonError::into_inner);
        // A forked copy of the handle owns neither the processes nor the folder.
        if self.pid != std::process::id() {
            std::mem::forget(temporary.take());
            return;
        }
        let mut fleet = self.fleet();
        if !fleet.closed {
            fleet.close();
        }
        // After the dispatcher, which writes to it.
        drop(temporary.take());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.close();
    }
}

//! The children of one `up`: the running ones, how to start each, and the dead ones.

#![expect(clippy::disallowed_methods, reason = "processes are ended within a bound")]

use std::time::{Duration, Instant};

use forebay_core::{Error, Result};
use forebay_dispatcher::{Objective, Scaling};

use crate::cache::CacheConfig;
use crate::children::child::Child;

/// The pause before a dead worker is restarted, so that one that cannot start does not use up the machine.
const RESPAWN_PAUSE: Duration = Duration::from_secs(1);
/// How long children may take to end before they are killed.
const END_MAX: Duration = Duration::from_secs(3);

/// How to start children.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// The beginning of every command: `forebay`, or `python -m forebay`.
    pub(crate) command: Vec<String>,
    /// Threads of each worker.
    pub(crate) threads: usize,
    pub(crate) state_dir: std::path::PathBuf,
    /// Whether the state folder is removed with this process.
    pub(crate) is_temporary: bool,
    /// The cache of each worker.
    pub(crate) cache: CacheConfig,
    /// The policy for the number of workers, and the most workers.
    pub(crate) scaling: Scaling,
}

impl Recipe {
    fn with(&self, arguments: &[&str]) -> Vec<String> {
        let own = ["--announce", "--exit-with-parent"];
        self.command.iter().cloned().chain(arguments.iter().chain(&own).map(|a| (*a).to_owned())).collect()
    }

    pub(crate) fn dispatcher(&self, listen: &str) -> Result<Child> {
        let dir = self.state_dir.to_string_lossy();
        let Scaling { policy, objective, workers_max } = &self.scaling;
        let [policy, most, aim] = [policy.to_string(), workers_max.to_string(), objective.to_string()];
        let prices = [objective.prices().trainer, objective.prices().worker].map(|price| price.to_string());
        let scaling = ["--policy", &policy, "--max-workers", &most, "--objective", &aim];
        let priced = ["--trainer-price", &prices[0], "--worker-price", &prices[1]];
        let priced = if *objective == Objective::Time { &[][..] } else { &priced };
        let temporary = if self.is_temporary { &["--temporary"][..] } else { &[] };
        let own = ["dispatcher", "--listen", listen, "--state-dir", &dir];
        let arguments = [&own[..], &scaling, priced, temporary].concat();
        Child::start("the dispatcher".to_owned(), &self.keeping(&arguments, false), &[])
    }

    pub(crate) fn worker(&self, number: usize, dispatcher: &str) -> Result<Child> {
        let threads = self.threads.to_string();
        let arguments = ["worker", "--dispatcher", dispatcher, "--listen", "127.0.0.1:0", "--threads", &threads];
        Child::start(format!("worker {number}"), &self.keeping(&arguments, true), &[])
    }

    /// Returns a command with the options of its process's cache. Rows are for workers.
    fn keeping(&self, arguments: &[&str], rows: bool) -> Vec<String> {
        let CacheConfig { places, memory, disk, store, source, prices } = &self.cache;
        let folder = places.folder.as_ref().map(|folder| folder.to_string_lossy());
        let [memory, disk, store] = [memory, disk, store].map(|bytes| bytes.map(|bytes| bytes.to_string()));
        let source = source.map(|is_on| if is_on { "on" } else { "off" });
        let prices = prices.map(|prices| prices.to_string());
        let options = [
            ("--cache", folder.as_deref()),
            ("--cache-disk", disk.as_deref()),
            ("--cache-source", source),
            ("--cache", places.store.as_deref().filter(|_| rows)),
            ("--cache-memory", memory.as_deref().filter(|_| rows)),
            ("--cache-store", store.as_deref().filter(|_| rows)),
            ("--cache-prices", prices.as_deref().filter(|_| rows)),
        ];
        let options: Vec<&str> =
            options.into_iter().filter_map(|(name, value)| Some([name, value?])).flatten().collect();
        self.with(&[arguments, &options].concat())
    }
}

/// A worker's place.
pub(crate) struct Place {
    pub(crate) child: Child,
    /// When its death was noticed.
    died: Option<Instant>,
    pub(crate) phase: Phase,
}

impl Place {
    fn new(child: Child) -> Self {
        Self { child, died: None, phase: Phase::Starting(Instant::now()) }
    }
}

/// The phase of a worker, and since when. Only the provisioner moves it on from the first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    Starting(Instant),
    Running(Instant),
    Leaving(Instant),
}

/// The children.
pub(crate) struct Fleet {
    pub(crate) recipe: Recipe,
    pub(crate) address: String,
    pub(crate) dispatcher: Child,
    pub(crate) workers: Vec<Place>,
    /// The number of workers that were ever started.
    pub(crate) started: usize,
    pub(crate) closed: bool,
}

impl Fleet {
    /// Starts a worker and returns its process.
    pub(crate) fn add_worker(&mut self) -> Result<u32> {
        let child = self.recipe.worker(self.started, &self.address)?;
        self.started += 1;
        let pid = child.pid();
        self.workers.push(Place::new(child));
        Ok(pid)
    }

    /// Returns the workers that have not ended.
    pub(crate) fn live(&mut self) -> impl Iterator<Item = &mut Child> {
        self.workers.iter_mut().map(|w| &mut w.child).filter_map(|c| c.ended().is_none().then_some(c))
    }

    /// Returns the addresses of the workers with these processes that listen by now.
    ///
    /// # Errors
    /// Unavailable, with its last output, when one of them has ended.
    pub(crate) fn listening(&mut self, pids: &[u32]) -> Result<Vec<String>> {
        let mut addresses = Vec::new();
        for child in self.workers.iter_mut().map(|w| &mut w.child).filter(|c| pids.contains(&c.pid())) {
            if child.ended().is_some() {
                return Err(child.unavailable("ended before it was registered"));
            }
            addresses.extend(child.listens()?);
        }
        Ok(addresses)
    }

    /// Returns the error of workers with these processes that are not ready in time, with their last output.
    pub(crate) fn late(&mut self, pids: &[u32], message: &str) -> Error {
        let late = self.workers.iter().map(|w| &w.child).filter(|c| pids.contains(&c.pid()));
        let said: Vec<_> = late.map(Child::last_lines).filter(|lines| !lines.is_empty()).collect();
        let error = Error::unavailable(message);
        if said.is_empty() { error } else { error.with("stderr", said.join("\n")) }
    }

    /// Restarts workers that died a while ago.
    pub(crate) fn respawn(&mut self) {
        for (number, place) in self.workers.iter_mut().enumerate() {
            let Some(status) = place.child.ended() else { continue };
            match place.died {
                None => {
                    tracing::warn!(worker = number, %status, "a worker ended; it is started again");
                    place.died = Some(Instant::now());
                }
                Some(died) if died.elapsed() >= RESPAWN_PAUSE => match self.recipe.worker(number, &self.address) {
                    Ok(child) => *place = Place::new(child),
                    Err(error) => {
                        tracing::error!(worker = number, error = error.message(), "cannot start the worker again");
                        place.died = Some(Instant::now());
                    }
                },
                Some(_) => {}
            }
        }
    }

    /// Ends every child: the workers first, because they need the dispatcher. Asks all of them, then waits for them
    /// together, and kills the rest.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        let end = Instant::now() + END_MAX;
        self.workers.iter_mut().for_each(|w| w.child.release());
        self.workers.iter_mut().for_each(|w| w.child.wait(end));
        self.dispatcher.release();
        self.dispatcher.wait(Instant::now() + END_MAX);
    }
}

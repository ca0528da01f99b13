//! All leases of this worker by split, and the jobs that they belong to.
//!
//! Invariant: a split that is leased again under a newer token keeps the chunks that were computed under the older one,
//! because they are the same. Bounds: the worker requests no more than [`HELD_SPLITS_MAX`] and its [`Bounds`] allow.
//! Splits of jobs that are held up come on top; the dispatcher grants such a job only as many as keep its threads busy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Epoch, Error, Result, SampleId, Ticks};
use forebay_data::RowId;
use forebay_exec::KnownSkips;
use forebay_proto::{Consumed, JobDefinition, Lease, LostOfSplit, Ticket};
use tokio::sync::Notify;

use crate::compute::engine::{Engine, PoolEngine};
use crate::compute::watchdog::HELD_UP_AFTER;
use crate::lock::lock;
use crate::options::{Bounds, HELD_SPLITS_MAX, LOCAL_QUEUE};
use crate::splits::jobs::Job;
use crate::splits::split_buffer::{SplitBuffer, SplitKey};
use crate::stats::WorkerStats;

/// How long a ticket waits for its lease to arrive.
pub(crate) const LEASE_WAIT_MAX: Duration = Duration::from_secs(1);

struct TableState<P> {
    jobs: HashMap<u64, Arc<Job<P>>>,
    splits: BTreeMap<SplitKey, Arc<SplitBuffer>>,
    /// Known skips of the split whose lease comes next.
    next_known: Option<(SplitKey, Arc<KnownSkips>)>,
    /// The highest token that was leased to this worker. Leases come in the order of their tokens.
    token_max: u64,
    /// Jobs that are being prepared, and when [`LeaseTable::find_held_up`] first saw them so.
    pending: BTreeMap<u64, Ticks>,
    /// Jobs that occupy slots and make no progress.
    held_up: BTreeSet<u64>,
}

impl<P> TableState<P> {
    /// Counts the splits for which `is` holds, without those of jobs that are held up.
    fn count(&self, is: impl Fn(&SplitBuffer) -> bool) -> usize {
        self.splits.iter().filter(|(key, split)| !self.held_up.contains(&key.job) && is(split)).count()
    }
}

/// The split of a ticket, and its job.
pub(crate) type Found<P> = (Arc<SplitBuffer>, Arc<Job<P>>);

/// The leases of one worker.
pub(crate) struct LeaseTable<E: Engine = PoolEngine> {
    pub(crate) stats: Arc<WorkerStats>,
    engine: E,
    threads: AtomicUsize,
    slots: AtomicUsize,
    bytes_max: usize,
    state: Mutex<TableState<E::Prepared>>,
    /// Notified of every lease.
    leased: Notify,
}

impl<E: Engine> LeaseTable<E> {
    /// Returns an empty table. The worker will request as many splits as these bounds allow.
    pub(crate) fn new(engine: E, bounds: Bounds) -> Self {
        let (jobs, splits, pending, held_up) = Default::default();
        let state = TableState { jobs, splits, next_known: None, token_max: 0, pending, held_up };
        let (threads, slots) = (AtomicUsize::new(bounds.threads), AtomicUsize::new(bounds.slots));
        // A worker that holds nothing has room, for any bound.
        let (state, bytes_max) = (Mutex::new(state), bounds.bytes.max(1));
        Self { stats: Arc::default(), engine, threads, slots, bytes_max, state, leased: Notify::new() }
    }

    /// Returns how many threads compute.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// Accepts a job's definition, and prepares it.
    pub(crate) fn define(self: &Arc<Self>, definition: JobDefinition) {
        let id = definition.job;
        if let Some(known) = lock(&self.state).jobs.get(&id)
            && known.definition == definition
        {
            return;
        }
        // Another job has the same number: the dispatcher has lost its state.
        self.forget(id);
        let job = Arc::new(Job::new(definition));
        let mut state = lock(&self.state);
        state.jobs.insert(id, job.clone());
        state.token_max = state.splits.values().map(|s| s.token()).max().unwrap_or(0);
        drop(state);
        self.engine.prepare(self, job);
    }

    /// Ends a job's preparation, well or not, and lets the splits that waited for it go on.
    pub(crate) fn prepared(&self, job: &Job<E::Prepared>, prepared: Result<Arc<E::Prepared>>) {
        if let Err(error) = &prepared {
            tracing::warn!(job = job.definition.name, error = error.message(), "the job cannot be computed here");
        }
        for split in job.set(prepared.clone()) {
            self.compute(split, prepared.clone(), false);
        }
    }

    fn compute(&self, split: Arc<SplitBuffer>, prepared: Result<Arc<E::Prepared>>, first: bool) {
        let run = split.run();
        match prepared {
            Ok(job) => self.engine.compute(split, job, run, first),
            Err(error) => split.fail(run, 0, error),
        }
    }

    /// Accepts the known skips of the split that is leased next.
    pub(crate) fn expect_skips(&self, of: &LostOfSplit) {
        let Some(first) = of.samples.first() else { return };
        let key = SplitKey { job: of.job, consumer: of.consumer, epoch: first.epoch, ordinal: first.ordinal };
        let mut known = KnownSkips::default();
        for lost in &of.samples {
            let row = RowId { sample: SampleId(lost.sample), epoch: Epoch(lost.repetition) };
            known.add(Epoch(lost.epoch), row, Error::from_json(&lost.error));
        }
        lock(&self.state).next_known = Some((key, Arc::new(known)));
    }

    /// Accepts a lease, or a newer token for a split that is held.
    pub(crate) fn lease(self: &Arc<Self>, lease: &Lease) {
        self.insert(lease);
        self.leased.notify_waiters();
    }

    fn insert(self: &Arc<Self>, lease: &Lease) {
        let key = SplitKey { job: lease.job, consumer: lease.consumer, epoch: lease.epoch, ordinal: lease.ordinal };
        let (job, split) = {
            let mut state = lock(&self.state);
            state.token_max = state.token_max.max(lease.token);
            let Some(job) = state.jobs.get(&lease.job).cloned() else {
                // The consumer finds no split here and reports that; the dispatcher then grants the split again.
                tracing::error!(?lease, "ignored a lease of a job whose definition was not sent");
                return;
            };
            let known =
                state.next_known.take().filter(|(of, _)| *of == key).map(|(_, known)| known).unwrap_or_default();
            if let Some(buffer) = state.splits.get(&key) {
                buffer.set_known(known);
                buffer.set_lease(lease.token, lease.ops);
                if !buffer.has_failed() {
                    return;
                }
                buffer.rewind(0);
                (job, buffer.clone())
            } else {
                let buffer = Arc::new(SplitBuffer::new(key, lease.token, lease.ops, self.stats.clone()));
                buffer.set_known(known);
                state.splits.insert(key, buffer.clone());
                (job, buffer)
            }
        };
        let again = job.take_unavailable();
        job.when_ready(split, |split, prepared| self.compute(split, prepared, false));
        if again {
            self.engine.prepare(self, job);
        }
    }

    /// Computes a split again for a consumer that waits for chunk `from`, which was dropped.
    pub(crate) fn recompute(&self, split: &Arc<SplitBuffer>, job: Arc<E::Prepared>, from: u64) {
        tracing::info!(split = ?split.key, from, "computing a split again for a consumer that came back");
        split.rewind(from);
        self.compute(split.clone(), Ok(job), true);
    }

    /// Removes the splits that a consumer has consumed.
    pub(crate) fn consumed(&self, to: &Consumed) {
        let from = SplitKey { job: to.job, consumer: to.consumer, epoch: 0, ordinal: 0 };
        let end = SplitKey { epoch: to.epoch, ordinal: to.ordinal, ..from };
        if from < end {
            self.remove(|state| state.splits.range(from..end).map(|(k, _)| *k).collect());
        }
    }

    /// Removes a lease that this worker does not hold any more.
    pub(crate) fn revoke(&self, token: u64) {
        self.remove(|state| state.splits.iter().filter(|(_, s)| s.token() == token).map(|(k, _)| *k).collect());
    }

    /// Removes a job and its splits.
    pub(crate) fn forget(&self, job: u64) {
        self.remove(|state| {
            if let Some(job) = state.jobs.remove(&job) {
                job.forget();
            }
            state.splits.keys().filter(|k| k.job == job).copied().collect()
        });
    }

    fn remove(&self, which: impl FnOnce(&mut TableState<E::Prepared>) -> Vec<SplitKey>) {
        let removed: Vec<_> = {
            let mut state = lock(&self.state);
            which(&mut state).into_iter().filter_map(|key| state.splits.remove(&key)).collect()
        };
        removed.iter().for_each(|split| split.remove());
    }

    /// Removes everything; threads that wait stop.
    pub(crate) fn clear(&self) {
        self.remove(|state| state.splits.keys().copied().collect());
    }

    /// Returns the split of a ticket. The dispatcher sends a lease to consumer and worker at the same time, so the
    /// ticket may arrive first: a ticket that is newer than every lease so far waits.
    pub(crate) async fn find(&self, ticket: &Ticket) -> Option<Found<E::Prepared>> {
        let deadline = tokio::time::Instant::now() + LEASE_WAIT_MAX;
        loop {
            let mut leased = pin!(self.leased.notified());
            leased.as_mut().enable();
            if let Some(found) = self.try_find(ticket) {
                return found;
            }
            tokio::time::timeout_at(deadline, leased).await.ok()?;
        }
    }

    /// As [`LeaseTable::find`], without waiting: `None` while the lease may still arrive. A ticket without the job's
    /// key gets the answer of a ticket for an unknown split.
    pub(crate) fn try_find(&self, ticket: &Ticket) -> Option<Option<Found<E::Prepared>>> {
        let key = SplitKey { job: ticket.job, consumer: ticket.consumer, epoch: ticket.epoch, ordinal: ticket.ordinal };
        let state = lock(&self.state);
        let split = state.splits.get(&key).filter(|s| s.token() == ticket.token);
        let job = state.jobs.get(&ticket.job).filter(|job| ticket.key.opens(&job.definition.key));
        match split.and_then(|split| Some((split.clone(), job?.clone()))) {
            None if ticket.token > state.token_max => None,
            found => Some(found),
        }
    }

    /// Returns the splits that are held, ordered by job, consumer, epoch and ordinal.
    pub(crate) fn list(&self) -> Vec<Found<E::Prepared>> {
        let state = lock(&self.state);
        let with_job = |s: &Arc<SplitBuffer>| Some((s.clone(), state.jobs.get(&s.key.job)?.clone()));
        state.splits.values().filter_map(with_job).collect()
    }

    /// Returns the leases that are held.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        let lease = |s: &Arc<SplitBuffer>| Lease {
            job: s.key.job,
            epoch: s.key.epoch,
            consumer: s.key.consumer,
            ordinal: s.key.ordinal,
            token: s.token(),
            ops: None,
        };
        lock(&self.state).splits.values().map(lease).collect()
    }

    /// Returns the tokens of the leases whose splits occupy no slot any more.
    pub(crate) fn finished(&self) -> Vec<u64> {
        lock(&self.state).splits.values().filter(|s| !s.is_open()).map(|s| s.token()).collect()
    }

    /// Returns the cache report of each job: the job's number, and JSON.
    pub(crate) fn caching(&self) -> Vec<(u64, String)> {
        let jobs: Vec<_> = lock(&self.state).jobs.iter().map(|(id, job)| (*id, job.clone())).collect();
        jobs.into_iter().filter_map(|(id, job)| Some((id, E::caching(&*job.ready()?)?))).collect()
    }

    /// Returns why nothing is written to the cache's folder; empty if it is written to, or if there is none.
    pub(crate) fn disk_off(&self) -> String {
        self.engine.disk_off()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).splits.is_empty()
    }

    /// Finds and returns the jobs that occupy slots and make no progress: their threads hang in a read, or their
    /// preparation takes longer than [`HELD_UP_AFTER`]. From now on their splits do not count against the room for
    /// others.
    pub(crate) fn find_held_up(&self, now: Ticks) -> Vec<u64> {
        let mut held_up = self.engine.held_up();
        let mut state = lock(&self.state);
        let TableState { jobs, pending, .. } = &mut *state;
        pending.retain(|id, _| jobs.get(id).is_some_and(|job| job.is_pending()));
        for (id, _) in jobs.iter().filter(|(_, job)| job.is_pending()) {
            if now - *pending.entry(*id).or_insert(now) >= HELD_UP_AFTER {
                held_up.insert(*id);
            }
        }
        held_up.retain(|id| jobs.contains_key(id));
        state.held_up.clone_from(&held_up);
        held_up.into_iter().collect()
    }

    /// Returns how many more splits this worker has room for.
    pub(crate) fn room(&self) -> usize {
        if self.stats.bytes.load(Relaxed) >= self.bytes_max {
            return 0;
        }
        let state = lock(&self.state);
        let (held, open) = match state.held_up.is_empty() {
            true => (state.splits.len(), self.stats.open.load(Relaxed)),
            false => (state.count(|_| true), state.count(SplitBuffer::is_open)),
        };
        self.slots.load(Relaxed).saturating_sub(open).min(HELD_SPLITS_MAX.saturating_sub(held))
    }

    /// Checks the invariants that hold while no thread computes: W-3, and that the counters equal the held splits.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        let state = lock(&self.state);
        let bytes = state.splits.values().map(|s| s.bytes()).sum::<usize>();
        let open = state.splits.values().filter(|s| s.is_open()).count();
        let counted = (self.stats.bytes.load(Relaxed), self.stats.open.load(Relaxed));
        if counted != (bytes, open) {
            return Err(Error::internal(format!(
                "W-3: the stats say {counted:?} (bytes, open), held are {:?}",
                (bytes, open)
            )));
        }
        // A job may be forgotten and defined again while splits are requested.
        let held = state.count(|_| true);
        if held > HELD_SPLITS_MAX + self.slots.load(Relaxed) {
            return Err(Error::internal(format!("W-3: {held} splits are held; the most is {HELD_SPLITS_MAX}")));
        }
        let orphan = state.splits.keys().find(|k| !state.jobs.contains_key(&k.job));
        orphan.map_or(Ok(()), |key| Err(Error::internal(format!("W-3: {key:?} is held, and its job is not known"))))
    }
}

impl LeaseTable {
    /// Returns how many threads hang.
    pub(crate) fn threads_held_up(&self) -> usize {
        self.engine.pool.held_up()
    }

    /// Changes how many threads of a local worker compute. With none, the worker requests nothing more, and computes
    /// the splits that it holds to their end.
    pub(crate) fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Relaxed);
        self.slots.store(if threads == 0 { 0 } else { threads + LOCAL_QUEUE }, Relaxed);
        self.engine.pool.set_threads(threads.max(1));
        self.stats.freed.notify_one();
    }
}

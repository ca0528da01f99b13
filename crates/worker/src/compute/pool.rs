//! The threads that compute. They take work from consumers in turn (see `fair_queue`), and of each consumer the morsels
//! of its oldest leases first. Several threads share a split that has several morsels, and the rows of one morsel. A
//! source block is one task. A task gives way to other consumers between two of its rows, or of its chunks (see `turn`).
//! A job without a thread comes before the rows that threads share.
//!
//! They are threads of the operating system, not of the async runtime: a morsel takes milliseconds. As many compute at
//! once as the worker was configured with. A thread that waits (for a slow consumer, or before it retries a storage)
//! lets another compute meanwhile, and so does one that hangs (see `watchdog`). Bounds: the configured threads, and
//! [`SPARE_THREADS_MAX`] that wait or hang. `waits` has the waits, and the bound of those for a store.

#![expect(clippy::disallowed_methods, reason = "the threads that compute, and the one that watches them")]

mod waits;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use forebay_core::{ConsumerIndex, Ordinal, WaitsFor, set_waiting};
use forebay_exec::{RowPool, STACK_BYTES, Scratch, ThreadCpuTime, set_preemption};
use forebay_plan::Morsel;

use crate::compute::fair_queue::{Charge, Eligibility, FairQueue, Flow};
use crate::compute::run::{block, morsel};
use crate::compute::task::{BusyThread, Queued, QueuedSplit, Task, next_task};
use crate::compute::turn::{Paused, Schedule, ThreadPreemption, Turn};
use crate::compute::watchdog::{TaskId, Watchdog};
use crate::lock::lock;
use crate::splits::jobs::Prepared;
use crate::splits::split_buffer::SplitBuffer;

/// Threads in addition to computing threads, for threads that wait or hang.
const SPARE_THREADS_MAX: usize = 256;
/// How often the pool looks for threads that hang.
const LOOK_EVERY: Duration = Duration::from_millis(250);

thread_local! {
    /// The task of this thread.
    static CURRENT: Cell<TaskId> = const { Cell::new(0) };
}

#[derive(Default)]
struct State {
    queue: FairQueue<Queued>,
    pushed: u64,
    watchdog: Watchdog,
    /// The tasks that were paused and whose turn it is, until their threads see that.
    resumed: BTreeMap<TaskId, Charge>,
    threads: usize,
    /// Threads that may compute at once.
    threads_max: usize,
    /// Threads that wait for a store while others compute in their place.
    store_waits: usize,
    stop: bool,
}

impl State {
    /// Lets a paused task go on.
    fn resume(&mut self, paused: &Paused, charge: Charge) {
        self.watchdog.go_on(Instant::now(), paused.id);
        self.resumed.insert(paused.id, charge);
    }
}

/// The threads of one worker. Dropping it stops them after their current morsel.
pub(crate) struct Pool {
    shared: Arc<PoolShared>,
}

pub(crate) struct PoolShared {
    state: Mutex<State>,
    work: Condvar,
    /// Notified when a paused task goes on.
    turns: Condvar,
    /// The function that a thread calls first.
    on_start: fn(),
    row_pool: Arc<RowPool>,
    /// The number of splits that were ever pushed: threads that help look for a new consumer when it changes.
    pushed: AtomicU64,
    /// Microseconds that threads spent on rows of other threads' morsels, not yet counted for any job.
    helped_us: AtomicU64,
}

impl Pool {
    /// Starts threads, each of which calls `on_start` first.
    pub(crate) fn new(threads: usize, on_start: fn()) -> Self {
        let shared = Arc::new_cyclic(|shared: &Weak<PoolShared>| {
            let row_pool = Arc::new(RowPool::new(wake(shared.clone())));
            PoolShared {
                state: Mutex::default(),
                work: Condvar::new(),
                turns: Condvar::new(),
                on_start,
                row_pool,
                pushed: AtomicU64::default(),
                helped_us: AtomicU64::default(),
            }
        });
        watch(Arc::downgrade(&shared));
        let pool = Self { shared };
        pool.set_threads(threads);
        pool
    }

    /// Changes how many threads compute at once. Surplus threads finish their morsel and wait.
    pub(crate) fn set_threads(&self, threads: usize) {
        let mut state = lock(&self.shared.state);
        state.threads_max = threads;
        self.shared.clone().fill(&mut state);
        drop(state);
        self.shared.work.notify_all();
    }

    /// Returns how many threads hang.
    pub(crate) fn held_up(&self) -> usize {
        lock(&self.shared.state).watchdog.held_up()
    }

    /// Returns the jobs that have a thread which hangs.
    pub(crate) fn jobs_held_up(&self) -> BTreeSet<u64> {
        lock(&self.shared.state).watchdog.jobs_held_up()
    }

    /// Computes a split after all earlier ones of its consumer; `first` when the consumer already waits for it.
    pub(crate) fn push(&self, split: Arc<SplitBuffer>, job: Arc<Prepared>, run: u64, first: bool) {
        let (plan, key) = (job.executable.plan(), split.key);
        let consumer = ConsumerIndex(key.consumer);
        let morsels = || plan.morsels(consumer, Ordinal(key.ordinal));
        let counted = !matches!(morsels().next(), Some(Morsel::Block { .. }));
        if counted {
            // A split has few morsels: the plan's sizes bound them.
            split.set_total(run, morsels().count() as u64);
        } else {
            split.set_streamed();
        }
        let morsels = Box::new((0..).zip(morsels()));
        let mut state = lock(&self.shared.state);
        state.pushed += 1;
        let order = if first { 0 } else { state.pushed };
        let share = job.share;
        let entry = Queued::Split(QueuedSplit { morsels, split, job, run, counted, order });
        state.queue.push((key.job, key.consumer), share, entry, Queued::comes_before(order));
        drop(state);
        self.shared.pushed.fetch_add(1, Relaxed);
        self.shared.work.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.work.notify_all();
        self.shared.turns.notify_all();
    }
}

impl Schedule for Arc<PoolShared> {
    fn next_turn(&self, turn: &mut Turn) -> Duration {
        PoolShared::next_turn(self, turn)
    }

    fn wait(&self, waits_for: WaitsFor, wait: &mut dyn FnMut()) {
        match waits_for {
            WaitsFor::Thread => self.aside(wait),
            WaitsFor::Store => self.wait_for_store(wait),
        }
    }
}

/// Wakes the threads that wait. They look for work under the state's lock, so this takes it, and none misses the
/// wake-up.
fn wake(shared: Weak<PoolShared>) -> impl Fn() + Send + Sync {
    move || {
        if let Some(shared) = shared.upgrade() {
            drop(lock(&shared.state));
            shared.work.notify_all();
        }
    }
}

/// Looks for threads that hang, for as long as the pool exists.
fn watch(shared: Weak<PoolShared>) {
    let look = move || {
        while let Some(shared) = shared.upgrade().filter(|shared| !shared.is_stopped()) {
            shared.find_hung();
            drop(shared);
            std::thread::sleep(LOOK_EVERY);
        }
    };
    let started = std::thread::Builder::new().name("forebay-watch".to_owned()).spawn(look);
    if let Err(error) = started {
        tracing::error!(%error, "cannot start the thread that replaces hanging threads");
    }
}

impl PoolShared {
    fn spawn(self: Arc<Self>, state: &mut State) {
        let name = format!("forebay-compute-{}", state.threads);
        let shared = self.clone();
        let run = move || {
            (shared.on_start)();
            shared.work();
        };
        match std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(run) {
            Ok(_) => state.threads += 1,
            Err(error) => tracing::error!(%error, threads = state.threads, "cannot start a thread"),
        }
    }

    fn work(self: Arc<Self>) {
        let (mut scratch, processor) = (Scratch::default(), ThreadCpuTime::of_this_thread());
        let preemption = Rc::new(ThreadPreemption { schedule: self.clone(), started: Instant::now() });
        set_waiting(preemption.clone());
        set_preemption(preemption);
        while let Some((task, charge, id)) = self.take_task(&processor) {
            CURRENT.set(id);
            let began = Instant::now();
            let mut begin = |split: &SplitBuffer, job: &Prepared, order, is_free| {
                let flow = (split.key.job, split.key.consumer);
                scratch.share(&self.row_pool, flow.0, order);
                Turn { id, flow, share: job.share, order, charge, since: began, is_free }.begin();
            };
            match task {
                Task::Morsel(split, job, run, next, order) => {
                    begin(&split, &job, order, true);
                    morsel(&self, &mut scratch, &split, &job, run, next);
                }
                Task::Block(entry, announced) => {
                    let (split, job) = (&entry.split, &entry.job);
                    begin(split, job, entry.order, announced.is_none());
                    block(&self, &mut scratch, (split, job, entry.run), (entry.morsels, announced));
                }
                // `take_task` resumes the block's thread itself.
                Task::Resume(_) => {}
                Task::Help => {
                    let pushed = self.pushed.load(Relaxed);
                    self.row_pool.run_shared_while(&mut scratch, &|| self.pushed.load(Relaxed) == pushed);
                    self.helped_us.fetch_add(began.elapsed().as_micros() as u64, Relaxed);
                }
            }
            let mut state = lock(&self.state);
            let held_up = state.watchdog.held_up();
            state.watchdog.end(id);
            if let Some(Turn { charge: Some(charge), since, .. }) = Turn::end() {
                state.queue.settle(charge, since.elapsed());
            }
            drop(state);
            self.wake_threads(held_up);
        }
    }

    /// Wakes threads after a task has made progress. Where threads were held up, that may let several others begin.
    fn wake_threads(&self, held_up: usize) {
        if held_up > 0 { self.work.notify_all() } else { self.work.notify_one() }
    }

    fn take_task(&self, processor: &ThreadCpuTime) -> Option<(Task, Option<Charge>, TaskId)> {
        let mut state = lock(&self.state);
        loop {
            if state.stop {
                return None;
            }
            if state.watchdog.computing() < state.threads_max {
                let can_help = self.row_pool.has_work();
                let State { queue, watchdog, threads_max, .. } = &mut *state;
                // A job without a thread comes before the rows of other jobs' morsels.
                let (eligibility, at_work) = (watchdog.eligibility(*threads_max), watchdog.jobs_at_work());
                let is_served = |flow: Flow| can_help && at_work.contains(&flow.0);
                let eligibility = |flow| if is_served(flow) { Eligibility::Never } else { eligibility(flow) };
                let next = queue.next(eligibility, next_task).map(|(task, charge)| (task, Some(charge)));
                if let Some((task, charge)) = next.or(can_help.then_some((Task::Help, None))) {
                    if let (Task::Resume(paused), Some(charge)) = (&task, charge) {
                        state.resume(paused, charge);
                        self.turns.notify_all();
                        continue;
                    }
                    let split = match &task {
                        Task::Morsel(split, _, run, ..) | Task::Block(QueuedSplit { split, run, .. }, _) => {
                            Some((split.clone(), *run))
                        }
                        Task::Help | Task::Resume(_) => None,
                    };
                    let thread = BusyThread { processor: processor.clone(), split };
                    let id = watchdog.begin(Instant::now(), charge.map(Charge::flow), thread);
                    return Some((task, charge, id));
                }
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a part of a task, and begins the next one once it is its turn. Returns how long it has waited.
    pub(crate) fn next_turn(self: &Arc<Self>, turn: &mut Turn) -> Duration {
        let began = Instant::now();
        let mut state = lock(&self.state);
        if let Some(charge) = turn.charge.take() {
            state.queue.correct(charge, began.saturating_duration_since(turn.since));
        }
        let is_due = state.queue.is_due(turn.flow, state.watchdog.eligibility(state.threads_max));
        if is_due && state.watchdog.computing() >= state.threads_max && self.can_replace(&mut state, turn.id) {
            let paused = Queued::Paused(Paused { id: turn.id, order: turn.order });
            state.queue.give_way(turn.flow, turn.share, paused, Queued::comes_before(turn.order));
            // Threads that help must not compute what waits.
            self.row_pool.hold();
            self.work.notify_one();
            while !state.stop {
                turn.charge = state.resumed.remove(&turn.id);
                if turn.charge.is_some() {
                    break;
                }
                state = self.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.row_pool.let_go();
            drop(state);
            self.work.notify_all();
        } else {
            turn.charge = Some(state.queue.go_on(turn.flow, false));
        }
        turn.since = Instant::now();
        turn.since.saturating_duration_since(began)
    }

    /// Takes a thread out of the computing threads, if another thread takes its place.
    fn can_replace(self: &Arc<Self>, state: &mut State, id: TaskId) -> bool {
        state.watchdog.step_aside(id);
        self.clone().fill(state);
        let is_replaced = state.threads >= state.threads_max + state.watchdog.away();
        if !is_replaced {
            state.watchdog.go_on(Instant::now(), id);
        }
        is_replaced
    }

    /// Records that this thread's task has made progress: it does not hang.
    pub(crate) fn go_on(&self) {
        let mut state = lock(&self.state);
        let held_up = state.watchdog.held_up();
        state.watchdog.go_on(Instant::now(), CURRENT.get());
        drop(state);
        if held_up > 0 {
            self.work.notify_all();
        }
    }

    /// Starts threads until as many as may compute are available.
    fn fill(self: Arc<Self>, state: &mut State) {
        let wanted = state.threads_max + state.watchdog.away().min(SPARE_THREADS_MAX);
        for _ in state.threads..wanted {
            self.clone().spawn(state);
        }
    }

    /// Looks for threads that hang, and starts others in their place.
    fn find_hung(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let found = state.watchdog.find_hung(Instant::now());
        let Some(silent) = found.iter().max() else { return };
        let (held_up, jobs) = (state.watchdog.held_up(), state.watchdog.jobs_held_up());
        tracing::warn!(held_up, silent = silent.as_secs(), ?jobs, "threads hang; other threads replace them");
        self.clone().fill(&mut state);
        drop(state);
        self.work.notify_all();
    }

    /// Returns the time that threads spent helping others since the last call. Most of it belongs to the caller's job.
    pub(crate) fn take_helped(&self) -> Duration {
        Duration::from_micros(self.helped_us.swap(0, Relaxed))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).stop
    }
}

//! What the simulation drives of a worker: the real shelf, session and cursors, over an engine in virtual time.
//!
//! Not part of the public interface: only `crates/sim` uses it. Nothing is decided here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_data::{Chunk, MemoryBudget};
use forebay_exec::KnownSkips;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    JobDefinition, JobKey, Lease, OneReader, Reader as ReaderStream, Return, Stream, Ticket, WorkerSecret, worker_event,
};

use crate::cursor::{Cursor, Step, not_held};
use crate::engine::Engine;
use crate::held::{Held, Made};
use crate::jobs::Job;
use crate::loans::Loans;
use crate::lock::lock;
use crate::options::Bounds;
use crate::sharing::{self, Want};
use crate::shelf::Shelf;
use crate::talk::Talk;
use crate::window::{Flight, Member, Window};

/// What local workers show, and their readers say, in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How long a ticket waits for its lease to arrive.
pub const LEASE_WAIT_MAX: Duration = crate::shelf::LEASE_WAIT_MAX;
/// How long a worker that leaves waits for its consumers to fetch what it holds.
pub const LEAVE_MAX: Duration = crate::options::LEAVE_MAX;

/// How long a chunk that another thread computes is waited for.
pub const WAIT_MAX: Duration = crate::window::WAIT_MAX;

/// A job that can be computed.
struct Prepared {
    definition: JobDefinition,
    member: Member,
}

/// Work that the shelf has given out.
#[derive(Clone)]
enum Work {
    Prepare(Arc<Job<Prepared>>),
    Compute(Task, bool),
}

/// Keeps the work until it is asked for, and the jobs that are said to hang.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<Vec<Work>>>, Arc<Mutex<BTreeSet<u64>>>);

impl Engine for Queue {
    type Prepared = Prepared;

    fn caching(_: &Prepared) -> Option<String> {
        None
    }

    fn held_up(&self) -> BTreeSet<u64> {
        lock(&self.1).clone()
    }

    fn prepare(&self, _: &Arc<Shelf<Self>>, job: Arc<Job<Prepared>>) {
        lock(&self.0).push(Work::Prepare(job));
    }

    fn compute(&self, split: Arc<Held>, job: Arc<Prepared>, run: u64, first: bool) {
        lock(&self.0).push(Work::Compute(Task { split, job, run }, first));
    }
}

/// A job to prepare.
#[derive(Clone)]
pub struct Preparing(Arc<Job<Prepared>>);

impl Preparing {
    /// Returns its definition.
    pub fn definition(&self) -> &JobDefinition {
        &self.0.definition
    }
}

/// A split to compute.
#[derive(Clone)]
pub struct Task {
    split: Arc<Held>,
    job: Arc<Prepared>,
    run: u64,
}

/// What is to be done for a chunk.
pub enum Wanted {
    /// Nothing: a job with the same samples had computed it.
    Nothing,
    /// It is to be computed, and this kept meanwhile: it says to whom it is given then.
    Computed(Computing),
    /// Another thread computes it: ask again when one has, for [`WAIT_MAX`] at most.
    Wait,
}

/// A chunk that is being computed. Dropped, other jobs may compute it.
#[derive(Default)]
pub struct Computing(Option<Flight>);

impl Task {
    /// Returns its job.
    pub fn job(&self) -> &JobDefinition {
        &self.job.definition
    }

    /// Returns the rows that are left out whether they fail or not.
    pub fn known(&self) -> Arc<KnownSkips> {
        self.split.known()
    }

    /// Says what is to be done for a chunk of a split that is counted, and takes it where another job had it.
    pub fn want(&self, index: u64) -> Wanted {
        match sharing::want(&self.split, &self.job.member, self.run, index) {
            Want::Nothing => Wanted::Nothing,
            Want::Computed(flight) => Wanted::Computed(Computing(flight)),
            Want::Wait => Wanted::Wait,
        }
    }

    /// Returns (consumer, epoch, ordinal).
    pub fn place(&self) -> (u32, u64, u64) {
        (self.split.key.consumer, self.split.key.epoch, self.split.key.ordinal)
    }

    /// Says whether nobody waits for it any more.
    pub fn is_stale(&self) -> bool {
        self.split.is_stale(self.run)
    }

    /// Says whether a chunk would be dropped at once.
    pub fn wants(&self, index: u64) -> bool {
        self.split.wants(index)
    }

    /// The number of chunks will only be known at the end.
    pub fn set_streamed(&self) {
        self.split.set_streamed();
    }

    /// Says how many chunks there are.
    pub fn set_total(&self, total: u64) {
        self.split.set_total(self.run, total);
    }

    /// Returns how many row ops are to run on what is computed from now on, as the lease says.
    pub fn ops(&self) -> Option<u32> {
        self.split.ops()
    }

    /// Puts a chunk in its place, on which so many row ops have run.
    pub fn put(&self, index: u64, chunk: Chunk, ops: u32, computing: Computing) {
        let made = Made { chunk, ops, shared: false };
        sharing::put(&self.split, self.run, index, made, computing.0);
    }

    /// A thread has computed on it for so long.
    pub fn spend(&self, compute: Duration) {
        self.split.count_time(compute);
    }

    /// Puts an error in the place of a chunk.
    pub fn fail(&self, index: u64, error: Error) {
        let error = self.split.failed_before(index).unwrap_or(error);
        self.split.fail(self.run, index, error);
    }
}

/// What there is to do.
pub enum Todo {
    /// Prepare a job, then say so ([`Worker::prepared`]).
    Prepare(Preparing),
    /// Compute a split; before all others when a reader already waits.
    Compute(Task, bool),
}

/// What a ticket leads to.
pub enum Door {
    /// The split's chunks.
    Open(Reader),
    /// The lease, or the job, may be on its way: ask again when something has changed.
    Wait,
    /// Why there is nothing.
    Refused(Error),
}

/// A chunk as it is sent.
pub struct Sent {
    /// Its index.
    pub index: u64,
    /// Its rows.
    pub chunk: Chunk,
    /// How many row ops have run on them.
    pub ops: u32,
    /// Whether readers of other jobs are given the same memory.
    pub shared: bool,
}

/// One reader of a split.
pub struct Reader(Cursor<Queue>);

impl Reader {
    /// Returns the next chunk; `None` in `Some` when there is none yet, `None` when the split is complete. With `take`, the chunk is given away.
    ///
    /// # Errors
    /// What the split failed with, or that the lease is gone.
    pub fn next(&mut self, take: bool) -> Result<Option<Option<Sent>>> {
        let seen = self.0.look(take);
        Ok(match self.0.after(seen)? {
            Step::Chunk(index, Made { chunk, ops, shared }) => Some(Some(Sent { index, chunk, ops, shared })),
            Step::Wait => Some(None),
            Step::End => None,
        })
    }
}

/// A worker's state machines.
pub struct Worker {
    queue: Queue,
    talk: Talk<Queue>,
    window: Arc<Window>,
    /// What is on loan: blocks of memory by number.
    loans: Loans<u64>,
}

impl Worker {
    /// A worker that has just started; a local one computes for one reader alone.
    pub fn new(secret: u128, address: String, threads: usize, slots: usize, only: Option<OneReader>) -> Self {
        let queue = Queue::default();
        let shelf =
            Arc::new(Shelf::new(queue.clone(), Bounds { threads, slots, bytes: MemoryBudget::default().held() }));
        let talk = Talk::new(WorkerSecret::new(secret), address, only, shelf);
        let talk = talk.started_with(JobKey::from_bytes(&LOCAL_KEY));
        // Readers are strangers to every other process of a worker, as those of random numbers are.
        let loans = Loans::new((secret as u64) << 48 | ((secret >> 64) as u64) << 24);
        Self { queue, talk, window: Arc::default(), loans }
    }

    /// Takes what there is to do since the last call.
    pub fn todo(&self) -> Vec<Todo> {
        let work = std::mem::take(&mut *lock(&self.queue.0)).into_iter();
        let todo = work.map(|work| match work {
            Work::Prepare(job) => Todo::Prepare(Preparing(job)),
            Work::Compute(task, first) => Todo::Compute(task, first),
        });
        todo.collect()
    }

    /// A job is ready, or cannot be.
    pub fn prepared(&self, job: &Preparing, ready: Result<()>) {
        let definition = job.definition().clone();
        let prepared =
            || Prepared { member: self.window.join(Stream::of(&definition)), definition: definition.clone() };
        self.talk.shelf.prepared(&job.0, ready.map(|()| Arc::new(prepared())));
    }

    /// Threads hang in what these jobs read, and in nothing else.
    pub fn hang(&self, jobs: BTreeSet<u64>) {
        *lock(&self.queue.1) = jobs;
    }

    /// The first message of a session.
    pub fn hello(&mut self) -> Message {
        self.talk.hello()
    }

    /// The first event of a session; returns how often it says that it lives.
    ///
    /// # Errors
    /// Internal when it is no welcome.
    pub fn welcome(&mut self, now: Ticks, event: worker_event::Event) -> Result<Duration> {
        self.talk.welcome(now, Some(event))
    }

    /// Takes a later event.
    pub fn heard(&mut self, now: Ticks, event: worker_event::Event) {
        self.talk.heard(now, event);
    }

    /// Returns what there is to say now, until there is nothing.
    pub fn say(&mut self) -> Option<Message> {
        self.talk.next()
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub fn beat(&mut self, now: Ticks) -> Result<Message> {
        self.talk.beat(now)
    }

    /// The session ended; returns the pause before the next one.
    ///
    /// # Errors
    /// What trying again will not mend.
    pub fn broken(&mut self, error: Error) -> Result<Duration> {
        self.talk.broken(error)
    }

    /// From now on it takes nothing new.
    pub fn leave(&mut self) {
        self.talk.leave();
    }

    /// A ticket is shown.
    pub fn knock(&self, ticket: &Ticket) -> Door {
        let shelf = &self.talk.shelf;
        let Some(found) = shelf.look(ticket) else { return Door::Wait };
        let Some((split, job)) = found else { return Door::Refused(not_held()) };
        match job.look() {
            None => Door::Wait,
            Some(Err(error)) => Door::Refused(error),
            Some(Ok(job)) => Door::Open(Reader(Cursor::new(shelf.clone(), split, job, ticket))),
        }
    }

    /// The answer to a ticket whose lease did not come in time.
    pub fn refuse() -> Error {
        not_held()
    }

    /// Returns the leases that it holds.
    pub fn leases(&self) -> Vec<Lease> {
        self.talk.shelf.leases()
    }

    /// Returns the bytes of the chunks that it holds, and the splits that take a place.
    pub fn held(&self) -> (usize, usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let meter = &self.talk.shelf.meter;
        (meter.bytes.load(Relaxed), meter.open.load(Relaxed))
    }

    /// A reader on this machine connects, to be lent memory; returns its number.
    pub fn enter(&mut self) -> Option<u64> {
        self.loans.enter()
    }

    /// The process of such a reader is gone. As all that ends loans, returns the blocks that come back.
    pub fn leave_of(&mut self, reader: u64) -> Vec<u64> {
        self.loans.leave(reader)
    }

    /// A stream begins that something may be lent on; false when it may not.
    pub fn stream_begins(&mut self, of: ReaderStream) -> bool {
        self.loans.begin(of)
    }

    /// Such a stream has ended here.
    pub fn stream_ends(&mut self, of: ReaderStream) {
        self.loans.end(of);
    }

    /// Lends a block; returns the loan, or `None` when it is to be copied.
    pub fn lend(&mut self, of: ReaderStream, block: u64, bytes: usize) -> Option<u64> {
        self.loans.lend(of, block, bytes)
    }

    /// A reader needs something no more.
    pub fn returned(&mut self, reader: u64, said: Return) -> Vec<u64> {
        self.loans.take_back(reader, said)
    }

    /// Returns how many loans there are, and how many streams that may have some.
    pub fn on_loan(&self) -> (usize, usize) {
        self.loans.outstanding()
    }

    /// Checks the invariants of shelf and loans.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub fn check(&self) -> Result<()> {
        self.loans.check()?;
        self.talk.shelf.check()
    }
}

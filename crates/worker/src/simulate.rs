//! What the simulation drives of a worker: the real lease_table, session and cursors, over an engine in virtual time.
//!
//! Not part of the public interface: only `crates/sim` uses it. Nothing is decided here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_data::{Chunk, MemoryBudget};
use forebay_exec::Known;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    JobDefinition, JobKey, Lease, OneReader, Reader as ConsumerStream, Return, Stream, Ticket, WorkerSecret,
    worker_event,
};

use crate::compute::engine::Engine;
use crate::lock::lock;
use crate::options::Bounds;
use crate::serve::loans::Loans;
use crate::session::protocol::WorkerProtocol;
use crate::splits::chunk::ProducedChunk;
use crate::splits::cursor::{Cursor, NextAction, not_held};
use crate::splits::jobs::Job;
use crate::splits::lease_table::LeaseTable;
use crate::splits::shared_chunks::{InFlight, SharedChunks, Subscriber};
use crate::splits::single_flight;
use crate::splits::split_buffer::SplitBuffer;

/// What local workers show, and their readers say, in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How long a ticket waits for its lease to arrive.
pub const LEASE_WAIT_MAX: Duration = crate::splits::lease_table::LEASE_WAIT_MAX;
/// How long a worker that leaves waits for its consumers to fetch what it holds.
pub const LEAVE_MAX: Duration = crate::options::LEAVE_MAX;

/// How long a chunk that another thread computes is waited for.
pub const WAIT_MAX: Duration = crate::splits::shared_chunks::WAIT_MAX;

/// A job that can be computed.
struct Prepared {
    definition: JobDefinition,
    subscriber: Subscriber,
}

/// Work that the lease_table has given out.
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

    fn prepare(&self, _: &Arc<LeaseTable<Self>>, job: Arc<Job<Prepared>>) {
        lock(&self.0).push(Work::Prepare(job));
    }

    fn compute(&self, split: Arc<SplitBuffer>, job: Arc<Prepared>, run: u64, first: bool) {
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
    split: Arc<SplitBuffer>,
    job: Arc<Prepared>,
    run: u64,
}

/// What is to be done for a chunk.
pub enum Decision {
    /// Nothing: a job with the same samples had computed it.
    Done,
    /// It is to be computed, and this kept meanwhile: it says to whom it is given then.
    Compute(Computing),
    /// Another thread computes it: ask again when one has, for [`WAIT_MAX`] at most.
    Wait,
}

/// A chunk that is being computed. Dropped, other jobs may compute it.
#[derive(Default)]
pub struct Computing(Option<InFlight>);

impl Task {
    /// Returns its job.
    pub fn job(&self) -> &JobDefinition {
        &self.job.definition
    }

    /// Returns the rows that are left out whether they fail or not.
    pub fn known(&self) -> Arc<Known> {
        self.split.known()
    }

    /// Says what is to be done for a chunk of a split that is counted, and takes it where another job had it.
    pub fn decide(&self, index: u64) -> Decision {
        match single_flight::decide(&self.split, &self.job.subscriber, self.run, index) {
            single_flight::Decision::Done => Decision::Done,
            single_flight::Decision::Compute(in_flight) => Decision::Compute(Computing(in_flight)),
            single_flight::Decision::Wait => Decision::Wait,
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
    pub fn ops_on_worker(&self) -> Option<u32> {
        self.split.ops_on_worker()
    }

    /// Puts a chunk in its place, on which so many row ops have run.
    pub fn put(&self, index: u64, chunk: Chunk, ops_on_worker: u32, computing: Computing) {
        let produced = ProducedChunk { chunk, ops_on_worker, shared: false };
        single_flight::publish(&self.split, self.run, index, produced, computing.0);
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
pub enum TicketOutcome {
    /// The split's chunks.
    Open(ChunkStream),
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
    pub ops_on_worker: u32,
    /// Whether readers of other jobs are given the same memory.
    pub shared: bool,
}

/// One reader of a split.
pub struct ChunkStream(Cursor<Queue>);

impl ChunkStream {
    /// Returns the next chunk; `None` in `Some` when there is none yet, `None` when the split is complete. With `take`, the chunk is given away.
    ///
    /// # Errors
    /// What the split failed with, or that the lease is gone.
    pub fn next(&mut self, take: bool) -> Result<Option<Option<Sent>>> {
        let outcome = self.0.try_read(take);
        Ok(match self.0.advance(outcome)? {
            NextAction::Send(index, ProducedChunk { chunk, ops_on_worker, shared }) => {
                Some(Some(Sent { index, chunk, ops_on_worker, shared }))
            }
            NextAction::Wait => Some(None),
            NextAction::End => None,
        })
    }
}

/// A worker's state machines.
pub struct Worker {
    queue: Queue,
    protocol: WorkerProtocol<Queue>,
    shared_chunks: Arc<SharedChunks>,
    /// What is on loan: blocks of memory by number.
    loans: Loans<u64>,
}

impl Worker {
    /// A worker that has just started; a local one computes for one reader alone.
    pub fn new(secret: u128, address: String, threads: usize, slots: usize, only_consumer: Option<OneReader>) -> Self {
        let queue = Queue::default();
        let lease_table =
            Arc::new(LeaseTable::new(queue.clone(), Bounds { threads, slots, bytes: MemoryBudget::default().held() }));
        let protocol = WorkerProtocol::new(WorkerSecret::new(secret), address, only_consumer, lease_table);
        let protocol = protocol.with_local_key(JobKey::from_bytes(&LOCAL_KEY));
        // Readers are strangers to every other process of a worker, as those of random numbers are.
        let loans = Loans::new((secret as u64) << 48 | ((secret >> 64) as u64) << 24);
        Self { queue, protocol, shared_chunks: Arc::default(), loans }
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
        let prepared = || Prepared {
            subscriber: self.shared_chunks.join(Stream::of(&definition)),
            definition: definition.clone(),
        };
        self.protocol.lease_table.prepared(&job.0, ready.map(|()| Arc::new(prepared())));
    }

    /// Threads hang in what these jobs read, and in nothing else.
    pub fn hang(&self, jobs: BTreeSet<u64>) {
        *lock(&self.queue.1) = jobs;
    }

    /// The first message of a session.
    pub fn hello(&mut self) -> Message {
        self.protocol.hello()
    }

    /// The first event of a session; returns how often it says that it lives.
    ///
    /// # Errors
    /// Internal when it is no welcome.
    pub fn welcome(&mut self, now: Ticks, event: worker_event::Event) -> Result<Duration> {
        self.protocol.welcome(now, Some(event))
    }

    /// Takes a later event.
    pub fn heard(&mut self, now: Ticks, event: worker_event::Event) {
        self.protocol.on_event(now, event);
    }

    /// Returns what there is to say now, until there is nothing.
    pub fn say(&mut self) -> Option<Message> {
        self.protocol.next_message()
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub fn beat(&mut self, now: Ticks) -> Result<Message> {
        self.protocol.heartbeat(now)
    }

    /// The session ended; returns the pause before the next one.
    ///
    /// # Errors
    /// What trying again will not mend.
    pub fn broken(&mut self, error: Error) -> Result<Duration> {
        self.protocol.on_session_end(error)
    }

    /// From now on it takes nothing new.
    pub fn leave(&mut self) {
        self.protocol.leave();
    }

    /// A ticket is shown.
    pub fn open(&self, ticket: &Ticket) -> TicketOutcome {
        let lease_table = &self.protocol.lease_table;
        let Some(found) = lease_table.try_find(ticket) else { return TicketOutcome::Wait };
        let Some((split, job)) = found else { return TicketOutcome::Refused(not_held()) };
        match job.try_prepared() {
            None => TicketOutcome::Wait,
            Some(Err(error)) => TicketOutcome::Refused(error),
            Some(Ok(job)) => TicketOutcome::Open(ChunkStream(Cursor::new(lease_table.clone(), split, job, ticket))),
        }
    }

    /// The answer to a ticket whose lease did not come in time.
    pub fn not_held() -> Error {
        not_held()
    }

    /// Returns the leases that it holds.
    pub fn leases(&self) -> Vec<Lease> {
        self.protocol.lease_table.leases()
    }

    /// Returns the bytes of the chunks that it holds, and the splits that take a place.
    pub fn held(&self) -> (usize, usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let stats = &self.protocol.lease_table.stats;
        (stats.bytes.load(Relaxed), stats.open.load(Relaxed))
    }

    /// A reader on this machine connects, to be lent memory; returns its number.
    pub fn enter(&mut self) -> Option<u64> {
        self.loans.enter()
    }

    /// The process of such a reader is gone. As all that ends loans, returns the blocks that come back.
    pub fn leave_of(&mut self, consumer: u64) -> Vec<u64> {
        self.loans.leave(consumer)
    }

    /// A stream begins that something may be lent on; false when it may not.
    pub fn stream_begins(&mut self, of: ConsumerStream) -> bool {
        self.loans.begin(of)
    }

    /// Such a stream has ended here.
    pub fn stream_ends(&mut self, of: ConsumerStream) {
        self.loans.end(of);
    }

    /// Lends a block; returns the loan, or `None` when it is to be copied.
    pub fn lend(&mut self, of: ConsumerStream, block: u64, bytes: usize) -> Option<u64> {
        self.loans.lend(of, block, bytes)
    }

    /// A reader needs something no more.
    pub fn returned(&mut self, consumer: u64, said: Return) -> Vec<u64> {
        self.loans.take_back(consumer, said)
    }

    /// Returns how many loans there are, and how many streams that may have some.
    pub fn on_loan(&self) -> (usize, usize) {
        self.loans.outstanding()
    }

    /// Checks the invariants of lease_table and loans.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub fn check(&self) -> Result<()> {
        self.loans.check()?;
        self.protocol.lease_table.check()
    }
}

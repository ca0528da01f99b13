//! The parts of a worker for `crates/sim`: the real lease table, protocol and cursors, over an engine in virtual time.
//!
//! Not part of the public interface. This module decides nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_data::{Chunk, MemoryBudget};
use forebay_exec::KnownSkips;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    ConsumerStream, JobDefinition, JobKey, Lease, OneReader, Return, SampleStreamKey, Ticket, WorkerSecret,
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

/// The key that proves a local worker's consumer, in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How long a ticket waits for its lease to arrive.
pub const LEASE_WAIT_MAX: Duration = crate::splits::lease_table::LEASE_WAIT_MAX;
/// How long a worker that leaves waits for consumers to fetch the splits that it holds.
pub const LEAVE_MAX: Duration = crate::options::LEAVE_MAX;

/// How long a thread waits for a chunk that another computes.
pub const WAIT_MAX: Duration = crate::splits::shared_chunks::WAIT_MAX;

/// A job that can be computed.
struct Prepared {
    definition: JobDefinition,
    subscriber: Subscriber,
}

/// Work that the lease table has passed to the engine.
#[derive(Clone)]
enum Work {
    Prepare(Arc<Job<Prepared>>),
    Compute(Task, bool),
}

/// Queues the work until the simulation takes it, and holds the jobs that hang.
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

/// How a task gets a chunk.
pub enum Decision {
    /// A job with the same samples had computed it: nothing to do.
    Done,
    /// Compute it, and hand the [`Computing`] to [`Task::put`].
    Compute(Computing),
    /// Another thread computes it: decide again when it has, within [`WAIT_MAX`].
    Wait,
}

/// A chunk that is being computed. After a drop, other jobs may compute it.
#[derive(Default)]
pub struct Computing(Option<InFlight>);

impl Task {
    /// Returns its job.
    pub fn job(&self) -> &JobDefinition {
        &self.job.definition
    }

    /// Returns the rows that are left out without being computed: the ledger lists them as skipped.
    pub fn known(&self) -> Arc<KnownSkips> {
        self.split.known()
    }

    /// Decides how to get a chunk of a split with a known number of chunks, and takes it if another job has it.
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

    /// Returns whether its run has ended.
    pub fn is_stale(&self) -> bool {
        self.split.is_stale(self.run)
    }

    /// Returns whether a chunk at this index would be kept.
    pub fn wants(&self, index: u64) -> bool {
        self.split.wants(index)
    }

    /// Declares that the number of chunks is known at the end only.
    pub fn set_streamed(&self) {
        self.split.set_streamed();
    }

    /// Sets the number of chunks.
    pub fn set_total(&self, total: u64) {
        self.split.set_total(self.run, total);
    }

    /// Returns the number of row ops to run on chunks computed now; `None` is the default boundary.
    pub fn ops_on_worker(&self) -> Option<u32> {
        self.split.ops_on_worker()
    }

    /// Puts a chunk at its index, on which this many row ops have run.
    pub fn put(&self, index: u64, chunk: Chunk, ops_on_worker: u32, computing: Computing) {
        let produced = ProducedChunk { chunk, ops_on_worker, shared: false, spans: None };
        single_flight::publish(&self.split, self.run, index, produced, computing.0);
    }

    /// Counts the time that a thread has computed on the split.
    pub fn spend(&self, compute: Duration) {
        self.split.count_time(compute);
    }

    /// Puts an error at the index of a chunk.
    pub fn fail(&self, index: u64, error: Error) {
        let error = self.split.failed_before(index).unwrap_or(error);
        self.split.fail(self.run, index, error);
    }
}

/// Work for the simulation.
pub enum Todo {
    /// Prepare a job, then call [`Worker::prepared`].
    Prepare(Preparing),
    /// Compute a split; before all others when the flag is set, as a consumer already waits for it.
    Compute(Task, bool),
}

/// The answer to a ticket.
pub enum TicketOutcome {
    /// The split's chunks.
    Open(ChunkStream),
    /// The lease or the job may still arrive: try again when something has changed.
    Wait,
    /// Why it is refused.
    Refused(Error),
}

/// A chunk as it is sent.
pub struct Sent {
    /// Its index.
    pub index: u64,
    /// Its rows.
    pub chunk: Chunk,
    /// The number of row ops that have run on them.
    pub ops_on_worker: u32,
    /// Whether consumers of other jobs get the same memory.
    pub shared: bool,
}

/// The stream of one consumer of a split.
pub struct ChunkStream(Cursor<Queue>);

impl ChunkStream {
    /// Returns the next chunk: `Some(None)` when it is not computed yet, `None` when the split is complete. With
    /// `take`, the consumer gets the chunk's memory.
    ///
    /// # Errors
    /// The split's own error, or that the lease has ended.
    pub fn next(&mut self, take: bool) -> Result<Option<Option<Sent>>> {
        let outcome = self.0.try_read(take);
        Ok(match self.0.advance(outcome)? {
            NextAction::Send(index, ProducedChunk { chunk, ops_on_worker, shared, .. }) => {
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
    /// Blocks of memory on loan, by number.
    loans: Loans<u64>,
}

impl Worker {
    /// A worker that has just started. A local one computes for one consumer only.
    pub fn new(secret: u128, address: String, threads: usize, slots: usize, only_consumer: Option<OneReader>) -> Self {
        let queue = Queue::default();
        let lease_table =
            Arc::new(LeaseTable::new(queue.clone(), Bounds { threads, slots, bytes: MemoryBudget::default().held() }));
        let protocol = WorkerProtocol::new(WorkerSecret::new(secret), address, only_consumer, lease_table);
        let protocol = protocol.with_local_key(JobKey::from_bytes(&LOCAL_KEY));
        // The consumers' numbers must be unknown to every other process of a worker; real workers use random ones.
        let loans = Loans::new((secret as u64) << 48 | ((secret >> 64) as u64) << 24);
        Self { queue, protocol, shared_chunks: Arc::default(), loans }
    }

    /// Takes the work that has come since the last call.
    pub fn todo(&self) -> Vec<Todo> {
        let work = std::mem::take(&mut *lock(&self.queue.0)).into_iter();
        let todo = work.map(|work| match work {
            Work::Prepare(job) => Todo::Prepare(Preparing(job)),
            Work::Compute(task, first) => Todo::Compute(task, first),
        });
        todo.collect()
    }

    /// Ends the preparation of a job, well or not.
    pub fn prepared(&self, job: &Preparing, ready: Result<()>) {
        let definition = job.definition().clone();
        let prepared = || Prepared {
            subscriber: self.shared_chunks.join(SampleStreamKey::of(&definition)),
            definition: definition.clone(),
        };
        self.protocol.lease_table.prepared(&job.0, ready.map(|()| Arc::new(prepared())));
    }

    /// Sets the jobs whose reads hang.
    pub fn hang(&self, jobs: BTreeSet<u64>) {
        *lock(&self.queue.1) = jobs;
    }

    /// The first message of a session.
    pub fn hello(&mut self) -> Message {
        self.protocol.hello()
    }

    /// Accepts the first event of a session; returns the interval of heartbeats.
    ///
    /// # Errors
    /// Internal when it is not a welcome.
    pub fn welcome(&mut self, now: Ticks, event: worker_event::Event) -> Result<Duration> {
        self.protocol.welcome(now, Some(event))
    }

    /// Accepts a later event.
    pub fn heard(&mut self, now: Ticks, event: worker_event::Event) {
        self.protocol.on_event(now, event);
    }

    /// Returns the next message to send; `None` when there is none.
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

    /// Ends a session; returns the pause before the next one.
    ///
    /// # Errors
    /// Errors that a retry does not fix.
    pub fn broken(&mut self, error: Error) -> Result<Duration> {
        self.protocol.on_session_end(error)
    }

    /// Requests nothing new from now on.
    pub fn leave(&mut self) {
        self.protocol.leave();
    }

    /// Answers a ticket.
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

    /// The error for a ticket whose lease did not come in time.
    pub fn not_held() -> Error {
        not_held()
    }

    /// Returns the leases that it holds.
    pub fn leases(&self) -> Vec<Lease> {
        self.protocol.lease_table.leases()
    }

    /// Returns the bytes of the chunks that it holds, and the number of splits that occupy a slot.
    pub fn held(&self) -> (usize, usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let stats = &self.protocol.lease_table.stats;
        (stats.bytes.load(Relaxed), stats.open.load(Relaxed))
    }

    /// Registers a consumer on this machine that maps memory; returns its number.
    pub fn enter(&mut self) -> Option<u64> {
        self.loans.enter()
    }

    /// Removes such a consumer, whose process is gone. Like all calls that end loans, returns the blocks whose loans it
    /// ends.
    pub fn leave_of(&mut self, consumer: u64) -> Vec<u64> {
        self.loans.leave(consumer)
    }

    /// Begins a stream of such a consumer; false when nothing may be lent on it.
    pub fn stream_begins(&mut self, of: ConsumerStream) -> bool {
        self.loans.begin(of)
    }

    /// Ends such a stream.
    pub fn stream_ends(&mut self, of: ConsumerStream) {
        self.loans.end(of);
    }

    /// Lends a block; returns the loan, or `None` when it must be copied.
    pub fn lend(&mut self, of: ConsumerStream, block: u64, bytes: usize) -> Option<u64> {
        self.loans.lend(of, block, bytes)
    }

    /// Handles a return message of a consumer.
    pub fn returned(&mut self, consumer: u64, message: Return) -> Vec<u64> {
        self.loans.on_return(consumer, message)
    }

    /// Returns the number of loans, and the number of streams that may have some.
    pub fn on_loan(&self) -> (usize, usize) {
        self.loans.outstanding()
    }

    /// Checks the invariants of the lease table and of the loans.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub fn check(&self) -> Result<()> {
        self.loans.check()?;
        self.protocol.lease_table.check()
    }
}

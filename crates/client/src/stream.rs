//! One consumer of a job: the same deliveries, in the same order, as a stream in this process.
//!
//! `next` runs on the user's thread: it takes chunks from the window, merges them, and hands out what is ready. It
//! never asks anyone where an epoch ends. A split is acknowledged once its rows were handed out and the user came back
//! for more; or, when nothing can be handed out before more comes, once all of it is in this process (a batch may need
//! rows of more splits than the window has).

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, Memory};
use forebay_exec::{Delivery, Functions, Merge, Position};
use tokio::task::JoinHandle;

use crate::fetch::Fetcher;
use crate::job::OpenedJob;
use crate::link::{Link, Session as Is, State};
use crate::options::{POLL, StreamOptions, WINDOW_MAX, window};
use crate::runtime::{Owner, runtime};
use crate::session::{FINISH_MAX, Session};
use crate::window::{Front, Place, Window};
use crate::workers::Workers;

/// An iterator over one consumer's part of a job. Dropping it closes its connections at once.
pub struct ServiceStream {
    link: Arc<Link>,
    merge: Merge,
    address: String,
    deadline: Duration,
    /// Splits of an epoch; `None` is without end.
    splits: Option<u64>,
    /// The epoch to end before; `None` is never.
    end_epoch: Option<u64>,
    /// The split whose chunks are being merged.
    at: Place,
    /// The last split that was merged as a whole, and how many chunks it had: a position after all of them is past it.
    merged: Option<(Place, u64)>,
    /// Chunks of the split at `at` that were merged.
    chunks: u64,
    /// What was acknowledged.
    acked: Place,
    /// Where the user is once it comes back.
    delivered: Option<Position>,
    ended: Option<Option<Error>>,
    task: Option<JoinHandle<()>>,
    owner: Owner,
}

impl ServiceStream {
    /// Starts reading. Returns at once: the first `next` waits.
    ///
    /// # Errors
    /// Invalid when the consumer, the window or the position is not one of this job's; whatever preparing the tail
    /// gives.
    pub fn start(job: &OpenedJob, functions: Arc<dyn Functions>, options: StreamOptions) -> Result<Self> {
        let consumers = job.consumers();
        let ConsumerIndex(consumer) = options.consumer;
        if consumer >= consumers {
            return Err(Error::invalid(format!(
                "consumer {consumer} of job {:?}: it has {consumers}, from 0",
                job.name()
            )));
        }
        if options.window.is_some_and(|w| w == 0 || w > WINDOW_MAX) {
            return Err(Error::invalid(format!("a window has 1 to {WINDOW_MAX} splits")));
        }
        let resume = options.from.is_some();
        let from = options.from.unwrap_or_default();
        let splits = job.plan().num_splits(options.consumer);
        if let Some(epochs) = job.epochs()
            && from.epoch > epochs
        {
            let (epoch, name) = (from.epoch, job.name());
            return Err(Error::invalid(format!("the saved state is in epoch {epoch}, and job {name:?} has {epochs}"))
                .hint("open a job with as many epochs as the saved one had, or more, under another name"));
        }
        if splits.is_some_and(|n| from.split > n) {
            let (split, name) = (from.split, job.name());
            return Err(Error::invalid(format!("the saved state is in split {split}, which job {name:?} has not"))
                .hint("the saved state is of another job"));
        }
        let memory = Memory::reused();
        let executable = job.executable(functions, memory.clone())?;
        let at = Place { epoch: from.epoch, ordinal: from.split };
        let link = Arc::new(Link::new(Window::new(at, from.chunk)));
        let fetcher = Arc::new(Fetcher {
            link: link.clone(),
            workers: Workers::default(),
            wire: Chunk::wire_schema(executable.input(), job.stages().tail_needs_ids()),
            executable: executable.clone(),
            memory,
            job: job.id(),
            consumer: options.consumer,
        });
        let window = options.window.unwrap_or_else(|| window(job.plan(), executable.schema()));
        let merge = Merge::new(executable, options.consumer, &from)?;
        let session = Session { address: job.address.clone(), fetcher, window, resume };
        let task = runtime()?.spawn(session.run());
        Ok(Self {
            link,
            merge,
            address: job.address.clone(),
            deadline: options.deadline,
            splits,
            end_epoch: job.epochs(),
            at,
            merged: None,
            chunks: from.chunk,
            acked: at,
            delivered: None,
            ended: None,
            task: Some(task),
            owner: Owner::this(),
        })
    }

    /// Returns the next batch (or run of samples); `None` when the last epoch is over. Calls `poll` about every 50 ms
    /// while it waits, and ends with the error that `poll` returns.
    ///
    /// # Errors
    /// The first error in the order of the stream, after everything before it; Unavailable when nobody answered for
    /// the deadline; Closed when the job was cancelled; Conflict when another reader took the consumer. After it, the
    /// stream has ended with that error.
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        self.owner.check()?;
        if let Some(ended) = &self.ended {
            return ended.clone().map_or(Ok(None), Err);
        }
        if let Some(position) = self.delivered.take() {
            self.acknowledge(self.consumed(&position));
        }
        match self.advance(poll) {
            Ok(Some(delivery)) => {
                self.delivered = Some(delivery.position_after(delivery.chunk.num_rows()));
                Ok(Some(delivery))
            }
            Ok(None) => {
                self.finish();
                self.ended = Some(None);
                Ok(None)
            }
            Err(error) => {
                self.close();
                self.ended = Some(Some(error.clone()));
                Err(error)
            }
        }
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.merge.pop() {
                return Ok(Some(delivery));
            }
            if self.splits == Some(0) {
                // Every epoch is empty, however many there are.
                self.at = Place { epoch: self.end_epoch.unwrap_or(self.at.epoch), ordinal: 0 };
                return Ok(None);
            }
            if self.end_epoch.is_some_and(|end| self.at.epoch >= end) {
                return Ok(None);
            }
            if self.merge.is_satisfied() {
                poll()?;
                self.end_early();
                self.next_epoch()?;
            } else if self.splits == Some(self.at.ordinal) {
                self.next_epoch()?;
            } else {
                self.step(poll)?;
            }
        }
    }

    /// Merges what the front split has next.
    fn step(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        match self.wait(poll)? {
            Front::Chunk(index, chunk) => {
                self.chunks = index + 1;
                self.merge.push(self.at.ordinal, index, chunk)
            }
            Front::End => {
                self.merged = Some((self.at, self.chunks));
                (self.at.ordinal, self.chunks) = (self.at.ordinal + 1, 0);
                Ok(())
            }
            Front::Failed(error) => Err(error),
            Front::Empty => Ok(()),
        }
    }

    /// Nothing more of this epoch is needed: a `take` has its rows.
    fn end_early(&self) {
        self.link.lock().say.ended.push(self.at.epoch);
        self.link.to_say.notify_one();
    }

    fn next_epoch(&mut self) -> Result<()> {
        self.at = Place { epoch: self.at.epoch + 1, ordinal: 0 };
        self.chunks = 0;
        self.link.update(|s| s.window.move_to(self.at));
        self.link.room.notify_waiters();
        self.merge.end_epoch()
    }

    /// Takes what the front split has, waiting for it.
    fn wait(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Front> {
        let mut began = None;
        loop {
            let mut state = self.link.lock();
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            let front = state.window.take();
            if !matches!(front, Front::Empty) {
                if let Some(began) = began {
                    state.waited += Instant::elapsed(&began);
                }
                drop(state);
                self.link.room.notify_waiters();
                return Ok(front);
            }
            self.check_deadline(&state)?;
            if began.is_none() {
                drop(state);
                began = Some(Instant::now());
                // Every split before this one is in this process as a whole.
                self.acknowledge(self.at);
                continue;
            }
            drop(self.link.wait(state, POLL));
            poll()?;
        }
    }

    /// What is assigned can be read without a dispatcher; beyond that it is waited for until the deadline.
    fn check_deadline(&self, state: &State) -> Result<()> {
        let Is::Broken(since) = state.session else { return Ok(()) };
        if state.window.is_coming() || since.elapsed() < self.deadline {
            return Ok(());
        }
        let seconds = self.deadline.as_secs_f64();
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("the dispatcher at {} did not answer for {seconds:.1} s", self.address),
        )
        .with("address", &self.address)
        .with("split", format!("{} of epoch {}", self.at.ordinal, self.at.epoch))
        .hint("start it again with the same state folder, and go on from the last saved state"))
    }

    /// Returns the first split that a position still needs.
    fn consumed(&self, position: &Position) -> Place {
        let place = Place { epoch: position.epoch, ordinal: position.split };
        match self.merged {
            Some((merged, chunks)) if merged == place && position.chunk >= chunks => {
                Place { ordinal: place.ordinal + 1, ..place }
            }
            _ => place,
        }
    }

    fn acknowledge(&mut self, place: Place) {
        if place > self.acked {
            self.acked = place;
            self.link.lock().say.ack = Some(place);
            self.link.to_say.notify_one();
        }
    }

    /// Says the last word and waits for it to be heard, which takes one round trip.
    fn finish(&mut self) {
        self.acknowledge(self.at);
        self.link.lock().say.finish = true;
        self.link.to_say.notify_one();
        let end = Instant::now() + FINISH_MAX;
        let mut state = self.link.lock();
        while !matches!(state.session, Is::Over) && state.fatal.is_none() && Instant::now() < end {
            state = self.link.wait(state, end.saturating_duration_since(Instant::now()));
        }
        drop(state);
        self.close();
    }

    /// Ends the session and what is being fetched.
    fn close(&mut self) {
        let Some(task) = self.task.take() else { return };
        if self.owner.is_here() {
            task.abort();
        } else {
            // The parent's runtime is not here: nothing of it may be touched.
            std::mem::forget(task);
        }
    }
}

impl Drop for ServiceStream {
    fn drop(&mut self) {
        self.close();
    }
}

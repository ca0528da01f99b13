//! One consumer of a job: the same deliveries, in the same order, as a stream in this process.
//!
//! `next` runs on the user's thread: it takes chunks from the window, merges them, and hands out what is ready. What
//! comes next, and what was consumed, is decided in `reader`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{ConsumerIndex, Error, ErrorKind, Result, Ticks};
use forebay_data::Memory;
use forebay_exec::{Delivery, Executable, Functions, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::{Ending, Floor};
use forebay_proto::{Missing, NO_JOB};
use tokio::task::JoinHandle;

use crate::fetch::Fetcher;
use crate::job::OpenedJob;
use crate::link::{Link, Session as Is, State};
use crate::options::{POLL, StreamOptions, WINDOW_MAX, window};
use crate::reader::{Next, Reader};
use crate::reports::sample;
use crate::runtime::{Owner, runtime};
use crate::session::{FINISH_MAX, Session};
use crate::steps::Steps;
use crate::talk::Talk;
use crate::watch::Watch;
use crate::window::{Front, Place, Window};
use crate::workers::Workers;

/// Chunks that are merged ahead for each delivery, where readers end epochs together.
const AHEAD_MAX: usize = 2;

/// An iterator over one consumer's part of a job. Dropping it closes its connections at once.
pub struct ServiceStream {
    link: Arc<Link>,
    reader: Reader,
    /// What this process does with rows.
    executable: Arc<Executable>,
    job: String,
    address: String,
    deadline: Duration,
    patience: Duration,
    absence: Duration,
    /// How the user is told that nothing comes, until that was done.
    tell: Option<fn(&Error)>,
    /// Who knows whether it still can.
    watch: Watch,
    ended: Option<Option<Error>>,
    /// What was left out, and that nobody has asked for yet.
    lost: Vec<SkippedSample>,
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
        let memory = Memory::reused().with_budget(options.memory);
        let executable = job.executable(functions, memory.clone())?;
        let at = Place { epoch: from.epoch, ordinal: from.split };
        let mut incoming = Window::new(at, from.chunk).of_bytes(options.memory.arrived());
        if !options.ordered {
            executable.check_any_order()?;
            check_apart(job.ending())?;
            incoming = incoming.in_any_order();
        }
        let link = Arc::new(Link::new(incoming, options.seat.clone()));
        let fetcher = Arc::new(Fetcher {
            link: link.clone(),
            workers: Workers::new(job.dispatcher.credentials.tls.clone(), options.seat),
            with_ids: job.stages().tail_needs_ids(),
            executable: executable.clone(),
            memory,
            job: job.id(),
            key: job.key(),
            consumer: options.consumer,
        });
        let window = options.window.unwrap_or_else(|| window(job.plan(), executable.schema(), options.memory));
        let mut merge = Merge::new(executable.clone(), options.consumer, &from)?;
        merge.set_budget(options.budget);
        merge.set_known_skips(KnownSkips::of(&options.known));
        let reader = Reader::new(merge, &from, splits, job.epochs()).ending(job.ending(), consumers, &from);
        link.lock().steps = (job.ending() != Ending::Apart).then(|| Steps::new(consumers, from.epoch));
        let lost = options.known.iter().map(sample).collect();
        let dispatchers = job.dispatcher.addresses()?.len();
        let talk = Talk::new(job.id(), consumer, window, resume, lost).of_service(dispatchers);
        let session = Session { dispatcher: job.dispatcher.clone(), fetcher, talk };
        let task = runtime()?.spawn(session.run());
        Ok(Self {
            link,
            reader,
            executable,
            job: job.name().to_owned(),
            address: job.dispatcher.address.clone(),
            deadline: options.deadline,
            patience: options.patience,
            absence: options.absence,
            tell: Some(options.tell),
            watch: options.watch,
            ended: None,
            lost: Vec::new(),
            task: Some(task),
            owner: Owner::this(),
        })
    }

    /// Returns the next batch (or run of samples); `None` when the last epoch is over. Calls `poll` about every 50 ms
    /// while it waits, and ends with the error that `poll` returns.
    ///
    /// # Errors
    /// The first error in the order of the stream, after everything before it; Unavailable when nobody answered for
    /// the deadline, or when the service is seen to have ended; Closed when the job was cancelled; Conflict when another reader took the consumer. After it, the
    /// stream has ended with that error.
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        self.owner.check()?;
        if let Some(ended) = &self.ended {
            return ended.clone().map_or(Ok(None), Err);
        }
        let consumed = self.reader.returned();
        self.acknowledge(consumed);
        match self.advance(poll) {
            Ok(Some(delivery)) => {
                self.link.lock().meter.hand_out();
                Ok(Some(delivery))
            }
            Ok(None) => {
                let said = self.finish(poll);
                self.end(said.err())
            }
            Err(error) => self.end(Some(named(error, &self.job))),
        }
    }

    /// Ends the stream; the same is said whenever it is asked for more.
    fn end(&mut self, error: Option<Error>) -> Result<Option<Delivery>> {
        self.close();
        self.ended = Some(error.clone());
        error.map_or(Ok(None), Err)
    }

    /// Returns where a stream stands that has ended, if it would not find that out again by itself: to learn where its last epoch ended,
    /// it would ask the others.
    pub fn end_position(&self) -> Option<Position> {
        self.reader.epoch_of_all().map(|epoch| Position { epoch, ..Position::default() })
    }

    /// Says what the ops that run in this process cost: see [`Executable::stats`].
    pub fn stats(&self) -> String {
        self.executable.stats()
    }

    /// Returns the samples that were left out of what came since this was last asked for, in the order of the stream.
    pub fn take_losses(&mut self) -> Vec<SkippedSample> {
        std::mem::take(&mut self.lost)
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        let mut ahead = 0;
        loop {
            if ahead < AHEAD_MAX && self.reader.has_room() {
                let front = self.link.lock().take_front();
                ahead += 1;
                if !matches!(front, Front::Empty) {
                    self.take(front, poll)?;
                    continue;
                }
            }
            let floor = self.tell();
            match self.reader.next(floor)? {
                Next::Delivery(delivery) => {
                    self.tell();
                    return Ok(Some(*delivery));
                }
                Next::Over => return Ok(None),
                Next::Front => {
                    let front = self.wait(poll, true, None)?;
                    self.take(front, poll)?;
                }
                Next::Others { is_starved } => {
                    let front = self.wait(poll, is_starved, Some(floor))?;
                    self.take(front, poll)?;
                }
                Next::Epoch { ended, at } => {
                    self.report(poll)?;
                    self.link.update(|s| s.move_on(ended, at));
                    self.link.room.notify_waiters();
                    if ended.is_some() {
                        self.link.to_say.notify_one();
                        // There may be epochs without end of which nothing is needed.
                        poll()?;
                    }
                }
            }
        }
    }

    /// Merges what the front split gave.
    fn take(&mut self, front: Front, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.link.room.notify_waiters();
        let taken = self.reader.take(front);
        self.report(poll)?;
        taken
    }

    /// Lets the dispatcher know how far this reader is, where it matters; returns what all readers are known to have.
    fn tell(&mut self) -> Floor {
        self.reader.find_end();
        let Some((epoch, count, given)) = self.reader.progress() else { return Floor::default() };
        let mut state = self.link.lock();
        let Some(steps) = &mut state.steps else { return Floor::default() };
        let floor = steps.set(epoch, count, given);
        if steps.is_due(self.link.now()) {
            self.link.to_say.notify_one();
        }
        floor
    }

    /// Takes what the front split has, waiting for it; nothing once all readers are known to have more than `floor`. Who is starved has
    /// nothing to give out itself.
    fn wait(&mut self, poll: &mut dyn FnMut() -> Result<()>, is_starved: bool, floor: Option<Floor>) -> Result<Front> {
        let (mut began, mut missing) = (None, None);
        let takes = floor.is_none() || self.reader.has_room();
        loop {
            let now = self.link.now();
            let mut state = self.link.lock();
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            let front = if takes { state.take_front() } else { Front::Empty };
            if !matches!(front, Front::Empty) || state.has_news(floor) {
                if began.is_some() && is_starved {
                    state.meter.set_waiting(now, false);
                }
                return Ok(front);
            }
            self.check_deadline(&state, is_starved)?;
            missing = self.check_others(&state, missing)?;
            let Some(since) = began else {
                began = Some(now);
                if is_starved {
                    state.meter.set_waiting(now, true);
                    drop(state);
                    let consumed = self.reader.waits();
                    self.acknowledge(consumed);
                }
                continue;
            };
            let is_coming = state.window.is_coming() || !is_starved;
            if state.steps.as_ref().is_some_and(|steps| steps.is_due(now)) {
                self.link.to_say.notify_one();
            }
            drop(self.link.wait(state, POLL));
            if self.link.now() - since >= self.patience {
                if !is_coming || floor.is_some() {
                    self.watch.look(self.link.now(), poll)?;
                }
                if !is_coming || missing.is_some() {
                    self.tell_of_waiting();
                }
            }
            poll()?;
        }
    }

    /// Others are waited for as long as they live, however slow they are; for those that nobody reads, until the bound. Returns since when
    /// there are such.
    fn check_others(&self, state: &State, since: Option<Ticks>) -> Result<Option<Ticks>> {
        let missing = state.steps.as_ref().map_or(&[][..], Steps::missing);
        let [first, ..] = missing else { return Ok(None) };
        let now = self.link.now();
        let since = since.unwrap_or(now);
        if now - since >= self.absence { Err(absent(&self.job, first, missing, self.absence)) } else { Ok(Some(since)) }
    }

    /// Tells the user once that nobody computes what comes next. It is waited for all the same: workers may be on their way.
    fn tell_of_waiting(&mut self) {
        let Some(tell) = self.tell.take() else { return };
        let (job, address, seconds) = (&self.job, &self.address, self.patience.as_secs_f64());
        let state = self.link.lock();
        let missing = state.steps.as_ref().map_or(&[][..], Steps::missing);
        let error = match state.session {
            _ if !missing.is_empty() => {
                let names = named_all(missing);
                format!(
                    "consumers {names} of job {job:?} have had no reader for {seconds:.0} s; still waiting for them"
                )
            }
            Is::Broken(_) => format!("the dispatcher at {address} does not answer; still waiting"),
            Is::Open | Is::Over => format!("no worker has computed for job {job:?} for {seconds:.0} s; still waiting"),
        };
        drop(state);
        let error = Error::unavailable(error).with("address", address);
        tell(&error.hint("`forebay workers` lists the workers that there are, `forebay jobs` what they compute"));
    }

    /// Says what was left out, and waits until the stream may go on without it.
    fn report(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let lost = self.reader.take_losses();
        if lost.is_empty() {
            return Ok(());
        }
        self.link.lock().report(&lost);
        self.lost.extend(lost);
        self.link.to_say.notify_one();
        let since = self.link.now();
        loop {
            let state = self.link.lock();
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            if state.is_settled() {
                return Ok(());
            }
            if state.is_alone(self.link.now(), self.deadline) {
                return Err(self.unanswered());
            }
            drop(self.link.wait(state, POLL));
            if self.link.now() - since >= self.patience {
                self.watch.look(self.link.now(), poll)?;
            }
            poll()?;
        }
    }

    /// What is assigned can be read without a dispatcher; beyond that it is waited for until the deadline.
    fn check_deadline(&self, state: &State, is_starved: bool) -> Result<()> {
        let now = self.link.now();
        let is_lost = if is_starved { state.is_lost(now, self.deadline) } else { state.is_alone(now, self.deadline) };
        if is_lost { Err(self.unanswered()) } else { Ok(()) }
    }

    fn unanswered(&self) -> Error {
        let seconds = self.deadline.as_secs_f64();
        Error::new(
            ErrorKind::Unavailable,
            format!("the dispatcher at {} did not answer for {seconds:.1} s", self.address),
        )
        .with("address", &self.address)
        .with("split", format!("{} of epoch {}", self.reader.at().ordinal, self.reader.at().epoch))
        .hint("start it again with the same state folder, and go on from the last saved state")
    }

    fn acknowledge(&self, place: Option<Place>) {
        if place.is_some() {
            self.link.lock().say.ack = place;
            self.link.to_say.notify_one();
        }
    }

    /// Says the last word and waits for it to be heard, which takes one round trip to a dispatcher that is there. A job whose
    /// last word is lost counts as one whose reader went away.
    fn finish(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let consumed = self.reader.over();
        {
            let say = &mut self.link.lock().say;
            (say.ack, say.finish) = (Some(consumed), true);
        }
        self.link.to_say.notify_one();
        let end = Instant::now() + FINISH_MAX;
        loop {
            let state = self.link.lock();
            if matches!(state.session, Is::Over) || state.fatal.is_some() || Instant::now() >= end {
                return Ok(());
            }
            drop(self.link.wait(state, POLL));
            poll()?;
        }
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

/// Where readers end epochs together, a state is one step behind: the step that comes again must be the one that was given out.
fn check_apart(ending: Ending) -> Result<()> {
    if ending == Ending::Apart {
        return Ok(());
    }
    Err(Error::invalid(
        "ordered=False, and consumers that end epochs together, as how much each gets is not known beforehand",
    )
    .hint("with even=False each ends where it ends"))
}

fn named_all(missing: &[Missing]) -> String {
    missing.iter().map(|m| m.consumer.to_string()).collect::<Vec<_>>().join(", ")
}

/// Others wait for a reader in vain.
fn absent(job: &str, first: &Missing, missing: &[Missing], bound: Duration) -> Error {
    let seconds = bound.as_secs_f64();
    let names = named_all(missing);
    let error = match first.epoch {
        Some(epoch) => Error::unavailable(format!(
            "consumer {} of job {job:?} is in epoch {epoch} already, and this one waits to hear how many batches it had in an earlier one",
            first.consumer
        ))
        .hint("let all consumers load states of the same step"),
        None => Error::unavailable(format!(
            "consumers {names} of job {job:?} had no reader for {seconds:.1} s, and the others wait to hear how many batches they have"
        ))
        .hint(
            "start all consumers, from states of the same step where they had begun; rank_timeout= says how long is waited for one, \
             and with even=False each ends where it ends",
        ),
    };
    error.with("consumers", names)
}

/// The dispatcher was told a number, and knows none of that: nobody else knows the name.
fn named(error: Error, job: &str) -> Error {
    if error.kind() != ErrorKind::NotFound || error.get(NO_JOB).is_none() {
        return error;
    }
    let known = Error::new(ErrorKind::NotFound, format!("the dispatcher does not know job {job:?} any more"));
    let context = error.context().iter().filter(|(key, _)| key != NO_JOB);
    context.fold(known, |known, (key, value)| known.with(key, value))
}

impl Drop for ServiceStream {
    fn drop(&mut self) {
        self.close();
    }
}

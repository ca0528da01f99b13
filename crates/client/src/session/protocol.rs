//! The consumer's side of the session with the dispatcher: the messages that it sends, and its reaction to events. No
//! I/O, no clock.
//!
//! `driver` runs it over gRPC, the simulation over a network that fails. A session begins at the first split that is
//! not complete here, so a restarted dispatcher gets the positions that it may have lost. It repeats the last
//! acknowledgement, as only that ends a job. A broken session is opened again for as long as the stream lives; an error
//! that a retry cannot cure (the job was cancelled, the consumer was taken, another version) ends the stream.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, VERSION};
use forebay_proto::consumer_event::Event;
use forebay_proto::consumer_message::Message;
use forebay_proto::{Ack, Attach, ConsumerHeartbeat, EndEpoch, LostSample, OpSpent, Recorded, may_pass};

use crate::stream::reorder_buffer::{Assignment, SplitKey};
use crate::stream::shared::{SessionState, StreamState};

/// The pause between attempts doubles from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// How often a consumer sends a heartbeat.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);
/// A session counts as broken if the dispatcher sends nothing for so long.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same if there are several dispatchers: another one may lead by now.
const SILENCE_MAX_OF_SEVERAL: Duration = Duration::from_secs(3);
/// A dispatcher that has not noticed the end of an earlier session answers that the consumer is taken. A new stream
/// retries for so long, in case the other was just closed; a resumed one, in case the host or the network of the other
/// failed.
const TAKEN_MAX: Duration = Duration::from_secs(1);
const TAKEN_RESUMED_MAX: Duration = Duration::from_secs(6);
/// The stream ends after the dispatcher has refused so many sessions with nothing consumed in between.
const REFUSALS_MAX: u32 = 3;

/// Why a session ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// The connection failed, or the dispatcher did.
    Connection(Error),
    /// The dispatcher ended it with an error.
    Refused(Error),
    /// The dispatcher has received all messages.
    Finished,
}

impl From<Error> for SessionEnd {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// The protocol state of one consumer.
#[derive(Debug)]
pub(crate) struct ConsumerProtocol {
    pub(crate) job: u64,
    pub(crate) consumer: u32,
    /// The name of the job, by which callers find the consumer for a trace.
    job_name: String,
    window: u32,
    /// Whether the stream resumes from a position.
    resume: bool,
    /// The skipped samples of a saved state, until the dispatcher has them.
    lost: Vec<LostSample>,
    pause: Duration,
    /// How many sessions the dispatcher refused while this split was the head.
    refusals: (u32, SplitKey),
    /// When the first refusal in a row came.
    refused_since: Option<Ticks>,
    /// When the last event came.
    last_event: Ticks,
    silence_max: Duration,
}

impl ConsumerProtocol {
    pub(crate) fn new(job: u64, consumer: u32, window: u32, resume: bool, lost: Vec<LostSample>) -> Self {
        let (pause, refusals) = (PAUSE_FIRST, (0, SplitKey::default()));
        let (last_event, silence_max) = (Ticks::default(), SILENCE_MAX);
        let (job_name, refused_since) = (String::new(), None);
        Self { job, consumer, job_name, window, resume, lost, pause, refusals, refused_since, last_event, silence_max }
    }

    /// Sets the name of the job.
    pub(crate) fn with_job_name(self, name: &str) -> Self {
        Self { job_name: name.to_owned(), ..self }
    }

    /// Sets the number of dispatchers.
    pub(crate) fn with_dispatchers(mut self, dispatchers: usize) -> Self {
        if dispatchers > 1 {
            self.silence_max = SILENCE_MAX_OF_SEVERAL;
        }
        self
    }

    /// Begins a session; returns its first message.
    pub(crate) fn attach(&self, state: &mut StreamState) -> Message {
        state.begin_session();
        let at = state.buffer.first_incomplete();
        Message::Attach(Attach {
            version: VERSION.to_owned(),
            job: self.job,
            consumer: self.consumer,
            epoch: at.epoch,
            ordinal: at.ordinal,
            resume: self.resume,
            window: self.window,
            lost: self.lost.clone(),
            local_key: state.local_worker.key().to_vec(),
            job_name: self.job_name.clone(),
        })
    }

    /// Accepts the first event of a session.
    ///
    /// # Errors
    /// Internal if it is not Attached.
    pub(crate) fn attached(&mut self, now: Ticks, state: &mut StreamState, first: Option<Event>) -> Result<()> {
        if !matches!(first, Some(Event::Attached(_))) {
            return Err(Error::internal("the dispatcher's first event is not Attached"));
        }
        // The dispatcher has this consumer now: its next session resumes.
        self.resume = true;
        self.lost = Vec::new();
        self.last_event = now;
        state.session = SessionState::Open;
        Ok(())
    }

    /// Accepts a later event; returns an assignment to fetch.
    pub(crate) fn take_event(
        &mut self,
        now: Ticks,
        state: &mut StreamState,
        event: Option<Event>,
    ) -> Option<Assignment> {
        self.last_event = now;
        let assigned = match event? {
            Event::Assigned(assigned) => assigned,
            Event::Recorded(Recorded { number }) => {
                state.skip_reports.recorded(number);
                return None;
            }
            Event::Heartbeat(reply) => {
                state.local_worker.set_wanted_threads(reply.local_threads);
                state.steps.iter_mut().for_each(|steps| steps.set_missing(reply.missing.clone()));
                return None;
            }
            Event::Floor(floor) => {
                state.steps.iter_mut().for_each(|steps| steps.raise_floor(floor));
                return None;
            }
            // The driver records traces.
            Event::Attached(_) | Event::StartTrace(_) => return None,
        };
        let split = SplitKey { epoch: assigned.epoch, ordinal: assigned.ordinal };
        state.buffer.assign(split, assigned.token, assigned.beside, &assigned.address)
    }

    /// Returns the messages that wait, and whether the last message of the stream is among them.
    pub(crate) fn take_messages(now: Ticks, state: &mut StreamState) -> (Vec<Message>, bool) {
        let lost = std::iter::from_fn(|| state.skip_reports.next()).map(Message::Lost).collect::<Vec<_>>();
        let outgoing = state.take_outgoing();
        let ended = outgoing.ended.into_iter().map(|epoch| Message::EndEpoch(EndEpoch { epoch }));
        let unreachable = outgoing.unreachable.into_iter().map(Message::Unreachable);
        let ack = outgoing.ack.map(|SplitKey { epoch, ordinal }| Message::Ack(Ack { epoch, ordinal }));
        // A consumer that has finished sends no more counts.
        let steps = state.steps.as_mut().filter(|_| !outgoing.finish);
        let steps = steps.and_then(|steps| steps.take_message(now)).map(Message::Steps);
        (lost.into_iter().chain(ended).chain(unreachable).chain(ack).chain(steps).collect(), outgoing.finish)
    }

    /// Returns the heartbeat; `op_costs` are the costs of the ops that ran in this process.
    ///
    /// # Errors
    /// Unavailable if the dispatcher was silent for too long.
    pub(crate) fn heartbeat(&self, now: Ticks, state: &mut StreamState, op_costs: Vec<OpSpent>) -> Result<Message> {
        if now - self.last_event > self.silence_max {
            return Err(Error::unavailable("the dispatcher was silent"));
        }
        let spare = state.local_worker.spare();
        let ahead = state.buffer.num_complete_ahead();
        Ok(Message::Heartbeat(ConsumerHeartbeat { spare, ops: op_costs, ..state.meter.take_heartbeat(now, ahead) }))
    }

    /// Ends a session, or an attempt at one. Returns the pause before the next one; `None` if the stream is finished.
    ///
    /// # Errors
    /// The error that ends the stream.
    pub(crate) fn session_ended(
        &mut self,
        now: Ticks,
        state: &mut StreamState,
        end: SessionEnd,
    ) -> Result<Option<Duration>> {
        if matches!(state.session, SessionState::Open) {
            state.session = SessionState::Broken(now);
            (self.pause, self.refused_since) = (PAUSE_FIRST, None);
        }
        match end {
            SessionEnd::Finished => {
                state.session = SessionState::Finished;
                return Ok(None);
            }
            SessionEnd::Connection(error) if may_pass(&error) => {}
            SessionEnd::Refused(error) => self.refused(now, state.buffer.head(), error)?,
            SessionEnd::Connection(error) => return Err(error),
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_LAST);
        Ok(Some(pause))
    }

    fn refused(&mut self, now: Ticks, head: SplitKey, error: Error) -> Result<()> {
        let refusals = if head == self.refusals.1 { self.refusals.0 + 1 } else { 1 };
        self.refusals = (refusals, head);
        let since = *self.refused_since.get_or_insert(now);
        let may_retry = match error.kind() {
            ErrorKind::Unavailable => refusals < REFUSALS_MAX && error.get("attempts").is_none(),
            ErrorKind::Conflict if self.resume => now - since < TAKEN_RESUMED_MAX,
            ErrorKind::Conflict => now - since < TAKEN_MAX,
            _ => may_pass(&error),
        };
        if may_retry { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::stream::reorder_buffer::ReorderBuffer;

    #[test]
    fn the_next_session_repeats_the_last_acknowledgement() {
        let mut state = StreamState::new(ReorderBuffer::new(SplitKey::default(), 0), Arc::default(), Ticks(0));
        let protocol = ConsumerProtocol::new(1, 0, 4, false, Vec::new());
        let acks = |messages: &[Message]| -> Vec<_> {
            let of =
                |message: &Message| if let Message::Ack(ack) = message { Some((ack.epoch, ack.ordinal)) } else { None };
            messages.iter().filter_map(of).collect()
        };
        protocol.attach(&mut state);
        assert!(matches!(&ConsumerProtocol::take_messages(Ticks(0), &mut state), (sent, false) if sent.is_empty()));
        state.outgoing.ack = Some(SplitKey { epoch: 0, ordinal: 3 });
        let (sent, last) = ConsumerProtocol::take_messages(Ticks(0), &mut state);
        assert_eq!((acks(&sent), last), (vec![(0, 3)], false));
        assert!(
            matches!(&ConsumerProtocol::take_messages(Ticks(0), &mut state), (sent, false) if sent.is_empty()),
            "once in a session"
        );
        state.outgoing.ack = Some(SplitKey { epoch: 1, ordinal: 0 });
        state.outgoing.finish = true;
        assert!(ConsumerProtocol::take_messages(Ticks(0), &mut state).1, "the dispatcher does not receive it");
        protocol.attach(&mut state);
        let (sent, last) = ConsumerProtocol::take_messages(Ticks(0), &mut state);
        assert_eq!((acks(&sent), last), (vec![(1, 0)], true));
    }
}

//! What a consumer says in its session with the dispatcher, and what it does about what it hears. No I/O, no clock.
//!
//! `session` drives it over gRPC, the simulation over a network that fails. A session begins at the first split that is
//! not here as a whole, so a dispatcher that restarted learns from it what it may have forgotten; what was acknowledged last is said
//! again, for a job ends by that alone. A session that breaks is opened again for as long as the stream lives; what trying again
//! will not mend (the job was cancelled, the consumer was taken, another version) ends the stream.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, VERSION};
use forebay_proto::consumer_event::Event;
use forebay_proto::consumer_message::Message;
use forebay_proto::{Ack, Attach, ConsumerHeartbeat, EndEpoch, LostSample, OpSpent, Recorded, may_pass};

use crate::link::{Session, State};
use crate::window::{Fetch, Place};

/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// How often a consumer says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);
/// Silence after which a session counts as broken.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same where there are other dispatchers, of which one may lead by now.
const SILENCE_MAX_OF_SEVERAL: Duration = Duration::from_secs(3);
/// A dispatcher that has not noticed yet that an earlier session ended calls the consumer taken. A fresh reader waits
/// this long for one that was just closed; one that goes on, for one whose machine or network broke.
const TAKEN_MAX: Duration = Duration::from_secs(1);
const TAKEN_RESUMED_MAX: Duration = Duration::from_secs(6);
/// A dispatcher that ends a session by itself this often, with nothing consumed in between, means it.
const ENDED_MAX: u32 = 3;

/// Why a session ended.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection, or the dispatcher as a whole.
    Connection(Error),
    /// The dispatcher said so.
    Refused(Error),
    /// Everything was said.
    Finished,
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// One consumer, as it speaks.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) job: u64,
    pub(crate) consumer: u32,
    window: u32,
    /// Whether the stream goes on from a position.
    resume: bool,
    /// What a saved state says was left out, until the dispatcher has it.
    lost: Vec<LostSample>,
    pause: Duration,
    /// How often the dispatcher ended a session, with this front.
    ended: (u32, Place),
    taken_since: Option<Ticks>,
    heard: Ticks,
    silence_max: Duration,
}

impl Talk {
    pub(crate) fn new(job: u64, consumer: u32, window: u32, resume: bool, lost: Vec<LostSample>) -> Self {
        let (pause, ended) = (PAUSE_FIRST, (0, Place::default()));
        let (heard, silence_max) = (Ticks::default(), SILENCE_MAX);
        Self { job, consumer, window, resume, lost, pause, ended, taken_since: None, heard, silence_max }
    }

    /// There are so many dispatchers.
    pub(crate) fn of_service(mut self, dispatchers: usize) -> Self {
        if dispatchers > 1 {
            self.silence_max = SILENCE_MAX_OF_SEVERAL;
        }
        self
    }

    /// The first message of a session.
    pub(crate) fn attach(&self, state: &mut State) -> Message {
        state.begin();
        let at = state.window.missing();
        Message::Attach(Attach {
            version: VERSION.to_owned(),
            job: self.job,
            consumer: self.consumer,
            epoch: at.epoch,
            ordinal: at.ordinal,
            resume: self.resume,
            window: self.window,
            lost: self.lost.clone(),
            local_key: state.seat.key().to_vec(),
        })
    }

    /// The first event of a session.
    ///
    /// # Errors
    /// Internal when it is not that we are attached.
    pub(crate) fn attached(&mut self, now: Ticks, state: &mut State, first: Option<Event>) -> Result<()> {
        if !matches!(first, Some(Event::Attached(_))) {
            return Err(Error::internal("the dispatcher's first event is not that we are attached"));
        }
        // From now on this reader is known: when it comes back, it is the same one.
        self.resume = true;
        self.lost = Vec::new();
        self.heard = now;
        state.session = Session::Open;
        Ok(())
    }

    /// Takes a later event; returns what to fetch.
    pub(crate) fn heard(&mut self, now: Ticks, state: &mut State, event: Option<Event>) -> Option<Fetch> {
        self.heard = now;
        let assigned = match event? {
            Event::Assigned(assigned) => assigned,
            Event::Recorded(Recorded { number }) => {
                state.reports.recorded(number);
                return None;
            }
            Event::Heartbeat(reply) => {
                state.seat.hear(reply.local_threads);
                state.steps.iter_mut().for_each(|steps| steps.hear_missing(reply.missing.clone()));
                return None;
            }
            Event::Floor(floor) => {
                state.steps.iter_mut().for_each(|steps| steps.hear(floor));
                return None;
            }
            Event::Attached(_) => return None,
        };
        let place = Place { epoch: assigned.epoch, ordinal: assigned.ordinal };
        state.window.assign(place, assigned.token, assigned.beside, &assigned.address)
    }

    /// Returns what there is to say, and whether it is the last word.
    pub(crate) fn say(now: Ticks, state: &mut State) -> (Vec<Message>, bool) {
        let lost = std::iter::from_fn(|| state.reports.next()).map(Message::Lost).collect::<Vec<_>>();
        let say = state.take_say();
        let ended = say.ended.into_iter().map(|epoch| Message::EndEpoch(EndEpoch { epoch }));
        let unreachable = say.unreachable.into_iter().map(Message::Unreachable);
        let ack = say.ack.map(|Place { epoch, ordinal }| Message::Ack(Ack { epoch, ordinal }));
        // Who has said its last word is not asked any more.
        let steps = state.steps.as_mut().filter(|_| !say.finish).and_then(|steps| steps.say(now)).map(Message::Steps);
        (lost.into_iter().chain(ended).chain(unreachable).chain(ack).chain(steps).collect(), say.finish)
    }

    /// Returns the heartbeat, which also says what `ops` did in this process.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub(crate) fn beat(&self, now: Ticks, state: &mut State, ops: Vec<OpSpent>) -> Result<Message> {
        if now - self.heard > self.silence_max {
            return Err(Error::unavailable("the dispatcher was silent"));
        }
        let spare = state.seat.spare();
        Ok(Message::Heartbeat(ConsumerHeartbeat { spare, ops, ..state.meter.tell(now, state.window.ahead()) }))
    }

    /// A session ended, or could not begin. Returns the pause before the next one; `None` when everything was said.
    ///
    /// # Errors
    /// What ends the stream.
    pub(crate) fn broken(&mut self, now: Ticks, state: &mut State, broken: Broken) -> Result<Option<Duration>> {
        if matches!(state.session, Session::Open) {
            state.session = Session::Broken(now);
            (self.pause, self.taken_since) = (PAUSE_FIRST, None);
        }
        match broken {
            Broken::Finished => {
                state.session = Session::Over;
                return Ok(None);
            }
            Broken::Connection(error) if may_pass(&error) => {}
            Broken::Refused(error) => self.refused(now, state.window.front(), error)?,
            Broken::Connection(error) => return Err(error),
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_LAST);
        Ok(Some(pause))
    }

    fn refused(&mut self, now: Ticks, front: Place, error: Error) -> Result<()> {
        let ended = if front == self.ended.1 { self.ended.0 + 1 } else { 1 };
        self.ended = (ended, front);
        let since = *self.taken_since.get_or_insert(now);
        let again = match error.kind() {
            ErrorKind::Unavailable => ended < ENDED_MAX && error.get("attempts").is_none(),
            ErrorKind::Conflict if self.resume => now - since < TAKEN_RESUMED_MAX,
            ErrorKind::Conflict => now - since < TAKEN_MAX,
            _ => may_pass(&error),
        };
        if again { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::window::Window;

    #[test]
    fn what_was_said_last_is_said_again_in_the_next_session() {
        let mut state = State::new(Window::new(Place::default(), 0), Arc::default(), Ticks(0));
        let talk = Talk::new(1, 0, 4, false, Vec::new());
        let acks = |messages: &[Message]| -> Vec<_> {
            let of =
                |message: &Message| if let Message::Ack(ack) = message { Some((ack.epoch, ack.ordinal)) } else { None };
            messages.iter().filter_map(of).collect()
        };
        talk.attach(&mut state);
        assert!(matches!(&Talk::say(Ticks(0), &mut state), (said, false) if said.is_empty()));
        state.say.ack = Some(Place { epoch: 0, ordinal: 3 });
        let (said, last) = Talk::say(Ticks(0), &mut state);
        assert_eq!((acks(&said), last), (vec![(0, 3)], false));
        assert!(matches!(&Talk::say(Ticks(0), &mut state), (said, false) if said.is_empty()), "once in a session");
        state.say.ack = Some(Place { epoch: 1, ordinal: 0 });
        state.say.finish = true;
        assert!(Talk::say(Ticks(0), &mut state).1, "and nobody hears it");
        talk.attach(&mut state);
        let (said, last) = Talk::say(Ticks(0), &mut state);
        assert_eq!((acks(&said), last), (vec![(1, 0)], true));
    }
}

//! What a stream's tasks and its user share: the window, what is to be said to the dispatcher, and how the link is.
//!
//! One short lock, never held while waiting for the network. Bounds: acknowledgements are coalesced into one position;
//! there is at most one complaint for each split of the window.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_core::{Clock, Error, SystemClock, Ticks};
use forebay_exec::SkippedSample;
use forebay_plan::Floor;
use forebay_proto::Unreachable;
use tokio::sync::Notify;

use crate::lock::lock;
use crate::meter::Meter;
use crate::reports::Reports;
use crate::seat::Seat;
use crate::steps::Steps;
use crate::window::{Fetch, Front, Place, Window};

/// What is to be said to the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct ToSay {
    /// Everything before this was consumed.
    pub(crate) ack: Option<Place>,
    /// Epochs that are not needed to their end.
    pub(crate) ended: Vec<u64>,
    /// Splits that could not be fetched.
    pub(crate) unreachable: Vec<Unreachable>,
    /// Everything was consumed: say so and end.
    pub(crate) finish: bool,
}

/// Whether the dispatcher is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Session {
    Open,
    /// Since when there is none.
    Broken(Ticks),
    /// The last word was said.
    Over,
}

pub(crate) struct State {
    pub(crate) window: Window,
    pub(crate) say: ToSay,
    /// What was consumed, as it was said last, and whether that was the last word: it may not have been heard.
    said: (Option<Place>, bool),
    /// What was left out.
    pub(crate) reports: Reports,
    /// What of that must be durable before the stream goes on.
    settled_at: u64,
    /// How far this reader and the others are, where all end epochs together.
    pub(crate) steps: Option<Steps>,
    pub(crate) session: Session,
    /// Why nothing more comes.
    pub(crate) fatal: Option<Error>,
    /// What the reader's time goes into.
    pub(crate) meter: Meter,
    /// The place of its local worker.
    pub(crate) seat: Arc<Seat>,
}

impl State {
    /// Begins without a session.
    pub(crate) fn new(window: Window, seat: Arc<Seat>, now: Ticks) -> Self {
        let (say, session) = (ToSay::default(), Session::Broken(now));
        let reports = Reports::default();
        Self {
            window,
            say,
            said: (None, false),
            reports,
            settled_at: 0,
            steps: None,
            session,
            fatal: None,
            meter: Meter::new(now),
            seat,
        }
    }

    /// Takes what the front split has.
    pub(crate) fn take_front(&mut self) -> Front {
        let front = self.window.take();
        if let Front::Chunk(.., chunk) = &front {
            self.meter.merge(chunk.num_rows(), chunk.num_bytes());
        }
        front
    }

    /// Says whether all readers are known to have more than this, or that an epoch is over.
    pub(crate) fn has_news(&self, floor: Option<Floor>) -> bool {
        floor.is_some_and(|floor| self.steps.as_ref().is_some_and(|steps| steps.floor() != floor))
    }

    /// Says whether a fetch may take in more now; `None` when nobody wants it any more. The front split is never held
    /// up, so that what waits behind it always gets its turn.
    pub(crate) fn room_for(&self, fetch: &Fetch) -> Option<bool> {
        self.window.is_wanted(fetch).then(|| self.window.has_room(fetch.place))
    }

    /// Says whether there was no dispatcher for so long, and nothing is on its way without one.
    pub(crate) fn is_lost(&self, now: Ticks, deadline: Duration) -> bool {
        !self.window.is_coming() && self.is_alone(now, deadline)
    }

    /// Says whether there was no dispatcher for so long.
    pub(crate) fn is_alone(&self, now: Ticks, deadline: Duration) -> bool {
        match self.session {
            Session::Broken(since) => now - since >= deadline,
            Session::Open | Session::Over => false,
        }
    }

    /// Takes what was left out, to be said to the dispatcher.
    pub(crate) fn report(&mut self, lost: &[SkippedSample]) {
        for lost in lost.iter().filter(|l| !l.loss.is_warning()) {
            self.settled_at = self.reports.add(lost).unwrap_or(self.settled_at);
        }
    }

    /// Says whether the stream may go on: a sample that might not fail again is gone for good before anything after it
    /// is given out.
    pub(crate) fn is_settled(&self) -> bool {
        self.reports.is_recorded(self.settled_at)
    }

    /// Takes what there is to say.
    pub(crate) fn take_say(&mut self) -> ToSay {
        self.said = (self.say.ack.or(self.said.0), self.say.finish || self.said.1);
        std::mem::take(&mut self.say)
    }

    /// A session begins: what was said in the one before may not have been heard. What was said of splits is said anew about what
    /// this one assigns.
    pub(crate) fn begin(&mut self) {
        let (ack, is_last) = self.said;
        (self.say.ack, self.say.finish) = (self.say.ack.or(ack), self.say.finish || is_last);
        self.say.unreachable.clear();
        self.reports.restart();
        self.steps.iter_mut().for_each(Steps::restart);
    }

    /// An epoch is over, perhaps before its end: the window goes on at `at`.
    pub(crate) fn move_on(&mut self, ended: Option<u64>, at: Place) {
        self.say.ended.extend(ended);
        self.window.move_to(at);
    }
}

/// What they share.
pub(crate) struct Link {
    clock: SystemClock,
    state: Mutex<State>,
    /// Told when `next` may find something: a chunk, an end, an error.
    news: Condvar,
    /// Told when there is something to say to the dispatcher.
    pub(crate) to_say: Notify,
    /// Told when the window has more room, or another front.
    pub(crate) room: Notify,
}

impl Link {
    pub(crate) fn new(window: Window, seat: Arc<Seat>) -> Self {
        let clock = SystemClock::default();
        let state = Mutex::new(State::new(window, seat, clock.now()));
        Self { clock, state, news: Condvar::new(), to_say: Notify::new(), room: Notify::new() }
    }

    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state and tells the user.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = {
            let mut state = self.lock();
            let changed = change(&mut state);
            debug_assert_eq!(state.window.check(), Ok(()));
            changed
        };
        self.news.notify_all();
        changed
    }

    /// Ends the stream with an error.
    pub(crate) fn fail(&self, error: Error) {
        self.update(|s| s.fatal = s.fatal.take().or(Some(error)));
        self.room.notify_waiters();
    }

    /// Waits for news, or for `time`.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.news.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

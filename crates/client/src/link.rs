//! What a stream's tasks and its user share: the window, what is to be said to the dispatcher, and how the link is.
//!
//! One short lock, never held while waiting for the network. Bounds: acknowledgements are coalesced into one position;
//! there is at most one complaint for each split of the window.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::Error;
use forebay_proto::Unreachable;
use tokio::sync::Notify;

use crate::lock::lock;
use crate::reports::Reports;
use crate::window::{Place, Window};

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
    Broken(Instant),
    /// The last word was said.
    Over,
}

pub(crate) struct State {
    pub(crate) window: Window,
    pub(crate) say: ToSay,
    /// What was left out.
    pub(crate) reports: Reports,
    pub(crate) session: Session,
    /// Why nothing more comes.
    pub(crate) fatal: Option<Error>,
    /// How long `next` has waited since this was last told.
    pub(crate) waited: Duration,
}

/// What they share.
pub(crate) struct Link {
    state: Mutex<State>,
    /// Told when `next` may find something: a chunk, an end, an error.
    news: Condvar,
    /// Told when there is something to say to the dispatcher.
    pub(crate) to_say: Notify,
    /// Told when the window has more room, or another front.
    pub(crate) room: Notify,
}

impl Link {
    pub(crate) fn new(window: Window) -> Self {
        let state = State {
            window,
            say: ToSay::default(),
            reports: Reports::default(),
            session: Session::Broken(Instant::now()),
            fatal: None,
            waited: Duration::ZERO,
        };
        Self { state: Mutex::new(state), news: Condvar::new(), to_say: Notify::new(), room: Notify::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state and tells the user.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
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

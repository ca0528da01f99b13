//! The circuit breaker of a store that fails: arithmetic, without a clock and without I/O.
//!
//! After [`FAILURES_MAX`] failures in a row, or a lasting failure, no requests are made for a pause, which doubles with
//! each further failure. After the pause, one request is a trial. If it succeeds, all requests are allowed.

/// Failures in a row that open the breaker.
const FAILURES_MAX: u32 = 3;
/// The first pause, in nanoseconds.
const PAUSE_FIRST: u64 = 5_000_000_000;
/// The longest pause, in nanoseconds.
const PAUSE_MAX: u64 = 300_000_000_000;

/// See the module's documentation. Times are nanoseconds of one clock.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
    pause: u64,
}

#[derive(Debug)]
enum State {
    /// Closed: requests are allowed; the number of failures in a row.
    Asked(u32),
    /// Open: no requests until then.
    Alone(u64),
    /// Half open: one request is a trial. If its result is not known by then, another request is a trial.
    Tried(u64),
}

impl Default for State {
    fn default() -> Self {
        State::Asked(0)
    }
}

impl Breaker {
    /// Says whether a request is allowed. After a pause, only the first caller's is, until the result is known.
    pub(crate) fn may_ask(&mut self, now: u64) -> bool {
        match self.state {
            State::Asked(_) => true,
            State::Alone(until) | State::Tried(until) if now >= until => {
                self.state = State::Tried(now + self.pause);
                true
            }
            State::Alone(_) | State::Tried(_) => false,
        }
    }

    /// Says whether requests are paused now. Does not begin a trial.
    pub(crate) fn is_paused(&self, now: u64) -> bool {
        matches!(self.state, State::Alone(until) | State::Tried(until) if now < until)
    }

    /// Records a success. Returns whether the breaker was open before.
    pub(crate) fn succeeded(&mut self) -> bool {
        !matches!(std::mem::take(self).state, State::Asked(_))
    }

    /// Records a failure; a `lasting` one does not go away by itself. Returns whether the breaker opens now.
    pub(crate) fn failed(&mut self, now: u64, lasting: bool) -> bool {
        let begins = match self.state {
            State::Asked(failures) if !lasting && failures + 1 < FAILURES_MAX => {
                self.state = State::Asked(failures + 1);
                return false;
            }
            State::Asked(_) => true,
            // A request that began before the pause contains no news.
            State::Alone(_) => return false,
            State::Tried(_) => false,
        };
        self.pause = (self.pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX);
        self.state = State::Alone(now + self.pause);
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_fails_is_asked_ever_more_seldom_and_one_success_mends_all() {
        let (mut breaker, mut now) = (Breaker::default(), 0);
        assert!(!breaker.failed(now, false) && !breaker.failed(now, false) && breaker.may_ask(now));
        assert!(breaker.failed(now, false), "the third in a row");
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let began = now;
            while !breaker.may_ask(now) {
                assert!(breaker.is_paused(now));
                now += PAUSE_FIRST / 5;
            }
            assert!(!breaker.may_ask(now), "one tries it, not all");
            pauses.push((now - began) / PAUSE_FIRST);
            assert!(!breaker.failed(now, false), "that is known");
            (0..9).for_each(|_| _ = breaker.failed(now, false));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60], "requests that were under way do not make it longer");
        assert!(breaker.succeeded() && breaker.may_ask(now));
        assert!(!breaker.failed(now, false) && !breaker.succeeded(), "as if nothing had been");
    }

    #[test]
    fn what_will_not_mend_is_left_alone_at_once() {
        let mut breaker = Breaker::default();
        assert!(breaker.failed(7, true) && breaker.is_paused(7) && !breaker.is_paused(7 + PAUSE_FIRST));
        assert!(breaker.may_ask(7 + PAUSE_FIRST));
    }

    #[test]
    fn a_trial_of_which_nothing_is_heard_is_made_again() {
        let mut breaker = Breaker::default();
        breaker.failed(0, true);
        assert!(breaker.may_ask(PAUSE_FIRST) && !breaker.may_ask(PAUSE_FIRST + 1) && breaker.may_ask(2 * PAUSE_FIRST));
    }
}

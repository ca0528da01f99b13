//! Decides whether a failed request to a store is retried, and after how long.
//!
//! One rule for every request to a store (a size, a list, a range of bytes), since `object_store`'s own retries are
//! switched off: they handle neither `Retry-After`, nor the retries of other readers of the store, nor a body that
//! arrives very slowly. The wait is a random part of a time that doubles ("full jitter"), added to the store's
//! `Retry-After`, and never sooner than the store's [`Budget`] allows. Randomness and the time are arguments, and reach
//! no sample. Invariant: there are at most [`ATTEMPTS_MAX`] attempts, and [`Policy::patience`], without progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};

/// The most consecutive attempts without progress.
pub(super) const ATTEMPTS_MAX: u32 = 16;
/// As above, for a store that has never answered: its name is more likely wrong than its servers busy.
pub(super) const ATTEMPTS_UNREACHED_MAX: u32 = 4;
/// As above, for malformed answers.
pub(super) const ATTEMPTS_ODD_MAX: u32 = 4;
/// The longest wait before the second attempt; it doubles with each further one.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest such wait.
const BACKOFF_MAX: Duration = Duration::from_secs(20);
/// The most immediate retries of one store.
const BUDGET_BURST: u32 = 32;
/// The interval at which one more retry is allowed.
const BUDGET_EVERY: Duration = Duration::from_millis(100);

/// The time limits of a store, set by the user in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Policy {
    /// How long an attempt may receive (almost) nothing. `FOREBAY_STORE_TIMEOUT`, default 20.
    pub(in crate::store) stall: Duration,
    /// How long attempts without progress continue. `FOREBAY_STORE_PATIENCE`, default 180.
    pub(in crate::store) patience: Duration,
}

impl Policy {
    /// Reads the settings.
    ///
    /// # Errors
    /// Invalid when one is not a number of seconds.
    pub(in crate::store) fn from_settings(setting: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let seconds = |name: &str, default: u64| match setting(name) {
            None => Ok(Duration::from_secs(default)),
            Some(text) => {
                let seconds = text.trim().parse().ok().filter(|s| (0.01..=86_400.0).contains(s));
                seconds.map(Duration::from_secs_f64).ok_or_else(|| {
                    Error::invalid(format!("{name}={text:?} is not a number of seconds")).hint("use 0.01 to 86400")
                })
            }
        };
        Ok(Self { stall: seconds("FOREBAY_STORE_TIMEOUT", 20)?, patience: seconds("FOREBAY_STORE_PATIENCE", 180)? })
    }
}

/// The retries of all readers of one store: a token bucket, so that a throttled store is not overloaded.
#[derive(Debug, Default)]
pub(in crate::store) struct Budget {
    /// When the bucket is full again.
    full_at: Mutex<Option<Instant>>,
    reached: AtomicBool,
}

impl Budget {
    /// Records that the store has answered, with any status.
    pub(in crate::store) fn answered(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    /// Says whether it has ever answered.
    pub(super) fn has_answered(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// Takes a token, and returns the time until it is valid.
    fn take(&self, now: Instant) -> Duration {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = full_at.map_or(now, |at| at.max(now)) + BUDGET_EVERY;
        *full_at = Some(next);
        (next - now).saturating_sub(BUDGET_EVERY * BUDGET_BURST)
    }
}

/// A failure that another attempt may cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Failure {
    /// The description for the user.
    pub(super) seen: String,
    /// The store's `Retry-After`.
    pub(in crate::store) asked: Option<Duration>,
    /// Whether the answer was malformed. A retry seldom helps then.
    pub(super) odd: bool,
}

impl Failure {
    pub(in crate::store) fn new(seen: impl Into<String>) -> Self {
        Self { seen: seen.into(), asked: None, odd: false }
    }

    pub(super) fn odd(seen: impl Into<String>) -> Self {
        Self { odd: true, ..Self::new(seen) }
    }
}

/// The attempts of one request.
#[derive(Debug)]
pub(in crate::store) struct Attempts {
    began: Instant,
    /// The time of the last progress.
    since: Instant,
    made: u32,
    fruitless: u32,
}

impl Attempts {
    pub(in crate::store) fn new(now: Instant) -> Self {
        Self { began: now, since: now, made: 0, fruitless: 0 }
    }

    /// Records progress of the last attempt.
    pub(in crate::store) fn progressed(&mut self, now: Instant) {
        (self.since, self.fruitless) = (now, 0);
    }

    /// Returns the wait before the next attempt; `None` to give up. `part` is a random number from 0 to 1.
    pub(in crate::store) fn failed(
        &mut self,
        failure: &Failure,
        now: Instant,
        part: f64,
        policy: &Policy,
        budget: &Budget,
    ) -> Option<Duration> {
        self.made += 1;
        self.fruitless += 1;
        let limit = match (failure.odd, budget.has_answered()) {
            (true, _) => ATTEMPTS_ODD_MAX,
            (_, true) => ATTEMPTS_MAX,
            (_, false) => ATTEMPTS_UNREACHED_MAX,
        };
        if self.fruitless >= limit {
            return None;
        }
        let ceiling = BACKOFF_FIRST.saturating_mul(1 << (self.fruitless - 1).min(16)).min(BACKOFF_MAX);
        let wait = failure.asked.unwrap_or_default().saturating_add(ceiling.mul_f64(part));
        let wait = wait.max(budget.take(now));
        ((now - self.since).saturating_add(wait) <= policy.patience).then_some(wait)
    }

    /// Returns the final error with the number of attempts.
    pub(super) fn blame(&self, failure: &Failure, now: Instant) -> Error {
        let seconds = (now - self.began).as_secs_f64();
        Error::unavailable(format!("the store did not answer as it should: {}", failure.seen))
            .with("attempts", format!("{} in {seconds:.1} s", self.made))
            .hint(
                "check that the store is up and reachable from here; FOREBAY_STORE_PATIENCE (seconds) says how long to \
                 go on trying",
            )
    }
}

#[expect(clippy::disallowed_methods, reason = "tests begin at the time of the machine")]
#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { stall: Duration::from_secs(20), patience: Duration::from_secs(180) };

    fn reached() -> Budget {
        let budget = Budget::default();
        budget.answered();
        budget
    }

    /// Fails repeatedly, and returns the waits until the policy gives up.
    fn waits(failure: &Failure, budget: &Budget, part: f64) -> Vec<Duration> {
        let mut now = Instant::now();
        let mut attempts = Attempts::new(now);
        std::iter::from_fn(|| {
            let wait = attempts.failed(failure, now, part, &POLICY, budget)?;
            now += wait;
            Some(wait)
        })
        .collect()
    }

    #[test]
    fn waits_double_up_to_a_ceiling_and_end() {
        let ms = |waits: Vec<Duration>| waits.iter().map(Duration::as_millis).collect::<Vec<_>>();
        let full = ms(waits(&Failure::new("reset"), &reached(), 1.0));
        assert_eq!(full[..9], [100, 200, 400, 800, 1600, 3200, 6400, 12800, 20000]);
        assert_eq!((full.len(), full.iter().sum::<u128>() <= 180_000), (ATTEMPTS_MAX as usize - 1, true), "{full:?}");
        assert_eq!(ms(waits(&Failure::new("reset"), &reached(), 0.0)), [0; ATTEMPTS_MAX as usize - 1]);
        assert_eq!(waits(&Failure::new("no such host"), &Budget::default(), 1.0).len(), 3);
        assert_eq!(waits(&Failure::odd("nonsense"), &reached(), 1.0).len(), 3);
    }

    #[test]
    fn a_store_that_asks_for_time_is_given_it_within_patience() {
        let busy = |seconds| Failure { asked: Some(Duration::from_secs(seconds)), ..Failure::new("503") };
        let asked = waits(&busy(50), &reached(), 0.5);
        assert_eq!(asked.iter().map(Duration::as_millis).collect::<Vec<_>>(), [50_050, 50_100, 50_200]);
        assert_eq!(waits(&busy(181), &reached(), 0.0), []);
    }

    #[test]
    fn readers_share_the_retries_of_a_store() {
        let (budget, now) = (reached(), Instant::now());
        let mut last = Duration::ZERO;
        for n in 0..132 {
            last = Attempts::new(now).failed(&Failure::new("503"), now, 0.0, &POLICY, &budget).expect("in patience");
            assert_eq!(last.is_zero(), n < BUDGET_BURST, "retry {n}");
        }
        assert_eq!(last, BUDGET_EVERY * 100);
        let later = now + Duration::from_secs(60);
        assert_eq!(budget.take(later), Duration::ZERO);
    }

    #[test]
    fn progress_starts_the_count_anew_and_settings_are_checked() {
        let (budget, mut now) = (reached(), Instant::now());
        let mut attempts = Attempts::new(now);
        for _ in 0..100 {
            now += Duration::from_secs(100);
            attempts.progressed(now);
            assert!(attempts.failed(&Failure::new("reset"), now, 1.0, &POLICY, &budget).is_some());
        }
        let of = |text: &'static str| Policy::from_settings(move |_| Some(text.to_owned()));
        assert_eq!(of("0.5").expect("seconds").stall, Duration::from_millis(500));
        for wrong in ["", "soon", "-1", "nan", "1e9"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Policy::from_settings(|_| None).expect("defaults"), POLICY);
    }
}

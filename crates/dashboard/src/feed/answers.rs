//! Keeps answers of the dispatcher for a short time. Callers that ask the same question at once wait for one call.
//!
//! Bounds: [`ANSWERS_MAX`] answers; a further answer replaces the expired ones. An answer is used for [`COST_FACTOR`]
//! times as long as its call took, but for at least [`AGE_MIN`] and at most [`AGE_MAX`]. So the calls for one caller
//! take at most one hundredth of the dispatcher's time. A call ends after [`CALL_MAX`].

#![expect(clippy::disallowed_methods, reason = "answers have an age, and calls a deadline")]

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use tokio::sync::Mutex;

/// The most kept answers.
const ANSWERS_MAX: usize = 256;
const AGE_MIN: Duration = Duration::from_secs(1);
const AGE_MAX: Duration = Duration::from_secs(30);
const COST_FACTOR: u32 = 100;
/// The time limit of a call.
const CALL_MAX: Duration = Duration::from_secs(10);

/// One answer, and when it expires. The call that requests it holds the lock.
type Slot<T> = Arc<Mutex<Option<(Instant, Result<Arc<T>>)>>>;

/// The answers to questions of one kind.
pub(crate) struct Answers<K, T> {
    slots: StdMutex<HashMap<K, Slot<T>>>,
}

impl<K, T> Default for Answers<K, T> {
    fn default() -> Self {
        Self { slots: StdMutex::default() }
    }
}

impl<K: Eq + Hash, T> Answers<K, T> {
    /// Returns a recent answer, or the result of `ask`.
    ///
    /// # Errors
    /// Any error of `ask`; Unavailable when it takes too long; Exhausted when too many different callers ask at once.
    pub(crate) async fn get(&self, key: K, ask: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let slot = self.slot(key)?;
        let mut kept = slot.lock().await;
        let now = Instant::now();
        if let Some((until, answer)) = &*kept
            && now < *until
        {
            return answer.clone();
        }
        let late = |_| Err(Error::unavailable(format!("the dispatcher did not answer within {CALL_MAX:?}")));
        let answer = tokio::time::timeout(CALL_MAX, ask).await.unwrap_or_else(late).map(Arc::new);
        let age = (now.elapsed() * COST_FACTOR).clamp(AGE_MIN, AGE_MAX);
        // Another dispatcher may lead soon, so a failed call is repeated after the shortest time.
        let age = if answer.is_ok() { age } else { AGE_MIN };
        *kept = Some((Instant::now() + age, answer.clone()));
        answer
    }

    fn slot(&self, key: K) -> Result<Slot<T>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= ANSWERS_MAX && !slots.contains_key(&key) {
            let now = Instant::now();
            // A slot that is locked is in use.
            slots.retain(|_, slot| slot.try_lock().map_or(true, |kept| kept.as_ref().is_some_and(|(t, _)| *t > now)));
            if slots.len() >= ANSWERS_MAX {
                let message = format!("{ANSWERS_MAX} callers and jobs are shown at once, the most of a dashboard");
                return Err(Error::new(ErrorKind::Exhausted, message).hint("close some pages, or try again"));
            }
        }
        Ok(slots.entry(key).or_default().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test(flavor = "current_thread")]
    async fn five_hundred_pages_make_one_call_and_the_number_of_answers_is_bounded() -> Result<()> {
        let (answers, calls) = (Answers::<usize, usize>::default(), AtomicUsize::new(0));
        let ask = || async {
            tokio::task::yield_now().await;
            Ok(calls.fetch_add(1, Relaxed))
        };
        let pages = futures::future::join_all((0..500).map(|_| answers.get(7, ask()))).await;
        assert!(pages.into_iter().all(|answer| answer.is_ok_and(|answer| *answer == 0)));
        assert_eq!(calls.load(Relaxed), 1);
        for key in 0..ANSWERS_MAX {
            answers.get(key, ask()).await?;
        }
        let error = answers.get(ANSWERS_MAX, ask()).await.expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        Ok(())
    }
}

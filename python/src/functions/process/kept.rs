//! Function processes that wait for the next iterator over the same functions, so that not every epoch starts new ones.
//!
//! A process is kept for iterators of the same functions, interpreter, module path, environment and folder, for
//! [`IDLE_DEFAULT`] (or `FOREBAY_FUNCTION_IDLE` seconds; 0 keeps none). A forked process leaves these alone, because
//! they belong to its parent.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_plan::BlobId;

use super::child::{Child, Python};
use crate::functions::lock;

/// How long a process may wait.
const IDLE_DEFAULT: Duration = Duration::from_secs(60);

/// The properties that a process must share with an iterator that takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) python: Python,
    /// The functions and objects of the pipeline.
    pub(super) objects: Vec<BlobId>,
}

struct Kept {
    key: Key,
    child: Child,
    since: Instant,
    idle: Duration,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// The process that keeps them.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn is_owner() -> bool {
    let me = std::process::id();
    OWNER.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).map_or_else(|owner| owner == me, |_| true)
}

/// Returns the most processes to keep: those of two alternating iterators.
fn kept_max() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn idle_time(python: &Python) -> Duration {
    let said = python.environment.iter().find(|(name, _)| name == "FOREBAY_FUNCTION_IDLE");
    let seconds = said.and_then(|(_, seconds)| seconds.to_str()?.trim().parse::<f64>().ok());
    seconds.map_or(IDLE_DEFAULT, |s| Duration::try_from_secs_f64(s).unwrap_or(IDLE_DEFAULT))
}

/// Takes a process, if one waits.
pub(super) fn take(key: &Key) -> Option<Child> {
    if !is_owner() {
        return None;
    }
    let mut kept = lock(&KEPT);
    let place = kept.iter().rposition(|k| k.key == *key)?;
    Some(kept.remove(place).child)
}

/// Keeps a process, or ends it.
pub(super) fn give(key: &Key, child: Child) {
    let idle = idle_time(&key.python);
    if idle.is_zero() || !is_owner() {
        return;
    }
    let mut kept = lock(&KEPT);
    let looks = !kept.is_empty();
    kept.push(Kept { key: key.clone(), child, since: Instant::now(), idle });
    let oldest = (kept.len() > kept_max()).then(|| kept.remove(0));
    drop(kept);
    drop(oldest);
    if !looks && std::thread::Builder::new().name("forebay-idle".to_owned()).spawn(end_idle).is_err() {
        clear();
    }
}

/// Ends all waiting processes.
pub(crate) fn clear() {
    if is_owner() {
        let kept = std::mem::take(&mut *lock(&KEPT));
        drop(kept);
    }
}

/// Ends processes whose time is over, until none waits.
fn end_idle() {
    loop {
        let (over, next) = {
            let mut kept = lock(&KEPT);
            let over: Vec<_> = kept.extract_if(.., |k| k.since.elapsed() >= k.idle).collect();
            (over, kept.iter().map(|k| k.idle.saturating_sub(k.since.elapsed())).min())
        };
        drop(over);
        let Some(next) = next else { return };
        std::thread::sleep(next.clamp(Duration::from_millis(10), Duration::from_secs(1)));
    }
}

//! Whether a thread computes or waits, as another thread of its process sees it.
//!
//! The processor time of the thread, and of the process that computes for it meanwhile (see [`helped_by`]), as the kernel counts them.
//! Nothing of it reaches a row: it says who may compute beside a thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// What a tick of the kernel's accounts takes: a hundredth of a second, wherever there is a `/proc`.
const TICK: Duration = Duration::from_millis(10);

thread_local! {
    /// The process that computes for this thread; 0 is none.
    static HELPER: Arc<AtomicU32> = Arc::default();
}

/// The processor time of one thread. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processor {
    /// Where the kernel says it.
    accounts: Option<Arc<Path>>,
    helper: Arc<AtomicU32>,
}

impl Processor {
    /// Returns that of the thread that calls.
    pub fn of_this_thread() -> Self {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let accounts = thread.map(|thread| Path::new("/proc").join(thread).join("stat").into());
        Self { accounts, helper: HELPER.with(Arc::clone) }
    }

    /// Returns what it has used; `None` where the kernel does not say, or the thread has ended. With another process that helps, it
    /// may be less than before.
    pub fn used(&self) -> Option<Duration> {
        let own = used(self.accounts.as_deref()?)?;
        let helper = Some(self.helper.load(Relaxed)).filter(|pid| *pid > 0);
        let its = helper.and_then(|pid| used(&PathBuf::from(format!("/proc/{pid}/stat"))));
        Some(own + its.unwrap_or_default())
    }
}

/// While this lives, a process computes for the thread that has called [`helped_by`].
#[derive(Debug)]
pub struct Helped(Arc<AtomicU32>);

impl Drop for Helped {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

/// Says that a process computes for this thread, which waits for it.
pub fn helped_by(pid: u32) -> Helped {
    let helper = HELPER.with(Arc::clone);
    helper.store(pid, Relaxed);
    Helped(helper)
}

/// Reads a `stat` of the kernel: behind the name, which may hold anything, the 12th and 13th field are what was used.
fn used(path: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11).take(2);
    let ticks: Vec<u32> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    match ticks[..] {
        [user, system] => Some(TICK * user.saturating_add(system)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    /// Waits until it was used more than `than`.
    fn computes(processor: &Processor, than: Duration) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while processor.used().expect("known") <= than {
            assert!(Instant::now() < deadline, "it is not seen to compute");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_is_seen_to_compute_and_one_that_waits_is_not() {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(Processor::of_this_thread()).expect("somebody waits");
            ended.recv()
        });
        let waits = told.recv().expect("it begins");
        let before = waits.used().expect("known");
        let own = Processor::of_this_thread();
        computes(&own, own.used().expect("known") + TICK * 5);
        assert!(waits.used().expect("known") < before + TICK * 3, "it waits");
        drop(end);
        let _ = thread.join().expect("no panic");
        assert_eq!(waits.used(), None, "it has ended");
    }

    #[test]
    fn what_a_process_uses_that_computes_for_a_thread_is_the_threads() {
        let mut loops = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("starts");
        let own = Processor::of_this_thread();
        let helped = helped_by(loops.id());
        computes(&own, own.used().expect("known") + Duration::from_millis(100));
        loops.kill().expect("it runs");
        loops.wait().expect("it ends");
        drop(helped);
        assert_eq!(own.helper.load(Relaxed), 0);
    }
}

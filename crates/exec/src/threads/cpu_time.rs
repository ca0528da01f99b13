//! The processor time of a thread, by which another thread of its process sees whether it computes or waits.
//!
//! The kernel counts the time of the thread, and of the process that computes for it (see [`count_helper`]). It reaches
//! no row: it decides which other threads may compute.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A tick of the kernel's accounts: a hundredth of a second on every system with a `/proc`.
const TICK: Duration = Duration::from_millis(10);

thread_local! {
    /// The process that computes for this thread; 0 means none.
    static HELPER: Arc<AtomicU32> = Arc::default();
}

/// The processor time of one thread. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ThreadCpuTime {
    /// The file in which the kernel reports it.
    accounts: Option<Arc<Path>>,
    helper: Arc<AtomicU32>,
}

impl ThreadCpuTime {
    /// Returns the processor time of the calling thread.
    pub fn of_this_thread() -> Self {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let accounts = thread.map(|thread| Path::new("/proc").join(thread).join("stat").into());
        Self { accounts, helper: HELPER.with(Arc::clone) }
    }

    /// Returns the time that it has used; `None` where the kernel does not report it, or the thread has ended. It may
    /// decrease when the helper process changes.
    pub fn used(&self) -> Option<Duration> {
        let own = used(self.accounts.as_deref()?)?;
        let helper = Some(self.helper.load(Relaxed)).filter(|pid| *pid > 0);
        let its = helper.and_then(|pid| used(&PathBuf::from(format!("/proc/{pid}/stat"))));
        Some(own + its.unwrap_or_default())
    }
}

/// Counts the time of a helper process until it is dropped: see [`count_helper`].
#[derive(Debug)]
pub struct HelperGuard(Arc<AtomicU32>);

impl Drop for HelperGuard {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

/// Counts the time of a process as that of this thread, which waits for it.
pub fn count_helper(pid: u32) -> HelperGuard {
    let helper = HELPER.with(Arc::clone);
    helper.store(pid, Relaxed);
    HelperGuard(helper)
}

/// Reads a `stat` file of the kernel: the 12th and 13th field after the name (arbitrary text) are the used time.
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
#[expect(clippy::disallowed_methods, reason = "tests poll the time of a thread")]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    /// Waits until the used time is more than `than`.
    fn computes(processor: &ThreadCpuTime, than: Duration) {
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
            tell.send(ThreadCpuTime::of_this_thread()).expect("the receiver waits");
            ended.recv()
        });
        let waits = told.recv().expect("it begins");
        let before = waits.used().expect("known");
        let own = ThreadCpuTime::of_this_thread();
        computes(&own, own.used().expect("known") + TICK * 5);
        assert!(waits.used().expect("known") < before + TICK * 3, "it waits");
        drop(end);
        let _ = thread.join().expect("no panic");
        assert_eq!(waits.used(), None, "it has ended");
    }

    #[test]
    fn the_time_of_a_helper_process_counts_as_that_of_its_thread() {
        let mut loops = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("starts");
        let own = ThreadCpuTime::of_this_thread();
        let helped = count_helper(loops.id());
        computes(&own, own.used().expect("known") + Duration::from_millis(100));
        loops.kill().expect("it runs");
        loops.wait().expect("it ends");
        drop(helped);
        assert_eq!(own.helper.load(Relaxed), 0);
    }
}

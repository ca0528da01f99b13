//! Makes a local worker yield to the trainer on its machine.
//!
//! Its compute threads run when no other thread wants the core (`SCHED_IDLE`), and so do the processes that they start
//! for users' functions. The threads that answer the dispatcher and the consumer use little, and only have a lower
//! priority (nice 19), so that a busy trainer does not make the worker look dead. If memory runs out, the kernel ends
//! the worker before the trainer. It ends with its parent. Nothing here fails: a system that does not allow a call only
//! costs speed.

use std::fs;

use rustix::process::{Signal, set_parent_process_death_signal, setpriority_process};

/// The lowest priority that is not idle.
const NICE: i32 = 19;
/// Between a trainer (0) and the processes of users' functions (900), of 1000.
const OOM_SCORE: &str = "800";

/// Sets the priorities of the whole process. Must be called before it has other threads: they inherit them.
pub(crate) fn step_back() {
    // Errors are ignored: stdin also notices the parent's end; priorities can always be lowered; a system without /proc
    // has other problems than memory.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let _ = setpriority_process(None, NICE);
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// Gives the calling thread, and the threads that it starts, the idle priority.
pub(crate) fn give_way() {
    let idle = libc::sched_param { sched_priority: 0 };
    // SAFETY: the thread's own policy (0 is the caller), read from a struct that lives for the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) } != 0 {
        let _ = setpriority_process(None, NICE);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has a thread of its own")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_way_is_idle_and_others_are_not() {
        // SAFETY: takes no memory.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let own = std::thread::spawn(move || {
            give_way();
            policy()
        });
        assert_eq!(own.join().expect("ended"), libc::SCHED_IDLE);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}

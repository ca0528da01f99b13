//! How long to wait for processes that start: as long as they live, within a bound.
//!
//! A machine that is busy starts a process slowly, mostly because of Python's imports, and that is no failure. After
//! [`Patience::usual`], a service begins with the workers that are there; without any, it waits until
//! [`Patience::most`].

use std::time::Duration;

/// The times for which the start of a service waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// After this time, some of the workers are enough.
    usual: Duration,
    /// After this time, a process that is not ready has failed.
    pub(crate) most: Duration,
}

/// The patience of every start.
pub(crate) const START: Patience = Patience { usual: Duration::from_secs(30), most: Duration::from_secs(120) };

/// The next step of a wait for workers that all live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wait,
    /// All that were started are there.
    All,
    /// Some are there; the others may come later.
    Some,
    /// None came in time.
    None,
}

impl Patience {
    /// Decides after a time; `ready` of the `started` workers are ready.
    pub(crate) fn verdict(self, waited: Duration, ready: usize, started: usize) -> Verdict {
        match ready {
            _ if ready >= started => Verdict::All,
            0 if waited >= self.most => Verdict::None,
            0 => Verdict::Wait,
            _ if waited >= self.usual => Verdict::Some,
            _ => Verdict::Wait,
        }
    }
}

/// Returns the load average of the last minute, and the cores, as a text; `None` if the system does not report them.
pub(crate) fn load() -> Option<String> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Some(format!("{} on {cores} cores", averages.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_is_no_failure_while_the_processes_live() {
        let after = |seconds, ready, started| START.verdict(Duration::from_secs(seconds), ready, started);
        assert_eq!([after(0, 2, 2), after(200, 2, 2), after(0, 0, 0)], [Verdict::All; 3]);
        assert_eq!([after(29, 1, 2), after(29, 0, 2), after(119, 0, 2)], [Verdict::Wait; 3]);
        assert_eq!(after(30, 1, 2), Verdict::Some, "the service begins with the workers that are registered");
        assert_eq!(after(120, 0, 2), Verdict::None);
    }
}

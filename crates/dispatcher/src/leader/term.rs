//! The right to lead, and until when it lasts, by this process's own monotonic clock.
//!
//! A dispatcher with its ledger in a file leads for as long as it lives. A dispatcher with its ledger in etcd leads
//! while its lease lasts.
//! Invariant: [`Term::holds`] becomes false before etcd can end the lease. Time is counted from before a renewal was
//! sent, and a tenth less than was granted, which is more than clocks differ by. So a process that was stopped or cut
//! off does nothing as a leader once it continues.
//!
//! If the clock itself stood still, as in a suspended virtual machine, fencing remains: etcd refuses writes of a leader
//! that was followed (see `store::etcd::ledger`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_core::{Clock, Ticks};
use tokio_util::sync::CancellationToken;

/// One term of a leader.
pub(crate) struct Term {
    clock: Arc<dyn Clock>,
    /// The etcd revision of its election.
    revision: i64,
    lease: i64,
    until: AtomicU64,
    over: CancellationToken,
}

impl Term {
    /// The term of a dispatcher without rivals.
    pub(crate) fn endless(clock: Arc<dyn Clock>) -> Self {
        let over = CancellationToken::new();
        Self { clock, revision: 0, lease: 0, until: AtomicU64::new(u64::MAX), over }
    }

    /// The term of a dispatcher that was elected at `revision`, with a lease that was requested at `asked`.
    pub(crate) fn new(clock: Arc<dyn Clock>, revision: i64, lease: i64, asked: Ticks, ttl: Duration) -> Self {
        let until = AtomicU64::new(end(asked, ttl));
        Self { clock, revision, lease, until, over: CancellationToken::new() }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn lease(&self) -> i64 {
        self.lease
    }

    /// Returns whether this process leads, now.
    pub(crate) fn holds(&self) -> bool {
        !self.over.is_cancelled() && self.clock.now().0 < self.until.load(Ordering::Acquire)
    }

    /// Extends the term: the lease was renewed by a request that was sent at `asked`. A term that is over stays over.
    pub(crate) fn renew(&self, asked: Ticks, ttl: Duration) {
        if self.holds() {
            self.until.fetch_max(end(asked, ttl), Ordering::AcqRel);
        }
    }

    /// Ends the term before its time.
    pub(crate) fn end(&self) {
        self.over.cancel();
    }

    /// Waits until [`Term::end`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }
}

fn end(asked: Ticks, ttl: Duration) -> u64 {
    (asked + ttl * 9 / 10).0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Ticks {
            Ticks(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_term_ends_before_its_lease_and_never_begins_again() {
        let clock = Arc::new(Hand(AtomicU64::new(1000)));
        let at = |now: u64| clock.0.store(now, Ordering::Relaxed);
        let term = Term::new(clock.clone(), 7, 8, Ticks(1000), Duration::from_secs(2));
        at(2799);
        assert!(term.holds());
        // Counted from the request, not from the answer.
        term.renew(Ticks(2000), Duration::from_secs(2));
        at(3799);
        assert!(term.holds());
        at(3800);
        assert!(!term.holds(), "etcd gives the lease up at 4000 at the earliest");
        term.renew(Ticks(3700), Duration::from_secs(2));
        assert!(!term.holds(), "an answer that comes too late renews nothing");
        let endless = Term::endless(clock.clone());
        at(u64::MAX - 1);
        assert!(endless.holds());
        endless.end();
        assert!(!endless.holds());
    }
}

//! Workers of one type: the ready ones, the starting ones, and the payment for all of them.
//!
//! Invariant: every requested worker comes or is taken back; all of them are paid from the request until they are gone.

/// Seconds until the dispatcher misses a lost worker.
const MISSED_AFTER: f64 = 5.0;

/// The workers at a moment.
#[derive(Debug)]
pub(super) struct Workers {
    /// Seconds from the request for a worker until it is ready.
    startup: f64,
    now: f64,
    ready: u32,
    /// The time at which each of the others will be ready, the earliest first.
    coming: Vec<f64>,
    /// Workers, times seconds.
    paid: f64,
    /// (when, how many are paid): each change.
    history: Vec<(f64, u32)>,
    lost: u64,
}

impl Workers {
    pub(super) fn new(startup: f64) -> Self {
        Self { startup, now: 0.0, ready: 0, coming: Vec::new(), paid: 0.0, history: vec![(0.0, 0)], lost: 0 }
    }

    pub(super) fn ready(&self) -> u32 {
        self.ready
    }

    /// Requests so many in all; returns the time at which the new ones will be ready, if there are any.
    pub(super) fn want(&mut self, now: f64, wanted: u32) -> Option<f64> {
        self.pass(now);
        let there = self.there();
        let more = wanted.saturating_sub(there);
        // The last to come are taken back first.
        let back = (there.saturating_sub(wanted) as usize).min(self.coming.len());
        self.coming.truncate(self.coming.len() - back);
        self.ready -= there.saturating_sub(wanted) - back as u32;
        let at = now + self.startup;
        if self.startup > 0.0 {
            self.add(at, more);
        } else {
            self.ready += more;
        }
        self.note();
        (more > 0 && self.startup > 0.0).then_some(at)
    }

    /// Counts the workers that are ready by now.
    pub(super) fn come(&mut self, now: f64) {
        self.pass(now);
        let due = self.coming.partition_point(|at| *at <= now);
        self.coming.drain(..due);
        self.ready += due as u32;
    }

    /// Loses one; returns the time at which its replacement will be ready.
    pub(super) fn lose(&mut self, now: f64) -> Option<f64> {
        self.pass(now);
        self.ready = self.ready.checked_sub(1)?;
        self.lost += 1;
        let at = now + MISSED_AFTER + self.startup;
        self.add(at, 1);
        Some(at)
    }

    /// Loses all of them, the starting ones too.
    pub(super) fn lose_all(&mut self, now: f64) {
        self.pass(now);
        self.lost += u64::from(self.ready);
        (self.ready, self.coming) = (0, Vec::new());
        self.note();
    }

    /// Returns the paid seconds of all, the number of losses, and the history of paid workers.
    pub(super) fn end(mut self, now: f64) -> (f64, u64, Vec<(f64, u32)>) {
        self.pass(now);
        (self.paid, self.lost, self.history)
    }

    fn add(&mut self, at: f64, count: u32) {
        let place = self.coming.partition_point(|other| *other <= at);
        self.coming.splice(place..place, std::iter::repeat_n(at, count as usize));
    }

    fn there(&self) -> u32 {
        self.ready + self.coming.len() as u32
    }

    fn pass(&mut self, now: f64) {
        self.paid += f64::from(self.there()) * (now - self.now);
        self.now = now;
    }

    fn note(&mut self) {
        let there = self.there();
        match self.history.last_mut() {
            Some((_, last)) if *last == there => {}
            Some((at, last)) if *at == self.now => *last = there,
            _ => self.history.push((self.now, there)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_paid_from_when_they_are_asked_for() {
        let mut workers = Workers::new(10.0);
        assert_eq!(workers.want(0.0, 3), Some(10.0));
        assert_eq!(workers.want(4.0, 5), Some(14.0));
        assert_eq!(workers.want(6.0, 4), None, "the last to come is taken back");
        workers.come(10.0);
        assert_eq!(workers.ready(), 3);
        assert_eq!(workers.lose(12.0), Some(27.0));
        workers.come(14.0);
        assert_eq!(workers.ready(), 3);
        assert_eq!(workers.want(20.0, 1), None);
        assert_eq!(workers.ready(), 1);
        let (paid, lost, history) = workers.end(30.0);
        assert_eq!((paid, lost), (3.0 * 4.0 + 5.0 * 2.0 + 4.0 * 14.0 + 10.0, 1));
        assert_eq!(history, [(0.0, 3), (4.0, 5), (6.0, 4), (20.0, 1)]);
    }
}

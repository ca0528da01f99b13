//! Measures a consumer's time since the last heartbeat: waiting for the service, or not.
//!
//! The other time is the trainer's step and the work of this process for a batch; more workers shorten neither. Pure:
//! time is an argument. Invariants: every millisecond is counted once; one wait may span several heartbeats.

use std::time::Duration;

use forebay_core::Ticks;
use forebay_proto::ConsumerHeartbeat;

#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// All time before this is counted.
    since: Ticks,
    is_waiting: bool,
    waited: Duration,
    stepped: Duration,
    batches: u64,
    rows: u64,
    received: u64,
    receive_ns: u64,
    bytes: u64,
    /// When the current wait began, if the consumer waits.
    wait_began: Ticks,
}

impl Meter {
    pub(crate) fn new(now: Ticks) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Notes that the trainer begins to wait, or stops waiting.
    pub(crate) fn set_waiting(&mut self, now: Ticks, is_waiting: bool) {
        let went = now - std::mem::replace(&mut self.since, now);
        *(if self.is_waiting { &mut self.waited } else { &mut self.stepped }) += went;
        if !std::mem::replace(&mut self.is_waiting, is_waiting) {
            self.wait_began = now;
        }
    }

    /// Counts a merged chunk of `rows` rows and `bytes` bytes.
    pub(crate) fn merge(&mut self, rows: usize, bytes: usize) {
        (self.rows, self.bytes) = (self.rows + rows as u64, self.bytes + bytes as u64);
    }

    /// Counts `bytes` of a chunk from the network, which took `nanos` of CPU time.
    pub(crate) fn receive(&mut self, bytes: usize, nanos: u64) {
        (self.received, self.receive_ns) = (self.received + bytes as u64, self.receive_ns + nanos);
    }

    /// Counts a delivered batch.
    pub(crate) fn deliver(&mut self) {
        self.batches += 1;
    }

    /// Returns the figures since the last heartbeat; `ahead` is the number of complete splits that wait.
    pub(crate) fn take_heartbeat(&mut self, now: Ticks, ahead: usize) -> ConsumerHeartbeat {
        self.set_waiting(now, self.is_waiting);
        let Self { since, is_waiting, waited, stepped, batches, rows, received, receive_ns, bytes, wait_began } = *self;
        *self = Self { is_waiting, wait_began, ..Self::new(since) };
        ConsumerHeartbeat {
            batch_wait_ms: waited.as_millis() as u64,
            step_ms: stepped.as_millis() as u64,
            batches,
            rows,
            ahead: ahead as u64,
            spare: None,
            ops: Vec::new(),
            received_bytes: received,
            receive_ns,
            bytes,
            waiting_ms: if is_waiting { (now - wait_began).as_millis() as u64 } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_millisecond_is_counted_once_and_a_wait_spans_heartbeats() {
        let mut meter = Meter::new(Ticks(100));
        meter.set_waiting(Ticks(130), true);
        meter.merge(7, 56);
        meter.set_waiting(Ticks(150), false);
        meter.deliver();
        meter.set_waiting(Ticks(151), true);
        meter.receive(1000, 70);
        meter.receive(24, 7);
        let heartbeat = |waited, stepped, batches, rows, ahead, waiting_ms| ConsumerHeartbeat {
            batch_wait_ms: waited,
            step_ms: stepped,
            batches,
            rows,
            bytes: rows * 8,
            ahead,
            waiting_ms,
            received_bytes: if rows == 7 { 1024 } else { 0 },
            receive_ns: if rows == 7 { 77 } else { 0 },
            ..ConsumerHeartbeat::default()
        };
        assert_eq!(meter.take_heartbeat(Ticks(600), 3), heartbeat(469, 31, 1, 7, 3, 449));
        assert_eq!(meter.take_heartbeat(Ticks(1100), 0), heartbeat(500, 0, 0, 0, 0, 949));
        meter.set_waiting(Ticks(1200), false);
        assert_eq!(meter.take_heartbeat(Ticks(1600), 0), heartbeat(100, 400, 0, 0, 0, 0));
        meter.set_waiting(Ticks(1700), true);
        assert_eq!(meter.take_heartbeat(Ticks(1800), 0), heartbeat(100, 100, 0, 0, 0, 100));
    }
}

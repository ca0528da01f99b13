//! Effects of time alone: silent workers and consumers are noticed, late splits get backups.

use std::time::Duration;

use forebay_core::{Error, Ticks};

use crate::state::effect::Effect;
use crate::state::leases::machine::Leases;

/// Ticks come every 50 ms. A gap of this length means that this process was stopped, not that all others were silent.
const STALL: Duration = Duration::from_millis(500);
/// How often the dispatcher looks for late splits, and for splits that wait while workers are idle.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Leases {
    /// Begins a tick, before any policy runs. Returns whether this process was stopped for a while.
    pub(in crate::state) fn begin_tick(&mut self, now: Ticks, out: &mut Vec<Effect>) -> bool {
        let gap = now - self.clock.ticked;
        self.clock.ticked = now;
        let was_stopped = gap >= STALL;
        if was_stopped {
            self.forgive(now, gap);
        }
        if now - self.clock.speculated >= LOOK_EVERY {
            self.clock.speculated = now;
            self.speculate(now, out);
            self.rebalance(now, out);
            self.changed |= self.make_way(now, out);
        }
        was_stopped
    }

    /// Ends a tick: notices silent processes.
    pub(in crate::state) fn end_tick(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if now >= self.clock.expiry {
            self.tick_workers(now, out);
        }
        self.convict(now, out);
        self.tick_consumers(now, out);
        self.drop_inactive();
    }

    /// Ten thousand workers are not scanned before one of them may be lost.
    fn tick_workers(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let lease = self.timing.lease;
        let lost: Vec<_> = self.workers.iter().filter(|(_, w)| now >= w.expiry(lease)).map(|(id, _)| *id).collect();
        for id in lost {
            self.lose_worker(now, id, out);
        }
        self.clock.expiry = self.workers.values().map(|w| w.expiry(lease)).min().unwrap_or(Ticks(u64::MAX));
    }

    fn tick_consumers(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let timeout = self.timing.consumer_timeout;
        let keys: Vec<_> = self.active.iter().copied().collect();
        for key in keys {
            let Some(consumer) = self.consumer_mut(key) else { continue };
            match consumer.attached {
                Some(attached) if now - attached.heard >= timeout => {
                    let silent = (now - attached.heard).as_secs_f64();
                    self.end_consumer(
                        now,
                        key,
                        Error::unavailable(format!("this consumer was silent for {silent:.1} s")),
                        out,
                    );
                }
                None if !consumer.leases().is_empty() && now - consumer.gone >= timeout => {
                    // The workers' room goes to other jobs. A consumer that returns gets its splits granted again.
                    let dropped = consumer.release_everything();
                    self.revoke_all(key, dropped, out);
                }
                _ => {}
            }
        }
    }

    /// The dispatcher's process was stopped for a while and received no message, so it adds that time to every deadline
    /// of a worker or consumer. A message that came after the stop needs no correction.
    fn forgive(&mut self, now: Ticks, gap: Duration) {
        for worker in self.workers.values_mut() {
            (worker.heard, worker.until) = ((worker.heard + gap).min(now), worker.until + gap);
            worker.begun.values_mut().for_each(|begun| *begun = (*begun + gap).min(now));
        }
        for consumer in self.jobs.values_mut().flat_map(|j| &mut j.consumers) {
            consumer.gone = (consumer.gone + gap).min(now);
            for death in consumer.trouble.values_mut().flat_map(|t| &mut t.deaths) {
                death.at = (death.at + gap).min(now);
            }
            if let Some(attached) = &mut consumer.attached {
                attached.heard = (attached.heard + gap).min(now);
            }
        }
    }
}

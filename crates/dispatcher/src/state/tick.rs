//! What time alone causes: silent workers and consumers are noticed, late splits get backups, the policy runs.

use std::time::Duration;

use forebay_core::{Error, Ticks};
use forebay_policy::scaling::window;

use super::{Effect, State};

/// Ticks come every 50 ms. A gap of this length means that this process was stopped, not that everyone else was silent.
const STALL: Duration = Duration::from_millis(500);
/// How often late splits, and splits that wait while workers are idle, are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl State {
    pub(super) fn tick(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let gap = now - self.ticked;
        self.ticked = now;
        if gap >= STALL {
            self.forgive(now, gap);
        }
        if now - self.speculated >= LOOK_EVERY {
            self.speculated = now;
            self.speculate(now, out);
            self.rebalance(now, out);
        }
        if now - self.scaled >= window::LOOK_EVERY {
            self.scaled = now;
            self.scale(now, out);
            self.tick_fleet(now);
            self.charge_idle(now);
            self.profiles.write(now, out);
            self.retire(now, out);
        }
        if now >= self.expiry {
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
        self.expiry = self.workers.values().map(|w| w.expiry(lease)).min().unwrap_or(Ticks(u64::MAX));
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

    /// This process was stopped for a while and could hear nobody, so it counts nobody as silent. What it heard since
    /// then needs no correction.
    fn forgive(&mut self, now: Ticks, gap: Duration) {
        for worker in self.workers.values_mut() {
            (worker.heard, worker.until) = ((worker.heard + gap).min(now), worker.until + gap);
            worker.begun.values_mut().for_each(|begun| *begun = (*begun + gap).min(now));
        }
        let spent = self.spent_us;
        self.jobs.values_mut().for_each(|job| job.load.restart(now, spent));
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

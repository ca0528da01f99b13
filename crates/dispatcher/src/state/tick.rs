//! What time alone brings about: silent workers, readers that do not come back, splits that are late, numbers of workers.

use std::time::Duration;

use forebay_core::{Error, Ticks};
use forebay_policy::scaling::window;

use super::{Effect, State};

/// Ticks come every 50 ms. A gap as long as this means that this process stood still, not that everyone else did.
const STALL: Duration = Duration::from_millis(500);
/// How often it is looked for splits that are late, and for those that wait where others have nothing to do.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl State {
    pub(super) fn tick(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let gap = now - self.ticked;
        self.ticked = now;
        if gap >= STALL {
            self.forgive(now, gap);
        }
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
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

    /// Ten thousand workers are not looked through before one of them may be lost.
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
                        Error::unavailable(format!("this reader was silent for {silent:.1} s")),
                        out,
                    );
                }
                None if !consumer.leases().is_empty() && now - consumer.gone >= timeout => {
                    // The workers' room goes to other jobs. When the reader returns, it is granted them again.
                    let dropped = consumer.release_everything();
                    self.revoke_all(key, dropped, out);
                }
                _ => {}
            }
        }
    }

    /// This process was stopped for a while: nobody could make itself heard, so nobody was silent. What was heard since
    /// it goes on needs no forgiving.
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

//! The state after a restart: the contents of the ledger, and no sessions.
//!
//! Workers may still hold their leases and consumers may still fetch from them, so leases stay until the workers had
//! time to say hello. Backup leases are gone: they were an optimisation.

use forebay_core::{Error, Result, Ticks};

use crate::options::Timing;
use crate::records::{JobRecord, Ledger, Update};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::Holder;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

impl Leases {
    /// Returns the leases that a ledger describes; `splits` returns how many splits an epoch of each consumer has.
    /// `out` receives corrections of the ledger.
    ///
    /// # Errors
    /// The error of `splits`, with the job's name.
    pub(in crate::state) fn recover(
        timing: Timing,
        now: Ticks,
        ledger: &Ledger,
        splits: impl Fn(&JobRecord) -> Result<Vec<Option<u64>>>,
        out: &mut Vec<Effect>,
    ) -> Result<Self> {
        let mut leases = Self::new(timing, now);
        leases.next_token = ledger.next_token.max(1);
        leases.next_job = ledger.next_job.max(1);
        for record in ledger.jobs.values() {
            let unreadable =
                |e: Error| e.with("job", &record.name).hint("the job was written by another version of forebay");
            leases.add(now, record.clone(), &splits(record).map_err(unreadable)?);
        }
        for (key, frontier) in &ledger.frontiers {
            let moved = leases.consumer_mut(*key).map(|c| c.check(*frontier).map(|p| c.move_to(p)));
            moved.transpose()?;
        }
        for (skipped, error) in &ledger.skipped {
            leases.add_skipped(*skipped, error.clone());
        }
        let until = now + timing.lease + timing.heartbeat;
        for (key, grant) in &ledger.grants {
            let holder = Holder { token: grant.token, worker: grant.worker };
            leases.next_token = leases.next_token.max(grant.token + 1);
            match leases.consumer_mut(key.0) {
                Some(consumer) if key.1 >= consumer.frontier() => {
                    consumer.lease(key.1, holder);
                    leases.active.insert(key.0);
                }
                _ => {
                    out.push(Effect::Remember(Update::Released(*key)));
                    continue;
                }
            }
            let absent = || Worker::absent(grant.address.clone(), now, until);
            leases.workers.entry(grant.worker).or_insert_with(absent).leases.insert(grant.token, *key);
        }
        Ok(leases)
    }
}

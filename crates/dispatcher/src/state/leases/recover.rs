//! The state after a restart: what the ledger holds, and no sessions.
//!
//! Workers may still hold their leases and consumers may still fetch from them, so leases stay until the workers had
//! time to say hello. Backup leases are gone: they were an optimisation.

use std::collections::HashMap;

use forebay_core::{Error, Result, Ticks};

use super::consumer::Holder;
use super::worker::Worker;
use crate::options::{Retention, Scaling, Timing};
use crate::records::{JobRecord, Ledger, Update};
use crate::state::counts::Counts;
use crate::state::fleet::mix::Fleet;
use crate::state::load::dataset_profile::DatasetProfiles;
use crate::state::{Effect, State};

impl State {
    /// Returns the state that a ledger describes; `splits` returns how many splits an epoch of each consumer has. `out`
    /// receives corrections of the ledger.
    ///
    /// # Errors
    /// The error of `splits`, with the job's name.
    pub(crate) fn recover(
        timing: Timing,
        now: Ticks,
        ledger: &Ledger,
        splits: impl Fn(&JobRecord) -> Result<Vec<Option<u64>>>,
        out: &mut Vec<Effect>,
    ) -> Result<Self> {
        let mut state = Self {
            timing,
            scaling: Scaling::default(),
            fleet: Fleet::default(),
            retention: Retention::default(),
            jobs: Default::default(),
            names: HashMap::new(),
            sharing: Default::default(),
            workers: Default::default(),
            caching_workers: Default::default(),
            secret: None,
            consumer_sessions: HashMap::new(),
            active: Default::default(),
            worker_sessions: HashMap::new(),
            // 0 means "no token" in a message.
            next_token: ledger.next_token.max(1),
            next_job: ledger.next_job.max(1),
            ticked: now,
            speculated: now,
            has_newcomer: false,
            newcomer_rebalanced: now,
            scaled: now,
            spent_us: 0,
            profiles: DatasetProfiles::recover(ledger),
            expiry: now,
            changed: true,
            counts: Counts::default(),
        };
        for record in ledger.jobs.values() {
            let unreadable =
                |e: Error| e.with("job", &record.name).hint("the job was written by another version of forebay");
            state.add(now, record.clone(), &splits(record).map_err(unreadable)?);
        }
        for (key, frontier) in &ledger.frontiers {
            let moved = state.consumer_mut(*key).map(|c| c.check(*frontier).map(|p| c.move_to(p)));
            moved.transpose()?;
        }
        for (skipped, error) in &ledger.skipped {
            state.add_skipped(*skipped, error.clone());
        }
        let until = now + timing.lease + timing.heartbeat;
        for (key, grant) in &ledger.grants {
            let holder = Holder { token: grant.token, worker: grant.worker };
            state.next_token = state.next_token.max(grant.token + 1);
            match state.consumer_mut(key.0) {
                Some(consumer) if key.1 >= consumer.frontier() => {
                    consumer.lease(key.1, holder);
                    state.active.insert(key.0);
                }
                _ => {
                    out.push(Effect::Remember(Update::Released(*key)));
                    continue;
                }
            }
            let absent = || Worker::absent(grant.address.clone(), now, until);
            state.workers.entry(grant.worker).or_insert_with(absent).leases.insert(grant.token, *key);
        }
        Ok(state)
    }
}

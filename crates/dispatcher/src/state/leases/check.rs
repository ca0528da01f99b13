//! The checks of the invariants of leases, for production, tests and the simulation, and the ledger that they should
//! have written.

use std::collections::BTreeSet;

use forebay_core::{Error, Result, WorkerId};

use crate::records::{Grant, Ledger, Position};
use crate::state::leases::grants::trouble::Trouble;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

/// Beyond this many leases the check is skipped: it would take longer than a peer should wait.
const CHECKED_MAX: usize = 4096;

impl Leases {
    /// Checks the invariants of the module's documentation, if at most [`CHECKED_MAX`] splits are leased.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(in crate::state) fn check(&self) -> Result<()> {
        let held: usize = self.workers.values().map(|w| w.leases.len()).sum();
        if held > CHECKED_MAX {
            return Ok(());
        }
        let unnoticed = self.workers.values().find(|w| w.expiry(self.timing.lease) < self.clock.expiry);
        ensure(unnoticed.is_none(), || {
            format!(
                "SP-8: the next look for lost workers is after the lease of the worker at {:?} ends",
                unnoticed.map(|w| &w.address)
            )
        })?;
        let mut tokens = BTreeSet::new();
        for (key, consumer) in self.active_consumers() {
            let backups = consumer.backups().iter();
            for (position, second) in backups.clone() {
                let first = consumer.leases().get(position);
                ensure(first.is_some_and(|first| first.worker != second.worker), || {
                    format!("SP-1: split {position} of {key:?} is raced by one worker alone")
                })?;
            }
            for (position, holder) in consumer.leases().iter().chain(backups) {
                let token = holder.token;
                ensure(tokens.insert(token), || format!("SP-1: token {token} is current twice"))?;
                let known = self.workers.get(&holder.worker).and_then(|w| w.leases.get(&token));
                ensure(known == Some(&(key, *position)), || {
                    format!(
                        "SP-1: split {position} of {key:?} is held under token {token}, which its worker does not know"
                    )
                })?;
                ensure(token < self.next_token, || format!("SP-2: token {token} comes after {}", self.next_token))?;
                let frontier = consumer.frontier();
                ensure(*position >= frontier, || {
                    format!("SP-3: {position} is leased, and {frontier} is the frontier")
                })?;
                let inside = consumer.attached.is_none_or(|r| consumer.distance(*position) < u128::from(r.window));
                ensure(inside, || format!("SP-4: {position} is leased beyond the window from {frontier}"))?;
            }
        }
        ensure(held == tokens.len(), || "SP-1: a worker holds what no consumer leased".to_owned())?;
        let strays = |(id, w): (&WorkerId, &Worker)| {
            // A worker that did not say hello since a restart has not reported its tenant.
            w.session.and_then(|_| w.leases.values().find(|key| !self.may_hold(*id, key.0)).copied())
        };
        let stray = self.workers.iter().find_map(strays);
        ensure(stray.is_none(), || format!("SP-9: {stray:?} is held by another tenant's or another reader's worker"))
    }

    /// Checks SP-10, and SP-5 except for splits that wait for another worker. Of a job with strict hints, only the split
    /// that its consumer needs next may not wait. While there is a suspect, SP-5 is not checked: the suspect waits for a
    /// worker without other work, and that worker for it.
    ///
    /// # Errors
    /// Internal, naming a split that could be granted.
    pub(in crate::state) fn check_progress(&self) -> Result<()> {
        let unattended = self.consumers().find(|(key, consumer)| !consumer.is_inactive() && !self.active.contains(key));
        ensure(unattended.is_none(), || {
            format!("SP-10: consumer {:?} is missing from the set of active consumers", unattended.map(|(key, _)| key))
        })?;
        let suspects = || self.consumers().any(|(_, c)| c.trouble.values().any(Trouble::is_suspect));
        if suspects() {
            return Ok(());
        }
        for (key, consumer) in self.consumers().filter(|(_, c)| c.avoided.at(self.clock.ticked).next().is_none()) {
            let eligible = self.eligible_workers(key);
            if !self.workers.iter().any(|(id, w)| w.has_room() && eligible.has(*id, w)) {
                continue;
            }
            // A split that may end workers, or that failed, waits for another worker.
            let untroubled = |t: &Trouble| t.avoid.is_none() && t.deaths.is_empty();
            let waiting = consumer.free().find(|p| consumer.trouble.get(p).is_none_or(untroubled));
            let is_strict = self.affinity.is_strict(key.0);
            let waiting = waiting.filter(|p| !is_strict || consumer.needs_next(*p));
            ensure(waiting.is_none(), || format!("SP-5: {waiting:?} of {key:?} waits, and a worker has room"))?;
        }
        Ok(())
    }

    /// Returns the ledger that this machine should have written.
    pub(in crate::state) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { next_token: self.next_token, next_job: self.next_job, ..Ledger::default() };
        ledger.jobs = self.jobs.iter().map(|(id, job)| (*id, job.record.clone())).collect();
        for (key, consumer) in self.consumers() {
            if consumer.frontier() != Position::default() {
                ledger.frontiers.insert(key, consumer.frontier());
            }
            let skipped = consumer.skipped().iter();
            ledger.skipped.extend(skipped.map(|((p, sample, time), error)| ((key, *p, *sample, *time), error.clone())));
            for (position, holder) in consumer.leases() {
                let address = self.workers.get(&holder.worker).map(|w| w.address.clone()).unwrap_or_default();
                let grant = Grant { token: holder.token, worker: holder.worker, address };
                ledger.grants.insert((key, *position), grant);
            }
        }
        ledger
    }
}

/// Returns an error if an invariant does not hold.
pub(in crate::state) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::internal(what())) }
}

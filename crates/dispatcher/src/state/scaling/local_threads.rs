//! How many threads the local workers of a job's consumers have.
//!
//! The thread count is set by the user or, with `local="auto"`, by the scaling policy: for all consumers of a job
//! together, dealt by each host's spare capacity. Each consumer watches for a shortage itself, and may use fewer threads.

use std::collections::{BTreeMap, HashMap};

use forebay_policy::scaling::{Claim, share};
use forebay_proto::{ConsumerHeartbeat, Spare};

use crate::state::limits::MILLICORES_MAX;

/// How many threads a consumer's local worker should have.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct LocalThreads {
    /// The spare capacity of its host; `None` if the consumer requests no threads.
    spare: Option<Spare>,
    /// `None` before the first decision.
    wanted: Option<u32>,
}

impl LocalThreads {
    /// Accepts a heartbeat; returns the wanted threads. If no other worker computes for this consumer (`is_alone`), it
    /// does not wait for a decision.
    pub(in crate::state) fn take_heartbeat(&mut self, said: &ConsumerHeartbeat, is_alone: bool) -> u32 {
        let Some(spare) = said.spare.filter(|spare| spare.asks) else {
            *self = Self::default();
            return 0;
        };
        let [millicores, limit_millicores] =
            [spare.millicores, spare.limit_millicores].map(|of| of.min(MILLICORES_MAX));
        let spare = Spare { millicores, limit_millicores, ..spare };
        self.spare = Some(spare);
        let wanted = self.wanted.unwrap_or(spare.threads);
        if is_alone { wanted.max(spare.millicores.div_ceil(1000)) } else { wanted }
    }

    pub(in crate::state) fn is_asked_for(&self) -> bool {
        self.spare.is_some()
    }
}

/// Deals threads to the consumers that request some, by the spare capacity of each. Consumers on one host share that.
pub(in crate::state) fn deal(consumers: &mut BTreeMap<u32, LocalThreads>, threads: u32) {
    let asking = || consumers.values().filter_map(|local| local.spare);
    let mut per_host: HashMap<u64, u32> = HashMap::new();
    asking().filter(|spare| spare.machine != 0).for_each(|spare| *per_host.entry(spare.machine).or_default() += 1);
    let claim = |spare: Spare| {
        let sharing = per_host.get(&spare.machine).copied().unwrap_or(1);
        let wanted = spare.limit_millicores.div_ceil(1000).div_ceil(sharing);
        Claim { priority: 0, wanted, weight: f64::from(spare.millicores) / f64::from(sharing) }
    };
    let mut dealt = share(threads, &asking().map(claim).collect::<Vec<_>>()).into_iter();
    for local in consumers.values_mut().filter(|local| local.is_asked_for()) {
        local.wanted = dealt.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(millicores: u32, threads: u32) -> ConsumerHeartbeat {
        let spare = Spare { millicores, limit_millicores: 8000, threads, asks: true, ..Spare::default() };
        ConsumerHeartbeat { spare: Some(spare), ..ConsumerHeartbeat::default() }
    }

    #[test]
    fn before_the_first_decision_threads_stay_and_one_consumer_begins() {
        let mut local = LocalThreads::default();
        assert_eq!(local.take_heartbeat(&said(2500, 2), false), 2, "a dispatcher that restarted knows nothing");
        assert_eq!(local.take_heartbeat(&said(2500, 0), true), 3);
        local.wanted = Some(1);
        assert_eq!((local.take_heartbeat(&said(2500, 2), false), local.take_heartbeat(&said(500, 2), true)), (1, 1));
        assert_eq!(
            local.take_heartbeat(&said(u32::MAX, 2), true),
            MILLICORES_MAX.div_ceil(1000),
            "no machine has more"
        );
        let silent = Spare { asks: false, ..said(2500, 2).spare.expect("said") };
        for spare in [None, Some(silent)] {
            local.wanted = Some(1);
            let heartbeat = ConsumerHeartbeat { spare, ..ConsumerHeartbeat::default() };
            assert_eq!(
                (local.take_heartbeat(&heartbeat, true), local.is_asked_for()),
                (0, false),
                "who does not ask is told none"
            );
            assert_eq!(local.take_heartbeat(&said(2500, 2), false), 2, "and begins anew");
        }
    }
}

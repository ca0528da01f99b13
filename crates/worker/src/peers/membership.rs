//! The other workers that serve cached rows, as the dispatcher reports them, and the key that workers show each other.
//! No I/O.
//!
//! Invariant: before the dispatcher has reported a key, every worker is refused.

use std::sync::Mutex;

use forebay_proto::{JobKey, Peers as PeerReport};

use crate::lock::lock;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Membership(Mutex<Members>);

#[derive(Debug, Default)]
struct Members {
    addresses: Vec<String>,
    /// The current key, and the one before it: a dispatcher that takes over makes a new key.
    keys: Vec<Vec<u8>>,
}

impl Membership {
    pub(crate) fn update(&self, report: PeerReport) {
        let mut members = lock(&self.0);
        members.addresses = report.addresses;
        members.keys.retain(|key| *key != report.key);
        members.keys.insert(0, report.key);
        members.keys.truncate(2);
    }

    /// Returns whether this key proves a worker of this service.
    pub(crate) fn admits(&self, shown: &JobKey) -> bool {
        lock(&self.0).keys.iter().any(|key| shown.opens(key))
    }

    /// Returns the addresses of the peers, and the key to show them.
    pub(crate) fn current(&self) -> (Vec<String>, JobKey) {
        let members = lock(&self.0);
        (members.addresses.clone(), members.keys.first().map_or_else(JobKey::default, |key| JobKey::from_bytes(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_key_and_the_one_before_admit_and_without_a_key_none_is_admitted() {
        let membership = Membership::default();
        let keys = [1, 2, 3].map(|byte| JobKey::from_bytes(&[byte; 16]));
        let admitted = |membership: &Membership| keys.map(|key| membership.admits(&key));
        assert!(!membership.admits(&JobKey::default()) && admitted(&membership) == [false; 3]);
        for (told, after) in
            [(0, [true, false, false]), (0, [true, false, false]), (1, [true, true, false]), (2, [false, true, true])]
        {
            membership.update(PeerReport { addresses: Vec::new(), key: keys[told].to_vec() });
            assert_eq!(admitted(&membership), after);
        }
        membership.update(PeerReport::default());
        assert!(membership.admits(&JobKey::default()), "every peer is admitted where there are no tokens");
    }
}

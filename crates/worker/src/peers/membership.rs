//! Who the peers of a worker are, as the dispatcher says, and what workers show each other. No I/O.
//!
//! Invariant: nobody is one of us before the dispatcher has told who is.

use std::sync::Mutex;

use forebay_proto::{JobKey, Peers as Told};

use crate::lock::lock;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Membership(Mutex<Members>);

#[derive(Debug, Default)]
struct Members {
    addresses: Vec<String>,
    /// The key, once it is known, and the one before: a dispatcher that takes over makes another.
    keys: Vec<Vec<u8>>,
}

impl Membership {
    pub(crate) fn tell(&self, told: Told) {
        let mut members = lock(&self.0);
        members.addresses = told.addresses;
        members.keys.retain(|key| *key != told.key);
        members.keys.insert(0, told.key);
        members.keys.truncate(2);
    }

    /// Says whether somebody who shows this key is one of us. Nobody is before the dispatcher has told who is.
    pub(crate) fn admits(&self, shown: &JobKey) -> bool {
        lock(&self.0).keys.iter().any(|key| shown.opens(key))
    }

    /// Returns whom to ask, and what to show them.
    pub(crate) fn now(&self) -> (Vec<String>, JobKey) {
        let members = lock(&self.0);
        (members.addresses.clone(), members.keys.first().map_or_else(JobKey::default, |key| JobKey::from_bytes(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_the_key_or_the_one_before_is_one_of_us_and_nobody_is_before_there_is_one() {
        let membership = Membership::default();
        let keys = [1, 2, 3].map(|byte| JobKey::from_bytes(&[byte; 16]));
        let admitted = |membership: &Membership| keys.map(|key| membership.admits(&key));
        assert!(!membership.admits(&JobKey::default()) && admitted(&membership) == [false; 3]);
        for (told, after) in
            [(0, [true, false, false]), (0, [true, false, false]), (1, [true, true, false]), (2, [false, true, true])]
        {
            membership.tell(Told { addresses: Vec::new(), key: keys[told].to_vec() });
            assert_eq!(admitted(&membership), after);
        }
        membership.tell(Told::default());
        assert!(membership.admits(&JobKey::default()), "nobody is asked where there are no tokens");
    }
}

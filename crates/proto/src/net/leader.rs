//! The answer of a dispatcher that does not lead, and how the caller finds the leader.
//!
//! The answer is an Unavailable error whose context names the leader, if this dispatcher knows it. The call had no
//! effect, so the caller can repeat it at another dispatcher.

use forebay_core::Error;

use crate::net::address::Address;

/// The address of the leader; empty if there is none or it is unknown.
const LEADER: &str = "leader";

/// Returns the error of a dispatcher that does not lead. `leader` is the leader's address, "" if unknown.
pub fn not_leader(why: &str, leader: &str) -> Error {
    Error::unavailable(why).with(LEADER, leader)
}

/// Returns the leader that an error names: `None` for any other error, `Some(None)` if no leader is known.
pub fn leader(error: &Error) -> Option<Option<Address>> {
    error.get(LEADER).map(|address| address.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leads_is_told_or_not_known() {
        assert_eq!(leader(&not_leader("waits", "a:81")).flatten().map(|a| a.to_string()).as_deref(), Some("a:81"));
        assert_eq!(leader(&not_leader("waits", "")), Some(None));
        assert_eq!(leader(&Error::unavailable("gone")), None);
    }
}

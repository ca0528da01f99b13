//! What a dispatcher that does not lead answers, and how whoever asked goes straight to the one that does.
//!
//! It is an error like any other, Unavailable, with one piece of context: who leads, as far as the one that was asked
//! knows. Whoever hears it has lost nothing: the same is asked of another dispatcher.

use forebay_core::Error;

use crate::net::address::Address;

/// Who leads; empty when nobody does, or nobody knows.
const LEADER: &str = "leader";

/// Says that a dispatcher does not lead, and which one does ("" when that is not known); `why` begins the message.
pub fn not_leader(why: &str, leader: &str) -> Error {
    Error::unavailable(why).with(LEADER, leader)
}

/// Returns what an error says of who leads: `None` when it says nothing of it, `Some(None)` when nobody is known.
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

//! Updates that must be durable before any message about them is sent. Only `leases` can make one.

use crate::records::Update;

/// An update of the ledger that later effects wait for. Its constructor is private to `leases`, so no other machine can
/// request a durable write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Durable(Update);

impl Durable {
    pub(in crate::state::leases) fn new(update: Update) -> Self {
        Self(update)
    }

    pub(crate) fn into_update(self) -> Update {
        self.0
    }
}

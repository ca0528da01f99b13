//! The messages about leases to workers and consumers.

use forebay_proto::{consumer_event, worker_event};

use crate::records::{Grant, Position};

pub(in crate::state::leases) fn revoke_event(token: u64) -> worker_event::Event {
    worker_event::Event::Revoke(forebay_proto::Revoke { token })
}

/// `other_token` is the token of the split's other lease, or 0 if there is none.
pub(in crate::state::leases) fn assigned_event(
    position: Position,
    grant: &Grant,
    other_token: u64,
) -> consumer_event::Event {
    consumer_event::Event::Assigned(forebay_proto::Assigned {
        epoch: position.epoch,
        ordinal: position.ordinal,
        token: grant.token,
        address: grant.address.to_string(),
        beside: other_token,
    })
}

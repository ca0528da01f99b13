//! The effects of the state: the writes and messages of the dispatcher, in this order.

use forebay_core::Error;
use forebay_proto::{consumer_event, worker_event};

use super::input::SessionId;
use super::leases::durable::Durable;
use crate::records::Update;

/// An action of the dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Make the update durable before any later effect is seen. Only `leases` can make one: see [`Durable`].
    Persist(Durable),
    /// Make the update durable some time soon.
    Remember(Update),
    /// Send an event to a consumer.
    Consumer(SessionId, consumer_event::Event),
    /// Send an event to a worker.
    Worker(SessionId, worker_event::Event),
    /// End a session with an error.
    End(SessionId, Error),
}

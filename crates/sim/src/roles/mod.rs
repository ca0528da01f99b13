//! The processes of a world: consumers, the dispatcher, workers.

pub(super) mod consumer;
pub(super) mod dispatcher;
pub(super) mod lending;
pub(super) mod node;
pub(super) mod worker;

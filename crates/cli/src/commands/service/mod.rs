//! Commands that show or change a running service.

pub(crate) mod jobs;
mod ops;
pub(crate) mod quarantine;
pub(crate) mod scale;
pub(crate) mod top;
pub(crate) mod workers;

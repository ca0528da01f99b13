//! Commands that run a process of a service until it is stopped.

pub(crate) mod csi;
pub(crate) mod dashboard;
pub(crate) mod dispatcher;
pub(crate) mod mount;
pub(crate) mod up;
pub(crate) mod worker;

//! The Consume session of one consumer with the dispatcher.
//!
//! ```text
//! driver         SessionDriver: runs the session over gRPC, and reconnects
//! protocol       ConsumerProtocol: the messages of the session, without I/O
//! skip_reports   SkipReports: skipped samples that the dispatcher has not recorded yet
//! trace          records a trace that the dispatcher requests
//! ```

pub(crate) mod driver;
pub(crate) mod protocol;
pub(crate) mod skip_reports;
pub(crate) mod trace;

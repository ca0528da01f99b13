//! One consumer's stream of deliveries, and the state that the user's thread shares with the tasks of the stream.
//!
//! ```text
//! service_stream   ServiceStream: next() for the user's thread
//! waiting          ServiceStream: waits for the next chunk, within bounds
//! progress         ConsumerProgress: the next delivery and the next acknowledgement, without I/O
//! reorder_buffer   ReorderBuffer: chunks by (epoch, split, index), which arrive in any order
//! pending_steps    PendingSteps: merged steps that not all consumers are known to have, if epochs end together
//! step_sync        StepSync: the step counts that a consumer and the dispatcher exchange for that
//! shared           StreamShared: the state behind one lock, and its wake-ups
//! unreadable       UnreadableSplits: the splits with a file that some workers cannot read
//! meter            Meter: how a consumer spends its time
//! liveness         LivenessCheck: whether a delivery can still come
//! ```

pub(crate) mod liveness;
pub(crate) mod meter;
pub(crate) mod pending_steps;
pub(crate) mod progress;
pub(crate) mod reorder_buffer;
pub(crate) mod service_stream;
pub(crate) mod shared;
pub(crate) mod step_sync;
pub(crate) mod unreadable;
mod waiting;

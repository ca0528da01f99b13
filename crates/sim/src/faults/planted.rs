//! Bugs that are planted on purpose: each disables one mechanism from outside, in the simulation's own glue, so that
//! the roles have no switches for it. A simulation that does not find them would prove nothing.

/// A mechanism that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A worker serves a split to every caller that names it, with any token.
    FencingOff,
    /// A split that was assigned once is not fetched again from another worker.
    ReplayOff,
    /// A split that is fetched again comes from its start, and its chunks are accepted with any index.
    DeduplicationOff,
    /// The dispatcher sends messages before its batch is durable.
    ToldBeforeDurable,
    /// Recovery forgets the acknowledged splits.
    AcksForgotten,
    /// A worker sends a chunk of another split now and then.
    WrongBytes,
    /// A worker ignores the revocation of a lease.
    RevokesIgnored,
    /// A consumer runs the ops behind the default boundary, also of a chunk with another one.
    CutOfReader,
    /// A consumer assumes that all chunks of a split have the boundary of the first.
    CutOfSplit,
    /// Under speculative execution, the consumer accepts the chunks of both workers.
    BothDelivered,
    /// Some of a consumer's returned loans never arrive.
    LoansKept,
    /// A worker computes samples that are known to be lost.
    KnownForgotten,
    /// A consumer assumes that all have one step more than they reported.
    FloorTooHigh,
    /// Recovery forgets the common ends of epochs.
    EndsForgotten,
}

impl Planted {
    /// All bugs, with their names on the command line.
    pub const ALL: [(&str, Planted); 14] = [
        ("fencing-off", Self::FencingOff),
        ("replay-off", Self::ReplayOff),
        ("deduplication-off", Self::DeduplicationOff),
        ("told-before-durable", Self::ToldBeforeDurable),
        ("acks-forgotten", Self::AcksForgotten),
        ("wrong-bytes", Self::WrongBytes),
        ("revokes-ignored", Self::RevokesIgnored),
        ("cut-of-reader", Self::CutOfReader),
        ("cut-of-split", Self::CutOfSplit),
        ("both-delivered", Self::BothDelivered),
        ("loans-kept", Self::LoansKept),
        ("known-forgotten", Self::KnownForgotten),
        ("floor-too-high", Self::FloorTooHigh),
        ("ends-forgotten", Self::EndsForgotten),
    ];
}

//! Bugs that are put in on purpose: each defeats one mechanism from outside, in the simulation's own glue, so that the
//! roles have no switches for it. A simulation that does not find them would prove nothing.

/// A mechanism that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A worker serves a split to whoever names it, whatever the token.
    FencingOff,
    /// A split that was assigned once is not fetched again from anyone else.
    ReplayOff,
    /// A split that is fetched again comes from its start, and its chunks are taken whatever their index.
    DeduplicationOff,
    /// The dispatcher speaks before its batch is durable.
    ToldBeforeDurable,
    /// Recovery forgets what was consumed.
    AcksForgotten,
    /// A worker gives a chunk of another split now and then.
    WrongBytes,
    /// A worker that is told to let go of a lease does not.
    RevokesIgnored,
    /// A reader runs the ops behind the usual cut, wherever a chunk is cut.
    CutOfReader,
    /// A reader takes all chunks of a split to be cut where the first one was.
    CutOfSplit,
    /// Of a split that two workers race for, the chunks of both are taken.
    BothDelivered,
    /// Some of what a reader gives back is never heard of.
    LoansKept,
    /// A worker computes samples that are known to be lost.
    KnownForgotten,
    /// A reader takes it that all have one step more than they said.
    FloorTooHigh,
    /// Recovery forgets where epochs ended for all readers.
    EndsForgotten,
}

impl Planted {
    /// Every one, with the name that it has on the command line.
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

//! The messages on streams.

use std::fmt;

use forebay_core::rng::mix64;
use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_proto::{
    ConsumerStream, JobDefinition, Ticket, consumer_event, consumer_message, worker_event, worker_message,
};

use crate::roles::lending::loans::Lent;

/// A sent chunk: its index, its rows, the number of row ops that have run on them, and the loan of its memory.
pub(crate) struct SentChunk {
    pub(crate) index: u64,
    pub(crate) chunk: Chunk,
    pub(crate) ops: u32,
    pub(crate) lent: Option<Lent>,
}

/// A message.
pub(crate) enum Payload {
    Work(worker_message::Message),
    Consume(consumer_message::Message),
    Open(JobDefinition),
    /// A ticket, and the stream on which memory may be lent.
    Get(Ticket, Option<ConsumerStream>),
    ToWorker(worker_event::Event),
    ToConsumer(consumer_event::Event),
    Opened(Result<JobDefinition>),
    Chunk(SentChunk),
    /// The consumer has accepted a chunk.
    Taken,
    /// The stream is complete.
    Complete,
    /// The stream ended with an error.
    Failed(Error),
    /// The client sends nothing more, and listens.
    HalfClosed,
    Closed,
}

impl Payload {
    /// Returns a number for its content.
    pub(crate) fn code(&self) -> u64 {
        use worker_event::Event as W;
        match self {
            Self::Work(worker_message::Message::Want(want)) => 0x100 + u64::from(want.splits),
            Self::Work(_) => 1,
            Self::Consume(consumer_message::Message::Ack(ack)) => mix64(ack.epoch << 32 | ack.ordinal),
            Self::Consume(_) => 2,
            Self::Open(_) => 3,
            Self::Get(ticket, _) => mix64(ticket.token) ^ ticket.from_chunk,
            Self::ToWorker(W::Lease(lease)) => mix64(lease.token ^ 0x55),
            Self::ToWorker(W::Revoke(revoke)) => mix64(revoke.token ^ 0xaa),
            Self::ToWorker(_) => 4,
            Self::ToConsumer(consumer_event::Event::Assigned(a)) => mix64(a.token ^ 0x77) ^ mix64(a.ordinal),
            Self::ToConsumer(_) => 5,
            Self::Opened(_) => 6,
            Self::Chunk(SentChunk { index, chunk, ops, .. }) => {
                mix64(*index) ^ mix64(u64::from(*ops)) ^ chunk.num_rows() as u64
            }
            Self::Taken => 7,
            Self::Complete => 8,
            Self::Failed(error) => 0x200 + error.kind() as u64,
            Self::HalfClosed => 9,
            Self::Closed => 10,
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(message) => write!(f, "{message:?}"),
            Self::Consume(message) => write!(f, "{message:?}"),
            Self::Open(job) => write!(f, "OpenJob {}", job.name),
            Self::Get(ticket, lent) => write!(f, "{ticket:?} (lent on {lent:?})"),
            Self::ToWorker(worker_event::Event::Job(job)) => write!(f, "Job {}", job.job),
            Self::ToWorker(event) => write!(f, "{event:?}"),
            Self::ToConsumer(event) => write!(f, "{event:?}"),
            Self::Opened(Ok(job)) => write!(f, "Opened {}", job.job),
            Self::Opened(Err(error)) => write!(f, "not opened: {error}"),
            Self::Chunk(SentChunk { index, chunk, ops, lent }) => {
                write!(f, "chunk {index} of {} rows, cut after {ops} ops, lent {lent:?}", chunk.num_rows())
            }
            Self::Taken => write!(f, "taken"),
            Self::Complete => write!(f, "complete"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::HalfClosed => write!(f, "half closed"),
            Self::Closed => write!(f, "closed"),
        }
    }
}

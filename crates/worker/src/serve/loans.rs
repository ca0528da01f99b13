//! Counts the memory that consumers on this machine have on loan. No memory, no sockets, no locks.
//!
//! `M` is the memory of one loan; memory that a call here returns is not on loan any more. Invariants: a loan ends
//! once, and only when its consumer returns it, when the consumer left the stream before the loan arrived, or when the
//! consumer's process is gone; a stream's bytes on loan are the sum of its loans. Bounds: [`CONSUMERS_MAX`],
//! [`STREAM_LOANS_MAX`], [`EARLY_MAX`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use forebay_core::{Error, Result};
use forebay_proto::{ConsumerStream, Return};

/// The most bytes that one stream may have on loan: as many as a consumer keeps of a split before its turn comes.
pub(crate) const STREAM_LOANS_MAX: usize = 128 << 20;
/// Consumers at one time. Others get copies.
const CONSUMERS_MAX: usize = 1024;
/// Streams that a consumer left before they began here, and that are remembered: the ones with the highest numbers.
const EARLY_MAX: usize = 1024;

/// The loans of one worker.
pub(crate) struct Loans<M> {
    consumers: HashMap<u64, Consumer<M>>,
    last_consumer: u64,
}

struct Consumer<M> {
    loans: BTreeMap<u64, Loan<M>>,
    last_loan: u64,
    /// Streams that are being served, with their bytes on loan; and those among them that the consumer has left.
    streams: HashMap<u64, usize>,
    left: HashSet<u64>,
    /// Streams that the consumer left before they began.
    left_early: BTreeSet<u64>,
}

struct Loan<M> {
    stream: u64,
    bytes: usize,
    memory: M,
}

impl<M> Default for Consumer<M> {
    fn default() -> Self {
        Self {
            loans: BTreeMap::new(),
            last_loan: 0,
            streams: HashMap::new(),
            left: HashSet::new(),
            left_early: BTreeSet::new(),
        }
    }
}

impl<M> Consumer<M> {
    fn end(&mut self, loan: u64) -> Option<M> {
        let ended = self.loans.remove(&loan)?;
        if let Some(on_loan) = self.streams.get_mut(&ended.stream) {
            *on_loan -= ended.bytes;
        }
        Some(ended.memory)
    }
}

impl<M> Loans<M> {
    /// Numbers consumers from `first` on. The range must differ from that of every other worker process: a consumer
    /// that is still attached to an earlier process at this address must be unknown here, or it would apply offsets to
    /// the wrong memory.
    pub(crate) fn new(first: u64) -> Self {
        Self { consumers: HashMap::new(), last_consumer: first }
    }

    /// Registers a consumer; `None` if there are too many.
    pub(crate) fn enter(&mut self) -> Option<u64> {
        if self.consumers.len() >= CONSUMERS_MAX {
            return None;
        }
        self.last_consumer = self.last_consumer.wrapping_add(1);
        self.consumers.insert(self.last_consumer, Consumer::default());
        Some(self.last_consumer)
    }

    /// Removes a consumer that is gone; returns its loans.
    pub(crate) fn leave(&mut self, consumer: u64) -> Vec<M> {
        let gone = self.consumers.remove(&consumer);
        gone.map_or_else(Vec::new, |consumer| consumer.loans.into_values().map(|loan| loan.memory).collect())
    }

    /// Begins a stream. Returns false when its consumer is not registered, or has left the stream already: nothing is
    /// lent on it then.
    pub(crate) fn begin(&mut self, of: ConsumerStream) -> bool {
        let Some(consumer) = self.consumers.get_mut(&of.reader) else { return false };
        if consumer.left_early.remove(&of.stream) {
            return false;
        }
        consumer.streams.insert(of.stream, 0);
        true
    }

    /// Ends a stream that began.
    pub(crate) fn end(&mut self, of: ConsumerStream) {
        if let Some(consumer) = self.consumers.get_mut(&of.reader) {
            consumer.streams.remove(&of.stream);
            consumer.left.remove(&of.stream);
        }
    }

    /// Lends memory on a stream that began; returns the loan, or `None` when nothing may be lent on it now.
    pub(crate) fn lend(&mut self, of: ConsumerStream, memory: M, bytes: usize) -> Option<u64> {
        let consumer = self.consumers.get_mut(&of.reader).filter(|consumer| !consumer.left.contains(&of.stream))?;
        let on_loan = consumer.streams.get_mut(&of.stream)?;
        if *on_loan > 0 && *on_loan + bytes > STREAM_LOANS_MAX {
            return None;
        }
        *on_loan += bytes;
        consumer.last_loan += 1;
        consumer.loans.insert(consumer.last_loan, Loan { stream: of.stream, bytes, memory });
        Some(consumer.last_loan)
    }

    /// Handles a return message; returns the memory whose loans it ends.
    pub(crate) fn on_return(&mut self, consumer: u64, message: Return) -> Vec<M> {
        let Some(consumer) = self.consumers.get_mut(&consumer) else { return Vec::new() };
        match message {
            Return::Loan(loan) => consumer.end(loan).into_iter().collect(),
            Return::Stream { stream, last } => {
                let lost = consumer.loans.range(last + 1..).filter(|(_, loan)| loan.stream == stream);
                let lost: Vec<u64> = lost.map(|(&loan, _)| loan).collect();
                if consumer.streams.contains_key(&stream) {
                    consumer.left.insert(stream);
                } else {
                    // The request for this stream may still come. Loans on it would never be returned.
                    consumer.left_early.insert(stream);
                    if consumer.left_early.len() > EARLY_MAX {
                        consumer.left_early.pop_first();
                    }
                }
                lost.into_iter().filter_map(|loan| consumer.end(loan)).collect()
            }
        }
    }

    /// Returns the number of loans, and the number of streams that may have some.
    pub(crate) fn outstanding(&self) -> (usize, usize) {
        let consumers = self.consumers.values();
        consumers.fold((0, 0), |(loans, streams), r| (loans + r.loans.len(), streams + r.streams.len()))
    }

    /// Checks that the bytes of each stream are the sum of its loans, and that a consumer has left only streams that
    /// exist.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        for (number, consumer) in &self.consumers {
            for (stream, on_loan) in &consumer.streams {
                let bytes: usize = consumer.loans.values().filter(|l| l.stream == *stream).map(|l| l.bytes).sum();
                if bytes != *on_loan {
                    let text =
                        format!("L-1: stream {stream} of consumer {number} has {bytes} bytes, counted {on_loan}");
                    return Err(Error::internal(text));
                }
            }
            let stray = consumer.left.iter().find(|stream| !consumer.streams.contains_key(stream));
            if let Some(stream) =
                stray.or(consumer.left_early.iter().find(|stream| consumer.streams.contains_key(stream)))
            {
                return Err(Error::internal(format!("L-2: consumer {number} has left stream {stream} twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lent_on_a_stream_that_its_consumer_left_before_it_began() {
        let mut loans: Loans<u64> = Loans::new(7);
        let consumer = loans.enter().expect("a consumer");
        let of = |stream| ConsumerStream { reader: consumer, stream };
        assert!(loans.on_return(consumer, Return::Stream { stream: 1, last: 0 }).is_empty());
        assert!(!loans.begin(of(1)), "no consumer would return it");
        assert_eq!((loans.lend(of(1), 5, 8), loans.outstanding()), (None, (0, 0)));
        assert!(loans.begin(of(2)));
        assert!(loans.lend(of(2), 5, 8).is_some());
        loans.check().expect("the account is right");
        // The number of remembered streams is bounded.
        (10..10 + 2 * EARLY_MAX as u64)
            .for_each(|s| drop(loans.on_return(consumer, Return::Stream { stream: s, last: 0 })));
        assert!(loans.consumers[&consumer].left_early.len() <= EARLY_MAX);
        assert_eq!(loans.leave(consumer), vec![5]);
    }
}

//! What readers on this machine have on loan: the account alone, without memory, sockets and locks.
//!
//! `M` holds the memory of one loan; whatever is handed back here is nobody's any more. Invariants: a loan ends once, and only when its
//! reader says so, when the stream that it was sent on ended before it came, or when its reader is gone; a stream has on loan what its
//! loans come to. Bounds: [`READERS_MAX`], [`STREAM_LOANS_MAX`], [`EARLY_MAX`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use forebay_core::{Error, Result};
use forebay_proto::{Reader as Stream, Return};

/// What one stream may have on loan: no more than a reader keeps of a split before its turn comes.
pub(crate) const STREAM_LOANS_MAX: usize = 128 << 20;
/// Readers at one time. Others are sent copies.
const READERS_MAX: usize = 1024;
/// Streams of one reader that it left before they began here, and that are remembered: those that it opened last.
const EARLY_MAX: usize = 1024;

/// The account of one worker.
pub(crate) struct Loans<M> {
    readers: HashMap<u64, Reader<M>>,
    last_reader: u64,
}

struct Reader<M> {
    loans: BTreeMap<u64, Loan<M>>,
    last_loan: u64,
    /// Streams that are being served, with what they have on loan; and those of them whose reader has left.
    streams: HashMap<u64, usize>,
    left: HashSet<u64>,
    /// Streams that their reader left before they began.
    early: BTreeSet<u64>,
}

struct Loan<M> {
    stream: u64,
    bytes: usize,
    memory: M,
}

impl<M> Default for Reader<M> {
    fn default() -> Self {
        Self {
            loans: BTreeMap::new(),
            last_loan: 0,
            streams: HashMap::new(),
            left: HashSet::new(),
            early: BTreeSet::new(),
        }
    }
}

impl<M> Reader<M> {
    fn end(&mut self, loan: u64) -> Option<M> {
        let ended = self.loans.remove(&loan)?;
        if let Some(on_loan) = self.streams.get_mut(&ended.stream) {
            *on_loan -= ended.bytes;
        }
        Some(ended.memory)
    }
}

impl<M> Loans<M> {
    /// Numbers readers from `first` on. It must be where no other worker does: a reader that was connected to the process that listened
    /// here before has that one's memory, and must be a stranger to this one, or it would take its offsets for its own.
    pub(crate) fn new(first: u64) -> Self {
        Self { readers: HashMap::new(), last_reader: first }
    }

    /// Takes a reader in; `None` where there are too many.
    pub(crate) fn enter(&mut self) -> Option<u64> {
        if self.readers.len() >= READERS_MAX {
            return None;
        }
        self.last_reader = self.last_reader.wrapping_add(1);
        self.readers.insert(self.last_reader, Reader::default());
        Some(self.last_reader)
    }

    /// A reader is gone; returns what it had.
    pub(crate) fn leave(&mut self, reader: u64) -> Vec<M> {
        let gone = self.readers.remove(&reader);
        gone.map_or_else(Vec::new, |reader| reader.loans.into_values().map(|loan| loan.memory).collect())
    }

    /// A stream begins. False when its reader is not connected, or has left the stream already: nothing is lent on it then.
    pub(crate) fn begin(&mut self, of: Stream) -> bool {
        let Some(reader) = self.readers.get_mut(&of.reader) else { return false };
        if reader.early.remove(&of.stream) {
            return false;
        }
        reader.streams.insert(of.stream, 0);
        true
    }

    /// A stream that began has ended.
    pub(crate) fn end(&mut self, of: Stream) {
        if let Some(reader) = self.readers.get_mut(&of.reader) {
            reader.streams.remove(&of.stream);
            reader.left.remove(&of.stream);
        }
    }

    /// Lends memory on a stream that began; returns the loan, or `None` when nothing may be lent on it now.
    pub(crate) fn lend(&mut self, of: Stream, memory: M, bytes: usize) -> Option<u64> {
        let reader = self.readers.get_mut(&of.reader).filter(|reader| !reader.left.contains(&of.stream))?;
        let on_loan = reader.streams.get_mut(&of.stream)?;
        if *on_loan > 0 && *on_loan + bytes > STREAM_LOANS_MAX {
            return None;
        }
        *on_loan += bytes;
        reader.last_loan += 1;
        reader.loans.insert(reader.last_loan, Loan { stream: of.stream, bytes, memory });
        Some(reader.last_loan)
    }

    /// A reader says something; returns what comes back by that.
    pub(crate) fn take_back(&mut self, reader: u64, said: Return) -> Vec<M> {
        let Some(reader) = self.readers.get_mut(&reader) else { return Vec::new() };
        match said {
            Return::Loan(loan) => reader.end(loan).into_iter().collect(),
            Return::Stream { stream, last } => {
                let lost = reader.loans.range(last + 1..).filter(|(_, loan)| loan.stream == stream);
                let lost: Vec<u64> = lost.map(|(&loan, _)| loan).collect();
                if reader.streams.contains_key(&stream) {
                    reader.left.insert(stream);
                } else {
                    // Its request may still come: whoever was lent something on it would never say so again.
                    reader.early.insert(stream);
                    if reader.early.len() > EARLY_MAX {
                        reader.early.pop_first();
                    }
                }
                lost.into_iter().filter_map(|loan| reader.end(loan)).collect()
            }
        }
    }

    /// Returns how many loans there are, and how many streams that may have some.
    pub(crate) fn outstanding(&self) -> (usize, usize) {
        let readers = self.readers.values();
        readers.fold((0, 0), |(loans, streams), r| (loans + r.loans.len(), streams + r.streams.len()))
    }

    /// Checks that streams have on loan what their loans come to, and that nobody has left a stream that is none.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        for (number, reader) in &self.readers {
            for (stream, on_loan) in &reader.streams {
                let bytes: usize = reader.loans.values().filter(|l| l.stream == *stream).map(|l| l.bytes).sum();
                if bytes != *on_loan {
                    let text = format!("L-1: stream {stream} of reader {number} has {bytes} bytes, counted {on_loan}");
                    return Err(Error::internal(text));
                }
            }
            let stray = reader.left.iter().find(|stream| !reader.streams.contains_key(stream));
            if let Some(stream) = stray.or(reader.early.iter().find(|stream| reader.streams.contains_key(stream))) {
                return Err(Error::internal(format!("L-2: reader {number} has left stream {stream} twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lent_on_a_stream_that_its_reader_left_before_it_began() {
        let mut loans: Loans<u64> = Loans::new(7);
        let reader = loans.enter().expect("a reader");
        let of = |stream| Stream { reader, stream };
        assert!(loans.take_back(reader, Return::Stream { stream: 1, last: 0 }).is_empty());
        assert!(!loans.begin(of(1)), "nobody would give it back");
        assert_eq!((loans.lend(of(1), 5, 8), loans.outstanding()), (None, (0, 0)));
        assert!(loans.begin(of(2)));
        assert!(loans.lend(of(2), 5, 8).is_some());
        loans.check().expect("the account is right");
        // What is remembered of such streams is bounded.
        (10..10 + 2 * EARLY_MAX as u64)
            .for_each(|s| drop(loans.take_back(reader, Return::Stream { stream: s, last: 0 })));
        assert!(loans.readers[&reader].early.len() <= EARLY_MAX);
        assert_eq!(loans.leave(reader), vec![5]);
    }
}

//! The reorder buffer: chunks by (epoch, split, index), which may arrive in any order. Pure: no clock, no I/O.
//!
//! A split is fetched from one worker, or from two under speculative execution; then the first copy of each chunk
//! counts. Invariants: each chunk is taken once, even if several workers send it; the chunks of a split are given out
//! in order, and so are the splits, unless the consumer takes them in any order; a split that was complete under one
//! token is not fetched again under another.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{Error, Result};
use forebay_data::{Chunk, MemoryBudget};

/// One split of a consumer's stream; keys have the order of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct SplitKey {
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

/// A split to fetch, from its chunk `from_chunk` on, and the worker that holds its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) split: SplitKey,
    pub(crate) token: u64,
    pub(crate) address: String,
    pub(crate) from_chunk: u64,
}

/// A worker that holds a lease of a split.
#[derive(Debug)]
struct Source {
    token: u64,
    /// Whether a fetch from this worker is running.
    fetching: bool,
    /// The index of the next chunk from this worker: at most the split's own `next`.
    next: u64,
}

/// A split that was assigned and has not been given out entirely.
#[derive(Debug, Default)]
struct PendingSplit {
    sources: Vec<Source>,
    /// The index of the next chunk that the split needs.
    next: u64,
    chunks: VecDeque<(Chunk, usize)>,
    end: Option<Result<()>>,
    /// Whether the split was given out entirely.
    is_over: bool,
}

impl PendingSplit {
    /// Returns the source of an assignment; `None` if the assignment is no longer wanted.
    fn source(&mut self, assignment: &Assignment) -> Option<&mut Source> {
        self.sources.iter_mut().find(|s| s.token == assignment.token)
    }

    fn finish(&mut self, end: Result<()>) {
        self.end = Some(end);
        self.sources.clear();
    }
}

/// The next item of the stream.
#[derive(Debug)]
pub(crate) enum Head {
    /// Chunk `index` of the split `ordinal`.
    Chunk { ordinal: u64, index: u64, chunk: Chunk },
    /// The split `ordinal` is complete; it has so many chunks.
    SplitEnd { ordinal: u64, chunks: u64 },
    /// The head split failed.
    Failed(Error),
    /// The next item has not arrived yet.
    Empty,
}

/// The splits from the head on.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    head: SplitKey,
    /// The first chunk that the stream needs of the head split: not 0 if the stream began within the split.
    first_chunk: u64,
    splits: BTreeMap<SplitKey, PendingSplit>,
    bytes: usize,
    /// The bound on `bytes`. The head split may exceed it.
    bytes_max: usize,
    /// Whether splits are given out in order.
    ordered: bool,
}

impl ReorderBuffer {
    /// Starts at chunk `first_chunk` of the split `head`.
    pub(crate) fn new(head: SplitKey, first_chunk: u64) -> Self {
        let bytes_max = MemoryBudget::default().arrived();
        Self { head, first_chunk, splits: BTreeMap::new(), bytes: 0, bytes_max, ordered: true }
    }

    /// Bounds the memory of the chunks that wait.
    pub(crate) fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Makes `pop` return the chunks of any split of the head's epoch as they arrive.
    pub(crate) fn in_any_order(self) -> Self {
        Self { ordered: false, ..self }
    }

    pub(crate) fn head(&self) -> SplitKey {
        self.head
    }

    /// Notes that a worker holds the lease `token` of a split. The lease `other_token`, if not 0, stays valid beside
    /// it; all others are void. Returns the assignment to fetch; `None` if the split is complete here, or if a fetch
    /// under this token is running.
    pub(crate) fn assign(&mut self, key: SplitKey, token: u64, other_token: u64, address: &str) -> Option<Assignment> {
        if key < self.head {
            return None;
        }
        let next = if key == self.head { self.first_chunk } else { 0 };
        let split = self.splits.entry(key).or_insert_with(|| PendingSplit { next, ..PendingSplit::default() });
        if split.end.is_some() {
            return None;
        }
        split.sources.retain(|s| s.token == token || s.token == other_token);
        if split.sources.iter().any(|s| s.token == token && s.fetching) {
            return None;
        }
        split.sources.retain(|s| s.token != token);
        split.sources.push(Source { token, fetching: true, next: split.next });
        Some(Assignment { split: key, token, address: address.to_owned(), from_chunk: split.next })
    }

    /// Returns the assignment to continue with after a stream broke: it begins at the next chunk that the split needs,
    /// which another worker may have advanced. `None` if the assignment is no longer wanted.
    pub(crate) fn resume(&mut self, assignment: &Assignment) -> Option<Assignment> {
        let split = self.splits.get_mut(&assignment.split)?;
        let next = split.next;
        split.source(assignment)?.next = next;
        Some(Assignment { from_chunk: next, ..assignment.clone() })
    }

    /// Returns how many chunks of a split have arrived.
    pub(crate) fn num_received(&self, key: SplitKey) -> u64 {
        self.splits.get(&key).map_or(0, |split| split.next)
    }

    /// Returns whether an assignment is still wanted.
    pub(crate) fn is_wanted(&self, assignment: &Assignment) -> bool {
        let split = self.splits.get(&assignment.split);
        split.is_some_and(|split| split.sources.iter().any(|s| s.token == assignment.token))
    }

    /// Accepts a chunk; drops it if another worker sent the same one before. Returns whether the assignment is still
    /// wanted.
    ///
    /// # Errors
    /// Data if the chunk is not the next one of this assignment.
    pub(crate) fn push(&mut self, assignment: &Assignment, index: u64, chunk: Chunk, bytes: usize) -> Result<bool> {
        let Some(split) = self.splits.get_mut(&assignment.split) else { return Ok(false) };
        let Some(source) = split.source(assignment) else { return Ok(false) };
        if index != source.next {
            return Err(Error::data(format!("chunk {index} came where chunk {} was due", source.next)));
        }
        source.next += 1;
        if index == split.next {
            split.next += 1;
            split.chunks.push_back((chunk, bytes));
            self.bytes += bytes;
        }
        Ok(true)
    }

    /// Ends a split: it is complete, or it failed after the chunks that arrived.
    pub(crate) fn end_split(&mut self, assignment: &Assignment, end: Result<()>) {
        let Some(split) = self.splits.get_mut(&assignment.split) else { return };
        let (wanted, Some(source)) = (split.next, split.source(assignment)) else { return };
        match (source.next == wanted, end) {
            (true, end) => split.finish(end),
            // The other worker got further: the failure of this one does not end the split.
            (false, Err(_)) => source.fetching = false,
            (false, Ok(())) => split.finish(Err(Error::data("two workers gave a split of different lengths"))),
        }
    }

    /// Notes that the fetch of an assignment failed. Returns whether to report that to the dispatcher.
    pub(crate) fn stop_fetch(&mut self, assignment: &Assignment) -> bool {
        match self.splits.get_mut(&assignment.split).and_then(|split| split.source(assignment)) {
            Some(source) => {
                source.fetching = false;
                true
            }
            None => false,
        }
    }

    /// Gives out the next item of the head split, or, in any order, of a split of its epoch. At the end of the head
    /// split moves on to the next split.
    pub(crate) fn pop(&mut self) -> Head {
        let many = if self.ordered { 1 } else { usize::MAX };
        let mut splits = self.splits.range_mut(self.head..).take(many);
        let is_next = |key: &SplitKey| key.epoch == self.head.epoch && (!self.ordered || *key == self.head);
        let has_more = |split: &PendingSplit| !split.chunks.is_empty() || (split.end.is_some() && !split.is_over);
        let Some((key, split)) = splits.find(|(key, split)| is_next(key) && has_more(split)) else {
            return Head::Empty;
        };
        let ordinal = key.ordinal;
        if let Some((chunk, bytes)) = split.chunks.pop_front() {
            self.bytes -= bytes;
            let index = split.next - split.chunks.len() as u64 - 1;
            return Head::Chunk { ordinal, index, chunk };
        }
        if let Some(Err(error)) = &split.end {
            return Head::Failed(error.clone());
        }
        split.is_over = true;
        let chunks = split.next;
        while self.splits.get(&self.head).is_some_and(|split| split.is_over) {
            self.move_to(SplitKey { ordinal: self.head.ordinal + 1, ..self.head });
        }
        Head::SplitEnd { ordinal, chunks }
    }

    /// Drops all splits before `head`.
    pub(crate) fn move_to(&mut self, head: SplitKey) {
        self.head = head;
        self.first_chunk = 0;
        let kept = self.splits.split_off(&head);
        let dropped = std::mem::replace(&mut self.splits, kept);
        self.bytes -= dropped.values().flat_map(|s| &s.chunks).map(|(_, bytes)| bytes).sum::<usize>();
    }

    /// Returns whether a split may receive more chunks. The head split always may.
    pub(crate) fn has_room(&self, key: SplitKey) -> bool {
        key <= self.head || self.bytes < self.bytes_max
    }

    /// Returns whether a fetch of the head split is running; in any order, of any split.
    pub(crate) fn is_head_coming(&self) -> bool {
        let is_fetched = |split: &PendingSplit| split.sources.iter().any(|s| s.fetching);
        match self.ordered {
            true => self.splits.get(&self.head).is_some_and(is_fetched),
            false => self.splits.values().any(is_fetched),
        }
    }

    /// Returns how many splits behind the head are complete and not given out.
    pub(crate) fn num_complete_ahead(&self) -> usize {
        self.splits.iter().filter(|(key, split)| **key > self.head && split.end.is_some() && !split.is_over).count()
    }

    /// Checks the invariants, in time linear in the splits and chunks that wait.
    ///
    /// # Errors
    /// Internal, naming the violated invariant.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.splits.values().flat_map(|s| &s.chunks).map(|(_, bytes)| bytes).sum::<usize>();
        if bytes != self.bytes {
            return Err(Error::internal(format!("C-3: {} bytes are counted, and {bytes} wait", self.bytes)));
        }
        let wrong = self.splits.iter().find(|(key, split)| {
            let sources = &split.sources;
            let ahead = sources.len() > 2 || sources.iter().any(|s| s.next > split.next);
            let ended = split.end.is_some() && !sources.is_empty();
            **key < self.head || (split.chunks.len() as u64) > split.next || ahead || ended
        });
        wrong.map_or(Ok(()), |(key, _)| {
            Err(Error::internal(format!("C-1: the chunks of {key:?} contradict its sources")))
        })
    }

    /// Returns the first split that is not complete here: a new session begins at it.
    pub(crate) fn first_incomplete(&self) -> SplitKey {
        let mut key = self.head;
        while self.splits.get(&key).is_some_and(|s| s.end.is_some()) {
            key.ordinal += 1;
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, Kind, RowId, Schema};

    use super::*;

    fn chunk(value: i64) -> Chunk {
        let schema = Schema::new(vec![Field::new("id", Kind::scalar(DType::Int64))]).expect("a schema");
        let ids = [RowId { sample: SampleId(0), epoch: Epoch(0) }].into();
        Chunk::new(Arc::new(schema), vec![Arc::new(Int64Array::from(vec![value]))], ids).expect("a chunk")
    }

    fn at(ordinal: u64) -> SplitKey {
        SplitKey { epoch: 0, ordinal }
    }

    /// Pops items until none is ready; returns them as text.
    fn drain(buffer: &mut ReorderBuffer) -> String {
        let mut text = String::new();
        loop {
            match buffer.pop() {
                Head::Chunk { ordinal, index, .. } => text += &format!("{ordinal}/{index} "),
                Head::SplitEnd { .. } => text += "end ",
                Head::Failed(e) => return text + e.message(),
                Head::Empty => return text,
            }
        }
    }

    #[test]
    fn chunks_come_out_in_order_and_each_once_whichever_worker_sent_them() {
        let mut buffer = ReorderBuffer::new(at(0), 0);
        let first = buffer.assign(at(0), 1, 0, "a").expect("a fetch");
        let second = buffer.assign(at(1), 2, 0, "b").expect("a fetch");
        assert_eq!(buffer.push(&second, 0, chunk(10), 8), Ok(true));
        buffer.end_split(&second, Ok(()));
        assert_eq!(buffer.push(&first, 0, chunk(0), 8), Ok(true));
        assert_eq!(drain(&mut buffer), "0/0 ");
        // The worker dies: another one continues after the chunk that arrived, and chunks of the first are refused.
        assert!(buffer.stop_fetch(&first));
        let again = buffer.assign(at(0), 3, 0, "b").expect("a fetch");
        assert_eq!(again.from_chunk, 1);
        assert_eq!(buffer.push(&first, 1, chunk(1), 8), Ok(false));
        assert_eq!(buffer.assign(at(1), 4, 0, "c"), None, "a complete split is not fetched again");
        assert_eq!(buffer.push(&again, 1, chunk(1), 8), Ok(true));
        assert!(buffer.push(&again, 1, chunk(1), 8).is_err());
        buffer.end_split(&again, Ok(()));
        assert_eq!(drain(&mut buffer), "0/1 end 1/0 end ");
        assert_eq!((buffer.head(), buffer.bytes), (at(2), 0));
    }

    #[test]
    fn of_two_workers_that_race_the_first_copy_of_each_chunk_counts() {
        let mut buffer = ReorderBuffer::new(at(0), 0);
        let slow = buffer.assign(at(0), 1, 0, "a").expect("a fetch");
        assert_eq!(buffer.push(&slow, 0, chunk(0), 8), Ok(true));
        let fast = buffer.assign(at(0), 2, 1, "b").expect("a fetch");
        assert_eq!(fast.from_chunk, 1);
        assert_eq!(buffer.assign(at(0), 1, 2, "a"), None, "the first fetch is running");
        assert_eq!(buffer.push(&fast, 1, chunk(1), 8), Ok(true));
        assert_eq!(buffer.push(&fast, 2, chunk(2), 8), Ok(true));
        assert_eq!((buffer.push(&slow, 1, chunk(1), 8), buffer.bytes), (Ok(true), 24));
        // The slower worker fails: the split goes on at the other one.
        buffer.end_split(&slow, Err(Error::data("its disk is bad")));
        assert!(buffer.push(&fast, 2, chunk(2), 8).is_err(), "one worker does not send twice");
        buffer.end_split(&fast, Ok(()));
        assert!(!buffer.is_wanted(&slow) && buffer.check().is_ok());
        assert_eq!(drain(&mut buffer), "0/0 0/1 0/2 end ");
        // The dispatcher voids one of two leases: its fetch is no longer wanted.
        let first = buffer.assign(at(1), 3, 0, "a").expect("a fetch");
        let second = buffer.assign(at(1), 4, 3, "b").expect("a fetch");
        assert_eq!(buffer.assign(at(1), 3, 0, "a"), None);
        assert!(buffer.is_wanted(&first) && !buffer.is_wanted(&second));
        assert_eq!(buffer.push(&second, 0, chunk(0), 8), Ok(false));
    }

    #[test]
    fn a_failure_waits_for_its_turn_and_a_resumed_head_begins_within_its_split() {
        let mut buffer = ReorderBuffer::new(at(5), 2);
        let failing = buffer.assign(at(6), 1, 0, "a").expect("a fetch");
        buffer.end_split(&failing, Err(Error::data("bad record")));
        assert_eq!(drain(&mut buffer), "");
        assert_eq!(buffer.first_incomplete(), at(5));
        let head = buffer.assign(at(5), 2, 0, "a").expect("a fetch");
        assert_eq!(head.from_chunk, 2);
        assert_eq!(buffer.push(&head, 2, chunk(0), 8), Ok(true));
        buffer.end_split(&head, Ok(()));
        assert_eq!(buffer.first_incomplete(), at(7));
        assert_eq!(drain(&mut buffer), "5/2 end bad record");
    }

    #[test]
    fn the_head_always_has_room_and_the_other_splits_share_the_budget() {
        let mut buffer = ReorderBuffer::new(at(0), 0).with_bytes_max(8);
        let later = buffer.assign(at(1), 1, 0, "a").expect("a fetch");
        assert!(buffer.has_room(at(1)));
        assert_eq!(buffer.push(&later, 0, chunk(0), 8), Ok(true));
        assert!(!buffer.has_room(at(1)) && buffer.has_room(at(0)));
        buffer.move_to(SplitKey { epoch: 1, ordinal: 0 });
        assert_eq!(buffer.bytes, 0);
    }
}

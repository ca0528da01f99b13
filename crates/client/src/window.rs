//! Chunks by (epoch, split, index), whatever order they come in. Pure: no clock, no I/O.
//!
//! A split comes from one worker, or from two that race for it: then each chunk is taken from whoever brings it first.
//! Invariants: a chunk is taken once, however many workers send it; a split's chunks are given out in order, and splits too, unless the
//! reader takes them as they come; a split that was complete under one token is not fetched again under another.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{Error, Result};
use forebay_data::{Chunk, MemoryBudget};

/// Where a split is in the order of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

/// What to fetch, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) place: Place,
    pub(crate) token: u64,
    pub(crate) address: String,
    pub(crate) from_chunk: u64,
}

/// A worker that holds a split.
#[derive(Debug)]
struct Source {
    token: u64,
    /// Whether someone fetches from it.
    fetching: bool,
    /// The index of the next chunk to come from it: at most the split's own.
    next: u64,
}

#[derive(Debug, Default)]
struct Incoming {
    sources: Vec<Source>,
    /// The index of the next chunk that is wanted.
    next: u64,
    chunks: VecDeque<(Chunk, usize)>,
    end: Option<Result<()>>,
    /// Whether all of it was given out.
    is_over: bool,
}

impl Incoming {
    /// Returns the source that a fetch is of, for as long as it is wanted.
    fn source(&mut self, of: &Fetch) -> Option<&mut Source> {
        self.sources.iter_mut().find(|s| s.token == of.token)
    }

    fn finish(&mut self, end: Result<()>) {
        self.end = Some(end);
        self.sources.clear();
    }
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Front {
    /// A chunk: the ordinal of its split, and its index there.
    Chunk(u64, u64, Chunk),
    /// A split is complete: its ordinal, and how many chunks it has.
    End(u64, u64),
    /// A split failed here.
    Failed(Error),
    /// Nothing yet.
    Empty,
}

/// The splits from the front on.
#[derive(Debug)]
pub(crate) struct Window {
    front: Place,
    /// The first chunk of the front split that is wanted, where the stream began within it.
    skip: u64,
    splits: BTreeMap<Place, Incoming>,
    bytes: usize,
    /// Chunks that wait for their turn may take this, over all splits but the first.
    bytes_max: usize,
    /// Whether splits are given out in order.
    ordered: bool,
}

impl Window {
    /// Starts at chunk `skip` of the split at `front`.
    pub(crate) fn new(front: Place, skip: u64) -> Self {
        let bytes_max = MemoryBudget::default().arrived();
        Self { front, skip, splits: BTreeMap::new(), bytes: 0, bytes_max, ordered: true }
    }

    /// Lets chunks that wait take so many bytes.
    pub(crate) fn of_bytes(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Gives out what has come of any split of the front's epoch.
    pub(crate) fn in_any_order(self) -> Self {
        Self { ordered: false, ..self }
    }

    pub(crate) fn front(&self) -> Place {
        self.front
    }

    /// A worker holds a split, and nobody else but the one with the token `beside`, if that is not 0. Returns what to
    /// fetch, unless the split is here, or is being fetched under this token.
    pub(crate) fn assign(&mut self, place: Place, token: u64, beside: u64, address: &str) -> Option<Fetch> {
        if place < self.front {
            return None;
        }
        let next = if place == self.front { self.skip } else { 0 };
        let split = self.splits.entry(place).or_insert_with(|| Incoming { next, ..Incoming::default() });
        if split.end.is_some() {
            return None;
        }
        split.sources.retain(|s| s.token == token || s.token == beside);
        if split.sources.iter().any(|s| s.token == token && s.fetching) {
            return None;
        }
        split.sources.retain(|s| s.token != token);
        split.sources.push(Source { token, fetching: true, next: split.next });
        Some(Fetch { place, token, address: address.to_owned(), from_chunk: split.next })
    }

    /// Returns what to fetch after a broken stream, from where it broke, or from where another worker has come to; `None`
    /// when nobody wants it any more.
    pub(crate) fn again(&mut self, fetch: &Fetch) -> Option<Fetch> {
        let split = self.splits.get_mut(&fetch.place)?;
        let next = split.next;
        split.source(fetch)?.next = next;
        Some(Fetch { from_chunk: next, ..fetch.clone() })
    }

    /// Says whether anybody still wants what is being fetched.
    pub(crate) fn is_wanted(&self, fetch: &Fetch) -> bool {
        self.splits.get(&fetch.place).is_some_and(|s| s.sources.iter().any(|s| s.token == fetch.token))
    }

    /// Takes a chunk, unless another worker has brought it before. Returns whether more is wanted of this one.
    ///
    /// # Errors
    /// Data when it is not the next one.
    pub(crate) fn chunk(&mut self, of: &Fetch, index: u64, chunk: Chunk, bytes: usize) -> Result<bool> {
        let Some(split) = self.splits.get_mut(&of.place) else { return Ok(false) };
        let Some(source) = split.source(of) else { return Ok(false) };
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

    /// The split is complete, or failed after the chunks that came.
    pub(crate) fn end(&mut self, of: &Fetch, end: Result<()>) {
        let Some(split) = self.splits.get_mut(&of.place) else { return };
        let (wanted, Some(source)) = (split.next, split.source(of)) else { return };
        match (source.next == wanted, end) {
            (true, end) => split.finish(end),
            // Another worker got further: what failed here did not fail there.
            (false, Err(_)) => source.fetching = false,
            (false, Ok(())) => split.finish(Err(Error::data("two workers gave a split of different lengths"))),
        }
    }

    /// The worker was lost. Returns whether that is worth a complaint.
    pub(crate) fn lost(&mut self, of: &Fetch) -> bool {
        match self.splits.get_mut(&of.place).and_then(|split| split.source(of)) {
            Some(source) => {
                source.fetching = false;
                true
            }
            None => false,
        }
    }

    /// Gives out what the front split has, or any of its epoch that has something; at the front's end moves on to the next one.
    pub(crate) fn take(&mut self) -> Front {
        let many = if self.ordered { 1 } else { usize::MAX };
        let mut splits = self.splits.range_mut(self.front..).take(many);
        let is_next = |place: &Place| place.epoch == self.front.epoch && (!self.ordered || *place == self.front);
        let has_more = |split: &Incoming| !split.chunks.is_empty() || (split.end.is_some() && !split.is_over);
        let Some((place, split)) = splits.find(|(place, split)| is_next(place) && has_more(split)) else {
            return Front::Empty;
        };
        let ordinal = place.ordinal;
        if let Some((chunk, bytes)) = split.chunks.pop_front() {
            self.bytes -= bytes;
            let index = split.next - split.chunks.len() as u64 - 1;
            return Front::Chunk(ordinal, index, chunk);
        }
        if let Some(Err(error)) = &split.end {
            return Front::Failed(error.clone());
        }
        split.is_over = true;
        let chunks = split.next;
        while self.splits.get(&self.front).is_some_and(|split| split.is_over) {
            self.move_to(Place { ordinal: self.front.ordinal + 1, ..self.front });
        }
        Front::End(ordinal, chunks)
    }

    /// Nothing before `front` is wanted any more.
    pub(crate) fn move_to(&mut self, front: Place) {
        self.front = front;
        self.skip = 0;
        let kept = self.splits.split_off(&front);
        let gone = std::mem::replace(&mut self.splits, kept);
        self.bytes -= gone.values().flat_map(|s| &s.chunks).map(|(_, bytes)| bytes).sum::<usize>();
    }

    /// Says whether a split may take in more. The front may always.
    pub(crate) fn has_room(&self, place: Place) -> bool {
        place <= self.front || self.bytes < self.bytes_max
    }

    /// Says whether what comes next is on its way.
    pub(crate) fn is_coming(&self) -> bool {
        let is_fetched = |split: &Incoming| split.sources.iter().any(|s| s.fetching);
        match self.ordered {
            true => self.splits.get(&self.front).is_some_and(is_fetched),
            false => self.splits.values().any(is_fetched),
        }
    }

    /// Returns how many splits are complete and not begun.
    pub(crate) fn ahead(&self) -> usize {
        self.splits
            .iter()
            .filter(|(place, split)| **place > self.front && split.end.is_some() && !split.is_over)
            .count()
    }

    /// Checks the invariants, in time that follows the number of splits and chunks that wait.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.splits.values().flat_map(|s| &s.chunks).map(|(_, bytes)| bytes).sum::<usize>();
        if bytes != self.bytes {
            return Err(Error::internal(format!("C-3: {} bytes are counted, and {bytes} wait", self.bytes)));
        }
        let wrong = self.splits.iter().find(|(place, split)| {
            let sources = &split.sources;
            let ahead = sources.len() > 2 || sources.iter().any(|s| s.next > split.next);
            let ended = split.end.is_some() && !sources.is_empty();
            **place < self.front || (split.chunks.len() as u64) > split.next || ahead || ended
        });
        wrong.map_or(Ok(()), |(place, _)| {
            Err(Error::internal(format!("C-1: what came of {place:?} contradicts itself")))
        })
    }

    /// Returns the first split that is not here as a whole: where a new session begins.
    pub(crate) fn missing(&self) -> Place {
        let mut place = self.front;
        while self.splits.get(&place).is_some_and(|s| s.end.is_some()) {
            place.ordinal += 1;
        }
        place
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

    fn at(ordinal: u64) -> Place {
        Place { epoch: 0, ordinal }
    }

    /// What the front gives, as text: the state after each step, whole.
    fn drain(window: &mut Window) -> String {
        let mut text = String::new();
        loop {
            match window.take() {
                Front::Chunk(ordinal, index, _) => text += &format!("{ordinal}/{index} "),
                Front::End(..) => text += "end ",
                Front::Failed(e) => return text + e.message(),
                Front::Empty => return text,
            }
        }
    }

    #[test]
    fn chunks_come_out_in_order_whoever_sent_them_and_each_once() {
        let mut window = Window::new(at(0), 0);
        let first = window.assign(at(0), 1, 0, "a").expect("a fetch");
        let second = window.assign(at(1), 2, 0, "b").expect("a fetch");
        assert_eq!(window.chunk(&second, 0, chunk(10), 8), Ok(true));
        window.end(&second, Ok(()));
        assert_eq!(window.chunk(&first, 0, chunk(0), 8), Ok(true));
        assert_eq!(drain(&mut window), "0/0 ");
        // The worker dies: another one goes on after the chunk that came, and the first says nothing more.
        assert!(window.lost(&first));
        let again = window.assign(at(0), 3, 0, "b").expect("a fetch");
        assert_eq!(again.from_chunk, 1);
        assert_eq!(window.chunk(&first, 1, chunk(1), 8), Ok(false));
        assert_eq!(window.assign(at(1), 4, 0, "c"), None, "what is complete is not fetched again");
        assert_eq!(window.chunk(&again, 1, chunk(1), 8), Ok(true));
        assert!(window.chunk(&again, 1, chunk(1), 8).is_err());
        window.end(&again, Ok(()));
        assert_eq!(drain(&mut window), "0/1 end 1/0 end ");
        assert_eq!((window.front(), window.bytes), (at(2), 0));
    }

    #[test]
    fn of_two_that_race_each_chunk_is_taken_from_whoever_brings_it_first() {
        let mut window = Window::new(at(0), 0);
        let slow = window.assign(at(0), 1, 0, "a").expect("a fetch");
        assert_eq!(window.chunk(&slow, 0, chunk(0), 8), Ok(true));
        let fast = window.assign(at(0), 2, 1, "b").expect("a fetch");
        assert_eq!(fast.from_chunk, 1);
        assert_eq!(window.assign(at(0), 1, 2, "a"), None, "the first goes on");
        assert_eq!(window.chunk(&fast, 1, chunk(1), 8), Ok(true));
        assert_eq!(window.chunk(&fast, 2, chunk(2), 8), Ok(true));
        assert_eq!((window.chunk(&slow, 1, chunk(1), 8), window.bytes), (Ok(true), 24));
        // What failed at the one that is behind did not fail at the other.
        window.end(&slow, Err(Error::data("its disk is bad")));
        assert!(window.chunk(&fast, 2, chunk(2), 8).is_err(), "one worker does not send twice");
        window.end(&fast, Ok(()));
        assert!(!window.is_wanted(&slow) && window.check().is_ok());
        assert_eq!(drain(&mut window), "0/0 0/1 0/2 end ");
        // The dispatcher takes one of them back: nobody wants that one any more.
        let first = window.assign(at(1), 3, 0, "a").expect("a fetch");
        let second = window.assign(at(1), 4, 3, "b").expect("a fetch");
        assert_eq!(window.assign(at(1), 3, 0, "a"), None);
        assert!(window.is_wanted(&first) && !window.is_wanted(&second));
        assert_eq!(window.chunk(&second, 0, chunk(0), 8), Ok(false));
    }

    #[test]
    fn a_failure_waits_for_its_turn_and_a_resumed_front_begins_inside() {
        let mut window = Window::new(at(5), 2);
        let failing = window.assign(at(6), 1, 0, "a").expect("a fetch");
        window.end(&failing, Err(Error::data("bad record")));
        assert_eq!(drain(&mut window), "");
        assert_eq!(window.missing(), at(5));
        let front = window.assign(at(5), 2, 0, "a").expect("a fetch");
        assert_eq!(front.from_chunk, 2);
        assert_eq!(window.chunk(&front, 2, chunk(0), 8), Ok(true));
        window.end(&front, Ok(()));
        assert_eq!(window.missing(), at(7));
        assert_eq!(drain(&mut window), "5/2 end bad record");
    }

    #[test]
    fn the_front_always_has_room_and_the_rest_shares_the_budget() {
        let mut window = Window::new(at(0), 0).of_bytes(8);
        let later = window.assign(at(1), 1, 0, "a").expect("a fetch");
        assert!(window.has_room(at(1)));
        assert_eq!(window.chunk(&later, 0, chunk(0), 8), Ok(true));
        assert!(!window.has_room(at(1)) && window.has_room(at(0)));
        window.move_to(Place { epoch: 1, ordinal: 0 });
        assert_eq!(window.bytes, 0);
    }
}

//! Chunks by (epoch, split, index), whatever order they come in. Pure: no clock, no I/O.
//!
//! Invariants: a chunk is taken once, however many workers send it; the front split's chunks are given out in order; a
//! split that was complete under one token is not fetched again under another.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{Error, Result};
use forebay_data::Chunk;

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

#[derive(Debug, Default)]
struct Incoming {
    token: u64,
    /// Whether someone is at it.
    fetching: bool,
    /// The index of the next chunk to come.
    next: u64,
    chunks: VecDeque<(Chunk, usize)>,
    end: Option<Result<()>>,
}

/// What the front split has to give.
#[derive(Debug)]
pub(crate) enum Front {
    /// A chunk and its index.
    Chunk(u64, Chunk),
    /// The split is complete.
    End,
    /// The split failed here.
    Failed(Error),
    /// Nothing yet.
    Empty,
}

/// The splits from the front on.
#[derive(Debug, Default)]
pub(crate) struct Window {
    front: Place,
    /// The first chunk of the front split that is wanted, where the stream began within it.
    skip: u64,
    splits: BTreeMap<Place, Incoming>,
    bytes: usize,
}

impl Window {
    /// Starts at chunk `skip` of the split at `front`.
    pub(crate) fn new(front: Place, skip: u64) -> Self {
        Self { front, skip, splits: BTreeMap::new(), bytes: 0 }
    }

    pub(crate) fn front(&self) -> Place {
        self.front
    }

    /// A worker holds a split: returns what to fetch, unless it is here, or is being fetched under this token.
    pub(crate) fn assign(&mut self, place: Place, token: u64, address: &str) -> Option<Fetch> {
        if place < self.front {
            return None;
        }
        let next = if place == self.front { self.skip } else { 0 };
        let split = self.splits.entry(place).or_insert_with(|| Incoming { next, ..Incoming::default() });
        if split.end.is_some() || token < split.token || (split.fetching && token == split.token) {
            return None;
        }
        (split.token, split.fetching) = (token, true);
        Some(Fetch { place, token, address: address.to_owned(), from_chunk: split.next })
    }

    /// Returns what to fetch after a broken stream, from where it broke; `None` when nobody wants it any more.
    pub(crate) fn again(&self, fetch: &Fetch) -> Option<Fetch> {
        let split = self.splits.get(&fetch.place).filter(|s| s.token == fetch.token && s.end.is_none())?;
        Some(Fetch { from_chunk: split.next, ..fetch.clone() })
    }

    /// Says whether anybody still wants what is being fetched.
    pub(crate) fn is_wanted(&self, fetch: &Fetch) -> bool {
        self.again(fetch).is_some()
    }

    /// Takes a chunk. Returns whether more of it is wanted.
    ///
    /// # Errors
    /// Data when it is not the next one.
    pub(crate) fn chunk(&mut self, of: &Fetch, index: u64, chunk: Chunk, bytes: usize) -> Result<bool> {
        let Some(split) = self.splits.get_mut(&of.place).filter(|s| s.token == of.token && s.end.is_none()) else {
            return Ok(false);
        };
        if index != split.next {
            return Err(Error::data(format!("chunk {index} came where chunk {} was due", split.next)));
        }
        split.next += 1;
        split.chunks.push_back((chunk, bytes));
        self.bytes += bytes;
        Ok(true)
    }

    /// The split is complete, or failed after the chunks that came.
    pub(crate) fn end(&mut self, of: &Fetch, end: Result<()>) {
        if let Some(split) = self.splits.get_mut(&of.place).filter(|s| s.token == of.token && s.end.is_none()) {
            (split.end, split.fetching) = (Some(end), false);
        }
    }

    /// The worker was lost. Returns whether another is needed.
    pub(crate) fn lost(&mut self, of: &Fetch) -> bool {
        match self.splits.get_mut(&of.place).filter(|s| s.token == of.token && s.end.is_none()) {
            Some(split) => {
                split.fetching = false;
                true
            }
            None => false,
        }
    }

    /// Gives out what the front split has; at its end moves on to the next one.
    pub(crate) fn take(&mut self) -> Front {
        let Some(split) = self.splits.get_mut(&self.front) else { return Front::Empty };
        if let Some((chunk, bytes)) = split.chunks.pop_front() {
            self.bytes -= bytes;
            let index = split.next - split.chunks.len() as u64 - 1;
            return Front::Chunk(index, chunk);
        }
        match &split.end {
            None => Front::Empty,
            Some(Err(error)) => Front::Failed(error.clone()),
            Some(Ok(())) => {
                self.move_to(Place { ordinal: self.front.ordinal + 1, ..self.front });
                Front::End
            }
        }
    }

    /// Nothing before `front` is wanted any more.
    pub(crate) fn move_to(&mut self, front: Place) {
        self.front = front;
        self.skip = 0;
        let kept = self.splits.split_off(&front);
        let gone = std::mem::replace(&mut self.splits, kept);
        self.bytes -= gone.values().flat_map(|s| &s.chunks).map(|(_, bytes)| bytes).sum::<usize>();
    }

    /// Says whether a split may take in more, with `max` bytes waiting at most. The front may always.
    pub(crate) fn has_room(&self, place: Place, max: usize) -> bool {
        place <= self.front || self.bytes < max
    }

    /// Says whether the front split is on its way.
    pub(crate) fn is_coming(&self) -> bool {
        self.splits.get(&self.front).is_some_and(|s| s.fetching)
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
            **place < self.front || (split.chunks.len() as u64) > split.next || (split.fetching && split.end.is_some())
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
                Front::Chunk(index, _) => text += &format!("{}/{index} ", window.front().ordinal),
                Front::End => text += "end ",
                Front::Failed(e) => return text + e.message(),
                Front::Empty => return text,
            }
        }
    }

    #[test]
    fn chunks_come_out_in_order_whoever_sent_them_and_each_once() {
        let mut window = Window::new(at(0), 0);
        let first = window.assign(at(0), 1, "a").expect("a fetch");
        let second = window.assign(at(1), 2, "b").expect("a fetch");
        assert_eq!(window.chunk(&second, 0, chunk(10), 8), Ok(true));
        window.end(&second, Ok(()));
        assert_eq!(window.chunk(&first, 0, chunk(0), 8), Ok(true));
        assert_eq!(drain(&mut window), "0/0 ");
        // The worker dies: another one goes on after the chunk that came, and the first says nothing more.
        assert!(window.lost(&first));
        let again = window.assign(at(0), 3, "b").expect("a fetch");
        assert_eq!(again.from_chunk, 1);
        assert_eq!(window.chunk(&first, 1, chunk(1), 8), Ok(false));
        assert_eq!(window.assign(at(1), 4, "c"), None, "what is complete is not fetched again");
        assert_eq!(window.chunk(&again, 1, chunk(1), 8), Ok(true));
        assert!(window.chunk(&again, 1, chunk(1), 8).is_err());
        window.end(&again, Ok(()));
        assert_eq!(drain(&mut window), "0/1 end 1/0 end ");
        assert_eq!((window.front(), window.bytes), (at(2), 0));
    }

    #[test]
    fn a_failure_waits_for_its_turn_and_a_resumed_front_begins_inside() {
        let mut window = Window::new(at(5), 2);
        let failing = window.assign(at(6), 1, "a").expect("a fetch");
        window.end(&failing, Err(Error::data("bad record")));
        assert_eq!(drain(&mut window), "");
        assert_eq!(window.missing(), at(5));
        let front = window.assign(at(5), 2, "a").expect("a fetch");
        assert_eq!(front.from_chunk, 2);
        assert_eq!(window.chunk(&front, 2, chunk(0), 8), Ok(true));
        window.end(&front, Ok(()));
        assert_eq!(window.missing(), at(7));
        assert_eq!(drain(&mut window), "5/2 end bad record");
    }

    #[test]
    fn the_front_always_has_room_and_the_rest_shares_the_budget() {
        let mut window = Window::new(at(0), 0);
        let later = window.assign(at(1), 1, "a").expect("a fetch");
        assert!(window.has_room(at(1), 8));
        assert_eq!(window.chunk(&later, 0, chunk(0), 8), Ok(true));
        assert!(!window.has_room(at(1), 8) && window.has_room(at(0), 8));
        window.move_to(Place { epoch: 1, ordinal: 0 });
        assert_eq!(window.bytes, 0);
    }
}

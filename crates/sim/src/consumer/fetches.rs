//! The streams of chunks that a consumer has open: what comes is taken once there is room for it.

use std::collections::VecDeque;

use forebay_client::simulate::{Fetching, StreamEnd};
use forebay_data::Chunk;

use super::CHUNK_BYTES;
use crate::fault::Node;
use crate::net::Kind;
use crate::payload::Payload;
use crate::planted::Planted;
use crate::worker::address;
use crate::world::World;

/// A stream of chunks.
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) place: (u64, u64),
    /// Chunks that wait for room.
    pub(super) waiting: VecDeque<(u64, Chunk)>,
    /// How it ended, after those.
    pub(super) end: Option<StreamEnd>,
}

impl World<'_> {
    pub(super) fn fetch(&mut self, i: usize, fetching: &Fetching) {
        let place = (fetching.ticket.epoch, fetching.ticket.ordinal);
        let mut ticket = fetching.ticket;
        let consumer = &mut self.consumers[i];
        if self.planted == Some(Planted::ReplayOff) && consumer.taken.contains_key(&place) {
            return;
        }
        consumer.taken.entry(place).or_default();
        let is_raced = consumer.fetches.values().any(|stream| stream.place == place);
        let twice = self.planted == Some(Planted::BothDelivered) && is_raced;
        if twice || self.planted == Some(Planted::DeduplicationOff) {
            ticket.from_chunk = 0;
        }
        let Some((worker, port)) = address(&fetching.address) else {
            return self.fail("protocol", format!("{:?} is no address", fetching.address));
        };
        let id = self.open(Node::Consumer(i), Node::Worker(worker), Kind::Get { port }, Payload::Get(ticket));
        let stream = Stream { id: fetching.id, place, waiting: VecDeque::new(), end: None };
        self.consumers[i].fetches.insert(id, stream);
    }

    /// Takes what has come and has room; returns whether anything has changed.
    pub(super) fn take_chunks(&mut self, i: usize) -> bool {
        let pipes: Vec<_> = self.consumers[i].fetches.keys().copied().collect();
        pipes.into_iter().fold(false, |changed, pipe| self.take_from(i, pipe) | changed)
    }

    fn take_from(&mut self, i: usize, pipe: u64) -> bool {
        let mut changed = false;
        loop {
            let consumer = &mut self.consumers[i];
            let place = consumer.fetches.get(&pipe).map(|stream| stream.place);
            let is_raced = consumer.fetches.values().filter(|stream| Some(stream.place) == place).count() > 1;
            let (Some(machine), Some(stream)) = (&mut consumer.machine, consumer.fetches.get_mut(&pipe)) else {
                return changed;
            };
            if stream.waiting.is_empty() && stream.end.is_none() {
                return changed;
            }
            match machine.has_room(stream.id) {
                Some(false) => {
                    self.felt("streams held up");
                    return changed;
                }
                None => return self.fetch_ended(i, pipe, StreamEnd::Unwanted),
                Some(true) => changed = true,
            }
            let Some((mut index, chunk)) = stream.waiting.pop_front() else {
                let end = stream.end.take().unwrap_or(StreamEnd::Unwanted);
                return self.fetch_ended(i, pipe, end);
            };
            let taken = consumer.taken.entry(stream.place).or_default();
            let twice = self.planted == Some(Planted::BothDelivered) && is_raced;
            if twice || self.planted == Some(Planted::DeduplicationOff) {
                index = machine.next_index(stream.id).unwrap_or(index);
            }
            *taken += 1;
            match machine.chunk(stream.id, index, chunk, CHUNK_BYTES) {
                Ok(true) => self.send(pipe, 0, Payload::Taken),
                Ok(false) => return self.fetch_ended(i, pipe, StreamEnd::Unwanted),
                Err(error) => return self.fetch_ended(i, pipe, StreamEnd::Connection(error)),
            }
        }
    }

    fn fetch_ended(&mut self, i: usize, pipe: u64, end: StreamEnd) -> bool {
        let consumer = &mut self.consumers[i];
        let Some(stream) = consumer.fetches.remove(&pipe) else { return true };
        let again = consumer.machine.as_mut().and_then(|machine| machine.ended(stream.id, end));
        self.close(pipe, 0, Payload::Closed);
        if let Some(fetching) = again {
            self.felt("streams taken up again");
            self.fetch(i, &fetching);
        }
        true
    }
}

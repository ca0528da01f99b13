//! The open chunk streams of a consumer: it accepts arrived chunks once there is room for them.

use forebay_client::simulate::{Borrowing, Fetching, StreamEnd};

use super::node::{CHUNK_BYTES, ConsumerTimer, Stream, Taken};
use crate::faults::planted::Planted;
use crate::net::payload::{Payload, SentChunk};
use crate::net::streams::Kind;
use crate::roles::node::Node;
use crate::roles::worker::node::address;
use crate::world::World;

/// The time to finish a chunk in ms, if that is not done at once.
const FINISH: std::ops::Range<u64> = 1..30;

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
        let borrowing = self.borrow_from(i, worker);
        let get = Payload::Get(ticket, borrowing.as_ref().map(Borrowing::reader));
        let id = self.open(Node::Consumer(i), Node::Worker(worker), Kind::Get { port }, get);
        let (waiting, finishing, end, cut) = Default::default();
        let stream = Stream { id: fetching.id, place, waiting, finishing, end, cut, borrowing };
        self.consumers[i].fetches.insert(id, stream);
    }

    /// Accepts arrived chunks with room; returns whether anything has changed.
    pub(super) fn take_chunks(&mut self, i: usize) -> bool {
        let pipes: Vec<_> = self.consumers[i].fetches.keys().copied().collect();
        pipes.into_iter().fold(false, |changed, pipe| self.take_from(i, pipe) | changed)
    }

    fn take_from(&mut self, i: usize, pipe: u64) -> bool {
        let tail = self.jobs[self.scenario.consumers[i].job].tail.clone();
        let mut changed = false;
        loop {
            let consumer = &mut self.consumers[i];
            let (Some(machine), Some(stream)) = (&mut consumer.machine, consumer.fetches.get_mut(&pipe)) else {
                return changed;
            };
            if stream.finishing.is_some() || (stream.waiting.is_empty() && stream.end.is_none()) {
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
            let Some(sent) = stream.waiting.pop_front() else {
                let end = stream.end.take().unwrap_or(StreamEnd::Unwanted);
                return self.fetch_ended(i, pipe, end);
            };
            let Some(arrived) = self.taken(i, pipe, sent) else { return true };
            let Some(stream) = self.consumers[i].fetches.get_mut(&pipe) else { return true };
            // Small chunks are finished on arrival.
            if !tail.is_finished(arrived.2) && self.dice.percent(50) {
                stream.finishing = Some(arrived);
                let time = self.dice.within(FINISH);
                self.consumer_later(i, time, ConsumerTimer::Finished(pipe));
                return changed;
            }
            if !self.hand_over(i, pipe, arrived) {
                return true;
            }
        }
    }

    /// Takes a chunk off its stream, with its memory.
    fn taken(&mut self, i: usize, pipe: u64, sent: SentChunk) -> Option<Taken> {
        let SentChunk { index, chunk, ops, lent } = sent;
        let Some(lent) = lent else { return Some(Taken(index, chunk, ops)) };
        let mut borrowing = self.consumers[i].fetches.get_mut(&pipe)?.borrowing.take()?;
        let chunk = self.borrowed(i, &mut borrowing, lent, chunk);
        self.consumers[i].fetches.get_mut(&pipe)?.borrowing = Some(borrowing);
        Some(Taken(index, chunk, ops))
    }

    /// Continues after a thread has finished a chunk.
    pub(super) fn finished(&mut self, i: usize, pipe: u64) {
        let stream = self.consumers[i].fetches.get_mut(&pipe);
        if let Some(arrived) = stream.and_then(|stream| stream.finishing.take()) {
            self.hand_over(i, pipe, arrived);
        }
    }

    /// Passes a chunk to the machine; returns whether the stream goes on.
    fn hand_over(&mut self, i: usize, pipe: u64, Taken(mut index, chunk, ops): Taken) -> bool {
        let job = self.jobs[self.scenario.consumers[i].job].clone();
        let consumer = &mut self.consumers[i];
        let Some((id, place)) = consumer.fetches.get(&pipe).map(|stream| (stream.id, stream.place)) else {
            return false;
        };
        let is_raced = consumer.fetches.values().filter(|stream| stream.place == place).count() > 1;
        let Some(machine) = &mut consumer.machine else { return false };
        if job.columns(ops).is_none_or(|columns| columns != chunk.schema()) {
            let schema = chunk.schema().clone();
            self.fail("cut", format!("consumer {i} got {schema} of {place:?} as what {ops} row ops give"));
            return false;
        }
        let twice = self.planted == Some(Planted::BothDelivered) && is_raced;
        if twice || self.planted == Some(Planted::DeduplicationOff) {
            index = machine.next_index(id).unwrap_or(index);
        }
        *consumer.taken.entry(place).or_default() += 1;
        let first = *consumer.cut.entry(place).or_insert(ops);
        let done = match self.planted {
            Some(Planted::CutOfReader) => job.tail.resolve_boundary(None),
            Some(Planted::CutOfSplit) => first,
            _ => ops,
        };
        let taken = machine.chunk(id, index, chunk, done, CHUNK_BYTES);
        self.felt_cut(i, pipe, first, ops);
        match taken {
            Ok(true) => self.send(pipe, 0, Payload::Taken),
            Ok(false) => _ = self.fetch_ended(i, pipe, StreamEnd::Unwanted),
            Err(end) => _ = self.fetch_ended(i, pipe, end),
        }
        self.consumers[i].fetches.contains_key(&pipe)
    }

    /// Counts the boundaries of a chunk and of the others in its window, if they differ.
    fn felt_cut(&mut self, i: usize, pipe: u64, first: u32, ops: u32) {
        let job = self.jobs[self.scenario.consumers[i].job].clone();
        let Some(stream) = self.consumers[i].fetches.get_mut(&pipe).filter(|_| job.places() > 1) else { return };
        stream.cut = Some(ops);
        let place = stream.place;
        let others = self.consumers[i].fetches.values().filter(|other| other.cut.is_some_and(|cut| cut != ops));
        let (mut is_raced, mut is_mixed) = (false, false);
        others.for_each(|other| *(if other.place == place { &mut is_raced } else { &mut is_mixed }) = true);
        let felt = [
            (!job.tail.is_finished(ops), "chunks finished by readers"),
            (first != ops, "splits cut at two places"),
            (is_raced, "races cut at two places"),
            (is_mixed, "windows cut at two places"),
        ];
        felt.into_iter().filter(|(is_felt, _)| *is_felt).for_each(|(_, what)| self.felt(what));
    }

    fn fetch_ended(&mut self, i: usize, pipe: u64, end: StreamEnd) -> bool {
        let consumer = &mut self.consumers[i];
        let Some(stream) = consumer.fetches.remove(&pipe) else { return true };
        let again = consumer.machine.as_mut().and_then(|machine| machine.stream_ended(stream.id, end));
        self.stream_over(stream.borrowing);
        self.close(pipe, 0, Payload::Closed);
        if let Some(fetching) = again {
            self.felt("streams taken up again");
            self.fetch(i, &fetching);
        }
        true
    }
}

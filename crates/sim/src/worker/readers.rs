//! Who reads from a worker: tickets that wait for their lease, and streams of chunks.

use forebay_core::Error;
use forebay_proto::Ticket;
use forebay_worker::simulate::{Door, Reader, Worker};

use super::place;
use crate::fault::Node;
use crate::payload::Payload;
use crate::planted::Planted;
use crate::world::World;

/// Chunks that may be on their way on one stream.
const AHEAD: u32 = 3;

/// A stream that somebody has opened.
pub(super) enum Serving {
    /// A ticket that waits for its lease, and until when.
    Knocking(Ticket, u64),
    /// A reader: the ticket that it showed, what it may be sent, whether it is lent memory.
    Open(Reader, Ticket, u32, bool),
}

impl World<'_> {
    /// Sends a reader what there is for it.
    pub(super) fn serve(&mut self, i: usize, id: u64) {
        let worker = &mut self.workers[i];
        let Some(machine) = &worker.machine else { return };
        let Some(serving) = worker.serving.get_mut(&id) else { return };
        if let Serving::Knocking(ticket, until) = serving {
            let mut shown = *ticket;
            if self.planted == Some(Planted::FencingOff) {
                let held =
                    machine.leases().into_iter().find(|l| (l.job, l.consumer, l.epoch, l.ordinal) == place(ticket));
                shown.token = held.map_or(shown.token, |l| l.token);
            }
            match machine.knock(&shown) {
                Door::Wait if self.now < *until => return,
                Door::Wait => return self.refuse(i, id, Worker::refuse()),
                Door::Refused(error) => return self.refuse(i, id, error),
                Door::Open(reader) => {
                    let lent = matches!(self.net.pipes.get(&id).map(|p| p.ends[0].node), Some(Node::Consumer(c)) if self.scenario.consumers[c].lent);
                    *serving = Serving::Open(reader, *ticket, AHEAD, lent);
                }
            }
        }
        while let Some(Serving::Open(reader, ticket, credit, lent)) = self.workers[i].serving.get_mut(&id) {
            if *credit == 0 {
                return;
            }
            let (next, ticket) = (reader.next(*lent), *ticket);
            match next {
                Ok(Some(None)) => return,
                Ok(Some(Some((index, chunk, ops)))) => {
                    *credit -= 1;
                    self.check_fence(i, &ticket);
                    self.send(id, 1, Payload::Chunk(index, chunk, ops));
                }
                Ok(None) => {
                    self.workers[i].serving.remove(&id);
                    return self.close(id, 1, Payload::Complete);
                }
                Err(error) => return self.refuse(i, id, error),
            }
        }
    }

    fn refuse(&mut self, i: usize, id: u64, error: Error) {
        self.felt("tickets refused");
        self.workers[i].serving.remove(&id);
        self.close(id, 1, Payload::Failed(error));
    }

    /// A worker serves only the lease it holds.
    fn check_fence(&mut self, i: usize, ticket: &Ticket) {
        if self.workers[i].book.get(&ticket.token) != Some(&place(ticket)) {
            self.fail("fence", format!("worker {i} serves {ticket:?}, which it does not hold"));
        }
    }
}

//! The consumers of a worker: tickets that wait for their lease, and streams of chunks.

use forebay_core::Error;
use forebay_proto::Ticket;
use forebay_worker::simulate::{Sent, TicketOutcome, Worker};

use super::node::{Serving, place};
use crate::faults::planted::Planted;
use crate::net::payload::{Payload, SentChunk};
use crate::world::World;

/// The most chunks on their way on one stream.
const AHEAD: u32 = 3;

impl World<'_> {
    /// Sends a consumer its ready chunks.
    pub(super) fn serve(&mut self, i: usize, id: u64) {
        let worker = &mut self.workers[i];
        let Some(machine) = &mut worker.machine else { return };
        let Some(serving) = worker.serving.get_mut(&id) else { return };
        if let Serving::Knocking(ticket, until, of) = serving {
            let mut shown = *ticket;
            if self.planted == Some(Planted::FencingOff) {
                let held =
                    machine.leases().into_iter().find(|l| (l.job, l.consumer, l.epoch, l.ordinal) == place(ticket));
                shown.token = held.map_or(shown.token, |l| l.token);
            }
            match machine.open(&shown) {
                TicketOutcome::Wait if self.now < *until => return,
                TicketOutcome::Wait => return self.refuse(i, id, Worker::not_held()),
                TicketOutcome::Refused(error) => return self.refuse(i, id, error),
                TicketOutcome::Open(reader) => {
                    let lending = of.filter(|of| machine.stream_begins(*of));
                    *serving = Serving::Open(reader, *ticket, AHEAD, lending);
                }
            }
        }
        while let Some(Serving::Open(reader, ticket, credit, lending)) = self.workers[i].serving.get_mut(&id) {
            if *credit == 0 {
                return;
            }
            let (next, ticket, lending) = (reader.next(lending.is_some()), *ticket, *lending);
            match next {
                Ok(Some(None)) => return,
                Ok(Some(Some(Sent { index, chunk, ops_on_worker, shared }))) => {
                    *credit -= 1;
                    self.check_fence(i, &ticket);
                    self.check_unwritten(i, &chunk);
                    let lent = lending.and_then(|of| self.lend(i, of, &chunk, shared));
                    self.send(id, 1, Payload::Chunk(SentChunk { index, chunk, ops: ops_on_worker, lent }));
                }
                Ok(None) => {
                    self.unserve(i, id);
                    return self.close(id, 1, Payload::Complete);
                }
                Err(error) => return self.refuse(i, id, error),
            }
        }
    }

    /// Stops serving a stream.
    pub(super) fn unserve(&mut self, i: usize, id: u64) {
        let worker = &mut self.workers[i];
        if let (Some(Serving::Open(.., Some(of))), Some(machine)) = (worker.serving.remove(&id), &mut worker.machine) {
            machine.stream_ends(of);
        }
    }

    fn refuse(&mut self, i: usize, id: u64, error: Error) {
        self.felt("tickets refused");
        self.unserve(i, id);
        self.close(id, 1, Payload::Failed(error));
    }

    /// Checks that a worker serves only the lease that it holds.
    fn check_fence(&mut self, i: usize, ticket: &Ticket) {
        if self.workers[i].book.get(&ticket.token) != Some(&place(ticket)) {
            self.fail("fence", format!("worker {i} serves {ticket:?}, which it does not hold"));
        }
    }
}

//! The network: streams over connections, as in gRPC.
//!
//! Within a stream messages come in order, each once, until it breaks: then a suffix of each direction is lost, and
//! both ends notice, each in its own time. Streams have no order among each other. A blocked message waits (TCP sends
//! it again) until the way is free, or until keep-alives report that the peer is gone. A stopped process receives
//! nothing; its messages meanwhile stay in its socket.

pub(super) mod payload;
pub(crate) mod streams;

use forebay_core::rng::mix64;

use crate::roles::node::Node;
use crate::world::{Event, World};
use payload::Payload;
use streams::{End, Kind, Pipe};

/// The time within which keep-alives detect a lost peer.
const KEEPALIVE: std::ops::Range<u64> = 10_000..15_000;
/// The time limits of an attempt to reach a dispatcher, and to connect to a worker.
const ATTEMPT: u64 = 3_000;
const CONNECT: u64 = 2_000;
/// The time that counts as never.
pub(crate) const NEVER: u64 = u64::MAX;

impl World<'_> {
    /// Opens a stream with its first message.
    pub(crate) fn open(&mut self, from: Node, to: Node, kind: Kind, first: Payload) -> u64 {
        self.net.opened += 1;
        let id = self.net.opened;
        let ends = [End { node: from, life: self.life(from), open: true }, End { node: to, life: 0, open: true }];
        let (queues, last, cut) = (Default::default(), [self.now; 2], [NEVER; 2]);
        self.net.pipes.insert(id, Pipe { kind, ends, accepted: false, queues, last, cut });
        // Connecting, and requesting the version, take a round trip.
        let round_trip = self.latency() + self.latency();
        self.send_late(id, 0, first, round_trip);
        let patience = match kind {
            // On an existing connection, only keep-alives detect that no answer comes.
            Kind::Get { .. } if self.dice.percent(50) => self.dice.within(KEEPALIVE),
            Kind::Get { .. } => CONNECT,
            _ => ATTEMPT,
        };
        self.at(self.now + patience, Event::GiveUp(id));
        id
    }

    pub(crate) fn latency(&mut self) -> u64 {
        let (until, late) = self.net.slow;
        let late = if self.now < until {
            self.felt("slow");
            late
        } else {
            0
        };
        self.dice.within(0..self.scenario.latency + late + 1)
    }

    /// Sends from a side of a stream, unless that side has closed it.
    pub(crate) fn send(&mut self, id: u64, side: usize, payload: Payload) {
        self.send_late(id, side, payload, 0);
    }

    fn send_late(&mut self, id: u64, side: usize, payload: Payload, late: u64) {
        let arrives = self.now + late + self.latency();
        let Some(pipe) = self.net.pipes.get_mut(&id).filter(|p| p.ends[side].open) else { return };
        let to = 1 - side;
        pipe.last[to] = pipe.last[to].max(arrives);
        let arrives = pipe.last[to];
        pipe.queues[to].push_back((arrives, payload));
        self.at(arrives, Event::Arrive(id, to));
    }

    /// Sends a last message and closes this side.
    pub(crate) fn close(&mut self, id: u64, side: usize, last: Payload) {
        self.send(id, side, last);
        self.drop_end(id, side);
    }

    fn drop_end(&mut self, id: u64, side: usize) {
        let Some(pipe) = self.net.pipes.get_mut(&id) else { return };
        pipe.ends[side].open = false;
        pipe.queues[side].clear();
        if !pipe.ends[1 - side].open {
            self.net.pipes.remove(&id);
        }
    }

    /// Takes the next message of a stream's side; requeues a message that cannot arrive now.
    pub(crate) fn arrive(&mut self, id: u64, side: usize) {
        let Some(pipe) = self.net.pipes.get(&id) else { return };
        let (to, from) = (pipe.ends[side], pipe.ends[1 - side].node);
        let paused = self.paused(to.node);
        if paused > self.now {
            return self.at(paused, Event::Arrive(id, side));
        }
        let free = self.net.blocked.get(&(from, to.node)).copied().unwrap_or(0);
        if free > self.now {
            self.felt("partition");
            if let Some((arrives, _)) = self.net.pipes.get_mut(&id).and_then(|p| p.queues[side].front_mut()) {
                // If the connection breaks meanwhile, the message is lost with it.
                *arrives = free;
            }
            return self.at(free, Event::Arrive(id, side));
        }
        let Some(pipe) = self.net.pipes.get_mut(&id) else { return };
        let Some((arrives, payload)) = pipe.queues[side].pop_front() else { return };
        if arrives > pipe.cut[side] || !to.open {
            // All messages after a lost one are lost, too.
            pipe.cut[side] = 0;
            return;
        }
        if side == 1 && !pipe.accepted {
            let kind = pipe.kind;
            return self.accept(id, to.node, kind, payload);
        }
        if self.is_alive(to.node, to.life) {
            self.heard(id, side, to.node, payload);
        }
    }

    /// Delivers a stream's first message to its server.
    fn accept(&mut self, id: u64, node: Node, kind: Kind, payload: Payload) {
        let listens = match kind {
            Kind::Get { port } => self.port(node) == Some(port),
            _ => true,
        };
        let life = self.life(node);
        if !self.is_alive(node, life) || !listens {
            // A machine that is gone does not even refuse: the attempt ends at its time limit.
            if !self.is_silent(node) {
                let later = self.now + self.latency();
                self.at(later, Event::Reset(id, 0));
            }
            return;
        }
        if let Some(pipe) = self.net.pipes.get_mut(&id) {
            pipe.accepted = true;
            pipe.ends[1].life = life;
        }
        self.heard(id, 1, node, payload);
    }

    fn heard(&mut self, id: u64, side: usize, node: Node, payload: Payload) {
        let code = mix64(id << 1 | side as u64) ^ payload.code();
        self.note(code, || format!("{node:?} <- #{id} {payload:?}"));
        match node {
            Node::Dispatcher => self.dispatcher_heard(id, payload),
            Node::Worker(i) => self.worker_heard(i, id, payload),
            Node::Consumer(i) => self.consumer_heard(i, id, payload),
        }
    }

    /// Ends an attempt without an answer in time.
    pub(crate) fn give_up(&mut self, id: u64) {
        let Some(pipe) = self.net.pipes.get_mut(&id).filter(|p| !p.accepted) else { return };
        pipe.ends[1].open = false;
        match pipe.ends[0].open {
            true => self.reset(id, 0),
            false => drop(self.net.pipes.remove(&id)),
        }
    }

    /// Lets a side notice that its stream is broken.
    pub(crate) fn reset(&mut self, id: u64, side: usize) {
        let Some(end) = self.net.pipes.get(&id).map(|p| p.ends[side]).filter(|e| e.open) else { return };
        let paused = self.paused(end.node);
        if paused > self.now {
            return self.at(paused, Event::Reset(id, side));
        }
        self.drop_end(id, side);
        if side == 1 && end.life == 0 || !self.is_alive(end.node, end.life) {
            return;
        }
        self.note(mix64(id) ^ side as u64, || format!("{:?} <- #{id} is broken", end.node));
        match end.node {
            Node::Dispatcher => self.dispatcher_lost(id),
            Node::Worker(i) => self.worker_lost(i, id),
            Node::Consumer(i) => self.consumer_lost(i, id),
        }
    }

    /// Breaks a stream: messages on their way may be lost, and each side notices after a while.
    pub(crate) fn sever(&mut self, id: u64, within: std::ops::Range<u64>) {
        for side in 0..2 {
            let at = self.now + self.dice.within(within.clone());
            let Some(pipe) = self.net.pipes.get_mut(&id) else { return };
            pipe.cut[side] = pipe.cut[side].min(at);
            self.at(at, Event::Reset(id, side));
        }
    }

    /// Resets every connection between two processes.
    pub(crate) fn reset_between(&mut self, a: Node, b: Node) {
        for id in self.net.between(a, b) {
            self.felt("reset");
            let within = 0..self.scenario.latency + 2;
            self.sever(id, within);
        }
    }

    /// Blocks one direction for a while.
    pub(crate) fn block(&mut self, from: Node, to: Node, until: u64) {
        let way = self.net.blocked.entry((from, to)).or_default();
        *way = (*way).max(until);
        let notice = self.now + self.dice.within(KEEPALIVE);
        self.at(notice, Event::KeepAlive(from, Some(to)));
    }

    /// Schedules the keep-alives that detect a stopped process.
    pub(crate) fn stalled(&mut self, node: Node) {
        let notice = self.now + self.dice.within(KEEPALIVE);
        self.at(notice, Event::KeepAlive(node, None));
    }

    /// Breaks the streams whose keep-alives were not answered, if the trouble is still there.
    pub(crate) fn keep_alive(&mut self, from: Node, to: Option<Node>) {
        let ids = match to {
            Some(to) if self.net.blocked.get(&(from, to)).is_some_and(|until| *until > self.now) => {
                self.net.between(from, to)
            }
            None if self.paused(from) > self.now => {
                self.net.of(from, self.life(from)).into_iter().map(|(id, _)| id).collect()
            }
            _ => return,
        };
        ids.into_iter().for_each(|id| self.sever(id, 0..50));
    }

    /// Ends the streams of a process that is gone. Its machine notifies the peers, or is gone with it.
    pub(crate) fn gone(&mut self, node: Node, life: u32, silent: bool) {
        for (id, side) in self.net.of(node, life) {
            let notice = self.now + if silent { self.dice.within(KEEPALIVE) } else { self.latency() };
            let cut = self.now + self.latency();
            if let Some(pipe) = self.net.pipes.get_mut(&id) {
                pipe.cut[1 - side] = pipe.cut[1 - side].min(cut);
            }
            self.drop_end(id, side);
            self.at(notice.max(cut), Event::Reset(id, 1 - side));
        }
    }

    /// Lets the machine of a new process refuse the streams of older ones.
    pub(crate) fn back(&mut self, node: Node) {
        let stale = |p: &&Pipe| (0..2).any(|s| p.ends[s].node == node && !p.ends[s].open && p.ends[1 - s].open);
        let ids: Vec<_> = self.net.pipes.iter().filter(|(_, p)| stale(p)).map(|(id, _)| *id).collect();
        for id in ids {
            self.sever(id, 0..5_000);
        }
    }
}

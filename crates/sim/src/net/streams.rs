//! The streams of the network, and the blocked ways.

use std::collections::{BTreeMap, VecDeque};

use crate::net::payload::Payload;
use crate::roles::node::Node;

/// The purpose of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Work,
    Consume,
    Open,
    /// A split's chunks, from the process with this port.
    Get {
        port: u32,
    },
}

/// One end of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) node: Node,
    pub(crate) life: u32,
    pub(crate) open: bool,
}

/// A stream. Side 0 opened it, side 1 serves it.
pub(crate) struct Pipe {
    pub(crate) kind: Kind,
    pub(crate) ends: [End; 2],
    pub(crate) accepted: bool,
    /// The messages on their way to each side, with their arrival times.
    pub(super) queues: [VecDeque<(u64, Payload)>; 2],
    pub(super) last: [u64; 2],
    /// Messages that arrive later at a side are lost.
    pub(super) cut: [u64; 2],
}

/// All streams, and the blocked ways.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) pipes: BTreeMap<u64, Pipe>,
    pub(super) opened: u64,
    /// The time until which no message gets from one process to another.
    pub(super) blocked: BTreeMap<(Node, Node), u64>,
    /// The time until which messages are late, and the longest delay.
    pub(crate) slow: (u64, u64),
}

impl Net {
    /// Returns the open streams of a process.
    pub(crate) fn of(&self, node: Node, life: u32) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        for (id, pipe) in &self.pipes {
            let ours = |e: &End| e.open && e.node == node && e.life == life;
            found.extend((0..2).filter(|side| ours(&pipe.ends[*side])).map(|side| (*id, side)));
        }
        found
    }

    /// Returns the streams between two processes.
    pub(super) fn between(&self, a: Node, b: Node) -> Vec<u64> {
        let between =
            |p: &Pipe| (p.ends[0].node, p.ends[1].node) == (a, b) || (p.ends[0].node, p.ends[1].node) == (b, a);
        self.pipes.iter().filter(|(_, p)| between(p)).map(|(id, _)| *id).collect()
    }
}

//! I6: once all is read and no fault is left, every process has released its resources.

use crate::net::streams::{Kind, Pipe};
use crate::roles::node::Node;
use crate::world::World;

impl World<'_> {
    /// Checks for leftovers at the end.
    pub(crate) fn check_base_line(&mut self) {
        self.check_dispatcher_base_line();
        self.check_workers_base_line();
        self.check_ledger();
        self.check_loans_base_line();
        // An attempt that was never answered, and for which no process waits, is no stream.
        let vain = |p: &Pipe| !p.accepted && !p.ends[0].open;
        let works = |p: &Pipe| p.kind == Kind::Work && p.ends.iter().all(|e| self.is_alive(e.node, e.life));
        // A local worker whose job was cancelled keeps trying and is refused.
        let refused =
            |p: &Pipe| matches!(p.ends[0].node, Node::Worker(i) if p.kind == Kind::Work && self.is_refused(i));
        let alive = |p: &Pipe| works(p) || vain(p) || refused(p);
        let left: Vec<_> =
            self.net.pipes.iter().filter(|(_, p)| !alive(p)).map(|(id, p)| (*id, p.kind, p.ends)).collect();
        if !left.is_empty() {
            self.fail("I6", format!("streams that are still open: {left:?}"));
        }
    }
}

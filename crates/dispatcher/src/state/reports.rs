//! Reports of workers and consumers in heartbeats, and the machines that accept them.

use forebay_core::Ticks;
use forebay_proto::{
    ConsumerHeartbeat, ConsumerHeartbeatReply, Spent, WorkerHeartbeat, WorkerHeartbeatReply, consumer_event,
};

use super::effect::Effect;
use super::input::SessionId;
use super::leases::views::Reporter;
use super::limits::REPORTED_MAX;
use super::router::State;
use crate::records::At;

impl State {
    /// Accepts a worker's heartbeat. Ignores a local worker that its consumer did not start.
    pub(in crate::state) fn worker_heartbeat(
        &mut self,
        now: Ticks,
        session: SessionId,
        said: &WorkerHeartbeat,
        out: &mut Vec<Effect>,
    ) {
        if !self.leases.is_foreign(session) {
            self.take_reports(now, session, said);
            self.leases.note_held_up(session, &said.held_up);
        }
        let due = self.leases.answer_is_due(now, session).and_then(|id| self.leases.worker(id));
        let answer = due.map(|worker| WorkerHeartbeatReply {
            peers: self.fleet.peers_update(&worker, |id| self.leases.worker(id)),
        });
        self.leases.worker_heartbeat(now, session, said, answer, out);
    }

    /// Accepts a worker's reports on jobs. Ignores a report on another tenant's job.
    fn take_reports(&mut self, now: Ticks, session: SessionId, said: &WorkerHeartbeat) {
        let Some(worker) = self.leases.worker_of(session) else { return };
        for &Spent { job, compute_us, rows } in &said.spent {
            let spent = Spent { job, compute_us: compute_us.min(REPORTED_MAX), rows: rows.min(REPORTED_MAX) };
            let Some((_, reporter)) = self.leases.reported(&worker, job) else { continue };
            self.load.spend(reporter, &spent);
            if reporter == Reporter::Fleet {
                self.fleet.spend(&worker, &spent);
            }
        }
        for sent in &said.sent {
            // Bytes that a local worker sends stay within its host.
            if matches!(self.leases.reported(&worker, sent.job), Some((_, Reporter::Fleet))) {
                self.load.send(sent);
            }
        }
        for caching in said.caching.iter().filter(|caching| self.leases.reported(&worker, caching.job).is_some()) {
            self.load.note_caching(worker.id, caching.job, &caching.json);
        }
        for said in &said.ops {
            let Some((job, reporter)) = self.leases.reported(&worker, said.job) else { continue };
            let at = if reporter == Reporter::Fleet { At::Workers } else { At::Local };
            self.load.note_op_costs(now, job, at, &said.ops);
        }
    }

    /// Accepts a consumer's heartbeat, and answers it.
    pub(in crate::state) fn consumer_heartbeat(
        &mut self,
        now: Ticks,
        session: SessionId,
        said: &ConsumerHeartbeat,
        out: &mut Vec<Effect>,
    ) {
        let Some(key) = self.leases.consumer_heartbeat(now, session, said) else { return };
        self.load.consumer_heartbeat(now, key.0, key.1, said);
        if let Some(job) = self.leases.record(key.0).filter(|_| !said.ops.is_empty()) {
            self.load.note_op_costs(now, job, At::Consumer, &said.ops);
        }
        let is_alone = said.spare.is_some_and(|spare| spare.asks) && !self.leases.has_fleet_workers(key);
        let local_threads = self.scaling.local_threads(key, said, is_alone);
        let reply = ConsumerHeartbeatReply { local_threads, missing: self.leases.missing(key) };
        out.push(Effect::Consumer(session, consumer_event::Event::Heartbeat(reply)));
    }
}

//! Random histories of the state against its invariants.

use super::*;

impl World {
    fn step(&mut self, (kind, a, b): (u8, u8, u8)) {
        let (w, r) = (a as usize % WORKERS, a as usize % self.consumers.len());
        let worker = self.workers[w].session;
        let consumer = self.consumers[r].session;
        match (kind % 16, worker, consumer) {
            (0, None, _) => self.hello(w),
            (1, None, _) => {
                // A new process with the old one's id holds nothing.
                self.workers[w].held.clear();
                self.hello(w);
            }
            (0..=3, Some(session), _) => self.input(Input::Want { session, splits: 1 + u32::from(b % 4) }),
            (4, Some(session), _) => {
                self.workers[w].session = None;
                self.input(Input::WorkerGone { session });
            }
            (5, Some(session), _) => self.input(Input::Leaving { session }),
            (6 | 7, _, None) => self.attach(r, u64::from(b % 3), 1 + u32::from(b % 5)),
            (6..=9, _, Some(_)) => self.consume(r),
            (10, _, Some(session)) => {
                self.consumers[r].session = None;
                self.input(Input::ConsumerGone { session });
            }
            (11, _, Some(session)) => {
                let nth = self.consumers[r].assigned.iter().nth(b as usize % 3);
                if let Some((position, token)) = nth.map(|(p, t)| (*p, *t)) {
                    let error = Error::unavailable("refused");
                    let error = if b % 2 == 0 { error.with(UNREACHED, "worker:1") } else { error };
                    self.input(Input::Unreachable { session, position, token, error });
                }
            }
            (12, _, Some(session)) if b % 3 == 0 => self.skip_sample(r, session, u64::from(b)),
            (12, _, Some(session)) => {
                let epoch = self.consumers[r].position.epoch + u64::from(b % 2);
                self.input(Input::EndEpoch { session, epoch });
            }
            (13, _, _) => self.pass(Duration::from_millis(u64::from(b) * 50), Some(w).filter(|_| b % 2 == 0)),
            (14, _, _) if b < 64 => self.crash(),
            (15, Some(session), _) if b < 64 => self.input(Input::Threads { session, threads: u32::from(b % 3) }),
            (15, Some(session), _) if b < 128 => {
                let held_up = (1..=JOBS.len() as u64).filter(|job| b >> (job - 1) & 1 == 1).collect();
                self.input(Input::WorkerHeartbeat {
                    session,
                    said: WorkerHeartbeat { held_up, ..WorkerHeartbeat::default() },
                });
            }
            _ => self.write(),
        }
    }

    /// All processes work again: every split is consumed, in order.
    fn heal(&mut self) {
        for i in 0..WORKERS {
            self.hello(i);
        }
        for i in 0..self.consumers.len() {
            if let Some(session) = self.consumers[i].session.take() {
                self.input(Input::ConsumerGone { session });
            }
            self.attach(i, 0, 3);
        }
        for _ in 0..40 {
            for i in 0..WORKERS {
                let session = self.workers[i].session.expect("SP-5: a worker was turned away");
                // If only one worker may compute for all consumers of a tenant, it needs the room.
                self.input(Input::Want { session, splits: if self.tenants { 8 } else { 2 } });
                let finished = self.workers[i].held.keys().copied().collect();
                let said = WorkerHeartbeat { finished, ..WorkerHeartbeat::default() };
                self.input(Input::WorkerHeartbeat { session, said });
            }
            self.flush();
            for i in 0..self.consumers.len() {
                self.consume(i);
            }
        }
        self.flush();
        for consumer in &self.consumers {
            let refused = consumer.refused.as_ref().map(Error::kind);
            let job = self.state.leases.record(consumer.key.0).expect("a job");
            let (splits, epochs) = JOBS[job.seed as usize];
            match splits[consumer.key.1 as usize] {
                Some(n) if epochs > 0 => {
                    let all: Vec<_> = (0..epochs).flat_map(|e| (0..n).map(move |o| Position::new(e, o))).collect();
                    let got = &consumer.consumed;
                    let ended = matches!(refused, Some(ErrorKind::Closed | ErrorKind::Data));
                    assert!(*got == all || ended, "SP-5: {got:?}, {refused:?}");
                }
                // A split that ended three workers is not tried again.
                _ if refused == Some(ErrorKind::Data) => {}
                _ => assert!(consumer.consumed.len() >= 30, "SP-5: {:?} {:?}", consumer.consumed, consumer.refused),
            }
        }
    }
}

pub(super) fn every_invariant_is_kept(world: &mut World, twin: bool, local: bool, steps: Vec<(u8, u8, u8)>) {
    if twin {
        world.add_twin();
    }
    world.local = local.then(|| (LOCAL, world.consumers[0].key));
    for step in steps {
        world.step(step);
    }
    world.check_replay();
    world.heal();
    world.check_replay();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_an_invariant(
        tenants: bool,
        twin: bool,
        local: bool,
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 0..120),
    ) {
        every_invariant_is_kept(&mut World::with(tenants), twin, local, steps);
    }
}

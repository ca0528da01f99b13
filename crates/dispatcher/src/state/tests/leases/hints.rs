//! Hints for grants that are wrong: each split is still granted, and every invariant is kept.

use crate::state::leases::grants::hints::{GrantHint, HintEvent, Lookahead};
use crate::state::tests::histories::every_invariant_is_kept;
use crate::state::tests::*;

/// Names another worker than the hint that it wraps, and the other jobs first.
#[derive(Debug)]
struct Reversed(Box<dyn GrantHint>);

impl GrantHint for Reversed {
    fn note(&mut self, event: &HintEvent<'_>) {
        self.0.note(event);
    }

    fn worker(&self, key: ConsumerKey, position: Position, lookahead: Lookahead) -> Option<WorkerId> {
        let named = self.0.worker(key, position, lookahead);
        named.map_or(Some(WorkerId(1)), |worker| Some(WorkerId(WORKERS as u128 + 1 - worker.0)))
    }

    fn knows(&self, job: u64) -> bool {
        !self.0.knows(job)
    }

    fn is_strict(&self, job: u64) -> bool {
        !self.0.is_strict(job)
    }

    fn group_of(&self, job: u64) -> Vec<u64> {
        self.0.group_of(job).into_iter().rev().collect()
    }

    fn grouped(&self) -> Vec<u64> {
        self.0.grouped().into_iter().rev().collect()
    }
}

/// Names one worker for each split, and takes all jobs for one group, also jobs that do not exist.
#[derive(Debug)]
struct Constant(WorkerId);

impl GrantHint for Constant {
    fn note(&mut self, _event: &HintEvent<'_>) {}

    fn worker(&self, _key: ConsumerKey, _position: Position, _lookahead: Lookahead) -> Option<WorkerId> {
        Some(self.0)
    }

    fn knows(&self, _job: u64) -> bool {
        true
    }

    fn is_strict(&self, job: u64) -> bool {
        job.is_multiple_of(2)
    }

    fn group_of(&self, _job: u64) -> Vec<u64> {
        self.grouped()
    }

    fn grouped(&self) -> Vec<u64> {
        (0..2 * JOBS.len() as u64).collect()
    }
}

/// Makes a wrong hint of a right one.
type Wrap = fn(Box<dyn GrantHint>) -> Box<dyn GrantHint>;

/// The replacements of hints. The last worker never comes.
const WRONG: [Wrap; 4] = [
    |hint| Box::new(Reversed(hint)),
    |_| Box::new(Constant(WorkerId(1))),
    |_| Box::new(Constant(WorkerId(LOCAL as u128 + 1))),
    |_| Box::new(Constant(WorkerId(WORKERS as u128 + 1))),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn wrong_hints_break_no_invariant_and_every_split_is_granted(
        wrong in 0..WRONG.len(),
        tenants: bool,
        twin: bool,
        local: bool,
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 0..120),
    ) {
        let mut world = World::with(tenants);
        world.hints = WRONG[wrong];
        world.state.leases.replace_hints(world.hints);
        every_invariant_is_kept(&mut world, twin, local, steps);
    }
}

/// Where there is no choice, a grant is the same lease for any hint.
#[test]
fn a_grant_is_the_same_lease_for_any_hint() {
    let granted = |hints: Option<Wrap>| {
        let mut world = World::new();
        hints.into_iter().for_each(|hints| world.state.leases.replace_hints(hints));
        world.hello(0);
        world.attach(ENDLESS, 0, 4);
        let session = world.workers[0].session.expect("connected");
        world.input(Input::Want { session, splits: 4 });
        world.flush();
        (world.workers[0].held.clone(), world.disk.clone())
    };
    for hints in WRONG {
        assert_eq!(granted(Some(hints)), granted(None));
    }
}

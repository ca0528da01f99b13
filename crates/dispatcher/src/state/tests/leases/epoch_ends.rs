//! Consumers that end epochs together: the floors that they get, and the missing consumers that messages name to them.

use forebay_plan::Ending;
use forebay_proto::Steps;

use crate::state::tests::*;

/// The two consumers of a job that end epochs together.
const RANKS: [usize; 2] = [5, 6];

fn world(ending: Ending) -> World {
    let mut world = World::new();
    world.create(JobRecord { name: "together".to_owned(), ending, ..record(0) });
    RANKS.iter().for_each(|rank| world.attach(*rank, 0, 4));
    world
}

fn says(world: &mut World, rank: usize, epoch: u64, has: u64, ended: bool, seen: u64) {
    let session = world.consumers[RANKS[rank]].session.expect("attached");
    world.input(Input::Steps { session, said: Steps { epoch, has, ended, seen } });
}

/// The floors that a consumer got since the last call.
fn told(world: &mut World, rank: usize) -> Vec<(u64, u64, bool, u32)> {
    let floors = std::mem::take(&mut world.consumers[RANKS[rank]].floors);
    floors.into_iter().map(|f| (f.epoch, f.steps, f.over, f.more)).collect()
}

fn leaves(world: &mut World, rank: usize) {
    let session = world.consumers[RANKS[rank]].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
}

#[test]
fn each_question_is_answered_once_when_all_have_more() {
    let mut world = world(Ending::Drop);
    says(&mut world, 0, 0, 4, false, 0);
    assert!(told(&mut world, 0).is_empty());
    says(&mut world, 1, 0, 9, false, 0);
    assert_eq!((told(&mut world, 0), told(&mut world, 1)), (vec![(0, 4, false, 0)], vec![(0, 4, false, 0)]));
    says(&mut world, 1, 0, 12, false, 4);
    assert!(told(&mut world, 1).is_empty(), "no other consumer has more than it knows");
    says(&mut world, 0, 0, 6, false, 4);
    assert_eq!((told(&mut world, 0), told(&mut world, 1)), (vec![(0, 6, false, 0)], vec![(0, 6, false, 0)]));
    // Without a question there is no answer.
    says(&mut world, 0, 0, 8, false, 6);
    assert_eq!((told(&mut world, 0).len(), told(&mut world, 1).len()), (1, 0));
}

#[test]
fn an_end_is_durable_before_it_is_told_and_holds_for_who_comes_later() {
    let mut world = world(Ending::Error);
    says(&mut world, 0, 0, 3, true, 0);
    says(&mut world, 1, 0, 3, false, 0);
    assert_eq!((told(&mut world, 0), told(&mut world, 1)), (vec![(0, 3, false, 0)], vec![(0, 3, false, 0)]));
    says(&mut world, 0, 0, 3, true, 3);
    says(&mut world, 1, 0, 4, false, 3);
    assert!(told(&mut world, 0).is_empty(), "it is not written yet");
    world.flush();
    assert_eq!((told(&mut world, 0), told(&mut world, 1)), (vec![(0, 3, true, 1)], vec![(0, 3, true, 1)]));
    // The dispatcher restarts, and one consumer has gone on: the other one still gets the end.
    world.crash();
    world.attach(RANKS[0], 0, 4);
    says(&mut world, 0, 0, 2, false, 0);
    assert_eq!(told(&mut world, 0), [(0, 3, true, 1)]);
    world.flush();
    world.check_replay();
}

#[test]
fn who_lives_is_waited_for_and_who_is_not_there_is_named() {
    let mut world = world(Ending::Drop);
    says(&mut world, 0, 1, 4, false, 0);
    let minutes = Duration::from_secs(660);
    world.pass(minutes, None);
    assert!(world.consumers[RANKS[0]].missing.is_empty(), "a rank that says nothing for eleven minutes, and lives");
    says(&mut world, 1, 1, 2, false, 0);
    leaves(&mut world, 1);
    world.pass(Duration::from_millis(50), None);
    assert!(world.consumers[RANKS[0]].missing.is_empty(), "it was told that both have two");
    says(&mut world, 0, 1, 4, false, 2);
    world.pass(Duration::from_millis(50), None);
    assert_eq!(world.consumers[RANKS[0]].missing, [(1, None)]);
    // A new process of that consumer begins in a later epoch, and will never report this one.
    world.attach(RANKS[1], 0, 4);
    says(&mut world, 1, 2, 1, false, 0);
    world.pass(Duration::from_millis(50), None);
    assert_eq!(world.consumers[RANKS[0]].missing, [(1, Some(2))]);
    // A report on an epoch holds: a smaller one comes from another pipeline.
    says(&mut world, 1, 2, 5, true, 0);
    says(&mut world, 1, 2, 4, true, 0);
    let refused = world.consumers[RANKS[1]].refused.as_ref().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::Data);
    assert!(refused.message().contains("had 5 batches of epoch 2, and now it has 4"), "{refused}");
}

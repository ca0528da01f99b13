//! Splits that end workers: what counts as a death, and what follows from three.

use super::*;

/// Three workers, one after the other, take the first split of a reader and are lost; with `noticed`, its reader says
/// first that it cannot fetch the split.
fn lose_three(noticed: bool) -> World {
    let mut world = World::new();
    world.attach(ENDLESS, 0, 1);
    for i in 0..WORKERS {
        world.hello(i);
        let session = world.workers[i].session.take().expect("said hello");
        world.input(Input::Want { session, splits: 1 });
        world.flush();
        if noticed {
            let reader = &mut world.readers[ENDLESS];
            let (position, token) = reader.assigned.pop_first().expect("the first split");
            let (session, error) = (reader.session.expect("attached"), Error::unavailable("reset"));
            world.input(Input::Unreachable { session, position, token, error });
        }
        world.input(Input::WorkerGone { session });
    }
    world
}

#[test]
fn a_split_that_ended_three_workers_is_given_up_when_they_have_stayed_away() {
    for noticed in [false, true] {
        let mut world = lose_three(noticed);
        world.pass(Duration::from_millis(4900), None);
        assert!(world.readers[ENDLESS].refused.is_none(), "they may come back");
        world.pass(Duration::from_millis(200), None);
        world.flush();
        let error = world.readers[ENDLESS].refused.clone().expect("it is given up");
        assert_eq!((error.kind(), error.get("fault")), (ErrorKind::Data, Some("poison")), "{error}");
        let dead: Vec<_> = (0..WORKERS).map(|i| format!("{:032x} at worker-{i}:1", i + 1)).collect();
        assert_eq!(error.get("workers"), Some(&*dead.join(", ")));
    }
}

#[test]
fn a_worker_that_comes_back_was_not_ended_by_a_split() {
    let mut world = lose_three(false);
    world.pass(Duration::from_secs(4), None);
    world.workers[1].held.clear();
    world.hello(1);
    world.pass(Duration::from_secs(10), None);
    let session = world.workers[1].session.expect("said hello");
    world.input(Input::Want { session, splits: 1 });
    world.flush();
    assert!(world.readers[ENDLESS].refused.is_none());
    assert_eq!(world.workers[1].held.len(), 1, "it is tried again");
}

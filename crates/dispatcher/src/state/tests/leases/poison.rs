//! Poison splits: the events that count as a death, and the result of three deaths.

use crate::state::tests::*;

/// Three workers, one after the other, get the first split of a consumer and are lost; with `noticed`, its consumer
/// first reports that it cannot fetch the split.
fn lose_three(noticed: bool) -> World {
    let mut world = World::new();
    world.attach(ENDLESS, 0, 1);
    for i in 0..WORKERS {
        world.hello(i);
        let session = world.workers[i].session.take().expect("said hello");
        world.input(Input::Want { session, splits: 1 });
        world.flush();
        if noticed {
            let consumer = &mut world.consumers[ENDLESS];
            let (position, token) = consumer.assigned.pop_first().expect("the first split");
            let (session, error) = (consumer.session.expect("attached"), Error::unavailable("reset"));
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
        assert!(world.consumers[ENDLESS].refused.is_none(), "they may come back");
        world.pass(Duration::from_millis(200), None);
        world.flush();
        let error = world.consumers[ENDLESS].refused.clone().expect("it is given up");
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
    assert!(world.consumers[ENDLESS].refused.is_none());
    assert_eq!(world.workers[1].held.len(), 1, "it is tried again");
}

#[test]
fn what_was_beside_a_split_that_ends_workers_is_taken_from_it() {
    let mut world = World::new();
    let consumers = [0, ENDLESS];
    for consumer in consumers {
        world.attach(consumer, 0, 1);
    }
    world.hello(0);
    let mut last = world.workers[0].session.expect("said hello");
    world.input(Input::Want { session: last, splits: 2 });
    world.flush();
    assert_eq!(world.workers[0].held.len(), 2, "one death is an accident: they may be together");
    for i in 1..WORKERS {
        world.hello(i);
        let session = world.workers[i].session.expect("said hello");
        world.input(Input::Want { session, splits: 2 });
        for consumer in consumers {
            let consumer = &mut world.consumers[consumer];
            let (position, token) = consumer.assigned.pop_first().expect("the first split");
            let (session, error) = (consumer.session.expect("attached"), Error::unavailable("reset"));
            world.input(Input::Unreachable { session, position, token, error });
            world.flush();
        }
        // The consumers noticed first.
        world.input(Input::WorkerGone { session: last });
        world.flush();
        last = session;
        assert_eq!(world.workers[i].held.len(), WORKERS - i, "after the second, each by itself");
    }
}

#[test]
fn a_worker_that_goes_on_was_not_ended_by_what_its_consumer_could_not_fetch() {
    let mut world = World::new();
    world.attach(ENDLESS, 0, 1);
    for i in 0..WORKERS {
        world.hello(i);
        let session = world.workers[i].session.expect("said hello");
        world.input(Input::Want { session, splits: 1 });
        world.flush();
        let consumer = &mut world.consumers[ENDLESS];
        let (position, token) = consumer.assigned.pop_first().expect("the first split");
        let (session, error) = (consumer.session.expect("attached"), Error::unavailable("reset"));
        world.input(Input::Unreachable { session, position, token, error });
    }
    let session = world.workers[0].session.expect("said hello");
    world.input(Input::Want { session, splits: 1 });
    world.flush();
    assert!(world.workers.iter().all(|w| w.held.is_empty()), "they may be dead");
    world.pass(Duration::from_millis(500), None);
    world.flush();
    assert!(world.consumers[ENDLESS].refused.is_none());
    assert_eq!(world.workers[0].held.len(), 1, "they are not: it is tried again");
}

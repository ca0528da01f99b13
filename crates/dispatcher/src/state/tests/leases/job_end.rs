//! When a job is over: once its consumers have acknowledged all of it.

use crate::state::tests::*;

/// The two consumers of a job of three epochs.
const CONSUMERS: [usize; 2] = [0, 1];

fn end() -> Position {
    Position::new(JOBS[0].1, 0)
}

/// A consumer attaches at the end of its job: its session broke, or its state was saved there.
fn comes_back_at_the_end(world: &mut World, consumer: usize) -> SessionId {
    let (session, key) = (world.session(), world.consumers[consumer].key);
    world.consumers[consumer].session = Some(session);
    let attachment = Attachment { position: end(), resume: true, window: 4, ..attachment(session, key) };
    world.input(Input::Attach(attachment));
    session
}

fn is_over(world: &World) -> bool {
    world.state.leases.is_finished(world.consumers[CONSUMERS[0]].key.0)
}

#[test]
fn a_consumer_that_has_all_that_is_left_has_not_consumed_it() {
    let mut world = World::new();
    world.hello(0);
    let [other, consumer] = CONSUMERS;
    let session = comes_back_at_the_end(&mut world, other);
    world.input(Input::Ack { session, position: end() });
    // Every split is in its process, and lost with it.
    let session = comes_back_at_the_end(&mut world, consumer);
    assert!(!is_over(&world));
    world.input(Input::ConsumerGone { session });
    world.attach(consumer, 0, 4);
    assert_eq!(world.consumers[consumer].refused, None, "it begins anew");
    assert_eq!(world.state.leases.frontier(world.consumers[consumer].key), Position::default());
    // Once more, and now its user goes on.
    world.input(Input::ConsumerGone { session: world.consumers[consumer].session.expect("attached") });
    let session = comes_back_at_the_end(&mut world, consumer);
    world.input(Input::Ack { session, position: end() });
    assert!(is_over(&world));
    world.flush();
    world.input(Input::ConsumerGone { session });
    world.attach(consumer, 0, 4);
    assert_eq!(world.consumers[consumer].refused.as_ref().map(Error::kind), Some(ErrorKind::Closed));
}

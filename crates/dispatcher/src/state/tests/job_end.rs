//! When a job is over: once its readers have acknowledged all of it.

use super::*;

/// The readers of a job of two, which has three epochs.
const READERS: [usize; 2] = [0, 1];

fn end() -> Position {
    Position::new(JOBS[0].1, 0)
}

/// A reader goes on at the end of its job: its session broke, or its state was saved there.
fn comes_back_at_the_end(world: &mut World, reader: usize) -> SessionId {
    let (session, consumer) = (world.session(), world.readers[reader].key);
    world.readers[reader].session = Some(session);
    let attachment = Attachment { position: end(), resume: true, window: 4, ..attachment(session, consumer) };
    world.input(Input::Attach(attachment));
    session
}

fn is_over(world: &World) -> bool {
    world.state.jobs[&world.readers[READERS[0]].key.0].is_finished()
}

#[test]
fn a_reader_that_has_all_that_is_left_has_not_consumed_it() {
    let mut world = World::new();
    world.hello(0);
    let [other, reader] = READERS;
    let session = comes_back_at_the_end(&mut world, other);
    world.input(Input::Ack { session, position: end() });
    // Every split is in its process, and ends with that.
    let session = comes_back_at_the_end(&mut world, reader);
    assert!(!is_over(&world));
    world.input(Input::ConsumerGone { session });
    world.attach(reader, 0, 4);
    assert_eq!(world.readers[reader].refused, None, "it begins anew");
    assert_eq!(world.state.consumer(world.readers[reader].key).map(|c| c.frontier()), Some(Position::default()));
    // Once more, and now its user comes back for more.
    world.input(Input::ConsumerGone { session: world.readers[reader].session.expect("attached") });
    let session = comes_back_at_the_end(&mut world, reader);
    world.input(Input::Ack { session, position: end() });
    assert!(is_over(&world));
    world.flush();
    world.input(Input::ConsumerGone { session });
    world.attach(reader, 0, 4);
    assert_eq!(world.readers[reader].refused.as_ref().map(Error::kind), Some(ErrorKind::Closed));
}

//! Counters and gauges.

use super::*;

fn counts(world: &World) -> crate::state::Counts {
    world.state.figures(world.now).counts
}

#[test]
fn splits_are_counted_from_their_grant_to_their_consumer() {
    let mut world = World::new();
    (0..2).for_each(|i| world.hello(i));
    world.attach(0, 0, 4);
    let session = world.workers[0].session.expect("connected");
    world.input(Input::Want { session, splits: 3 });
    world.flush();
    assert_eq!((counts(&world).splits_granted, counts(&world).splits_accepted), (3, 0));
    world.consume(0);
    assert_eq!((counts(&world).splits_granted, counts(&world).splits_accepted), (3, 1));
    // Its worker dies with two of them.
    world.workers[0].session = None;
    world.input(Input::WorkerGone { session });
    let of = counts(&world);
    assert_eq!((of.workers_lost, of.leases_lapsed, of.splits_recomputed), (1, 2, 2));
    // A worker that leaves in order is not lost, and neither are its leases.
    let session = world.workers[1].session.expect("connected");
    world.input(Input::Want { session, splits: 2 });
    world.flush();
    assert_eq!(world.workers[1].held.len(), 2);
    world.workers[1].session = None;
    world.input(Input::Leaving { session });
    world.input(Input::WorkerGone { session });
    assert_eq!((counts(&world).workers_lost, counts(&world).leases_lapsed), (1, 2));
    // Its later messages are refused.
    world.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat::default() });
    assert_eq!((counts(&world).worker_heartbeats_refused, counts(&world).consumer_heartbeats_refused), (1, 0));
}

#[test]
fn consumers_say_what_they_took_and_how_long_they_have_waited() {
    let mut world = World::new();
    world.pass(Duration::from_secs(5), None);
    world.attach(0, 0, 4);
    world.attach(1, 0, 4);
    let said = |waiting_ms, rows| ConsumerHeartbeat {
        waiting_ms,
        rows,
        bytes: rows.saturating_mul(8),
        ..ConsumerHeartbeat::default()
    };
    for (consumer, waiting_ms, rows) in [(0, 1500, 3), (1, 0, 4)] {
        let session = world.consumers[consumer].session.expect("attached");
        world.input(Input::ConsumerHeartbeat { session, said: said(waiting_ms, rows) });
    }
    let figures = world.state.figures(world.now + Duration::from_millis(500));
    assert_eq!(
        (figures.consumers_attached, figures.longest_wait),
        (2, Duration::from_secs(2)),
        "it goes on between heartbeats"
    );
    assert_eq!((figures.counts.rows_delivered, figures.counts.bytes_delivered), (7, 56));
    let session = world.consumers[0].session.take().expect("attached");
    world.input(Input::ConsumerHeartbeat { session, said: said(0, u64::MAX) });
    let figures = world.state.figures(world.now);
    assert_eq!((figures.longest_wait, figures.counts.rows_delivered), (Duration::ZERO, u64::MAX), "and no overflow");
    world.input(Input::ConsumerGone { session });
    world.input(Input::ConsumerHeartbeat { session, said: said(0, 1) });
    let figures = world.state.figures(world.now);
    assert_eq!((figures.consumers_attached, figures.counts.consumer_heartbeats_refused), (1, 1));
}

#[test]
fn jobs_and_workers_are_counted_by_what_they_are() {
    let mut world = World::new();
    world.hello(0);
    world.attach(0, 0, 4);
    let mut out = Vec::new();
    world.state.cancel(world.now, "", "job 3", &mut out).expect("it goes on");
    let figures = world.state.figures(world.now);
    let some: Vec<_> = figures.jobs.iter().filter(|(_, jobs)| *jobs > 0).copied().collect();
    assert_eq!((figures.jobs.len(), some), (5, vec![("running", 1), ("no consumer", 2), ("cancelled", 1)]));
    assert_eq!(figures.workers, [(("fleet".into(), "idle"), 1)].into());
}

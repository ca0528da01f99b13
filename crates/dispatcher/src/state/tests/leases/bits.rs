//! A fleet of two versions of Forebay: a job gets the bits that it began with.

use std::collections::BTreeSet;

use forebay_plan::{Graph, NeededBits, Node, Op, Source, Versions, ops};

use crate::state::tests::*;

/// Creates a job of `range` and `batch` that began with the second version of `batch`; returns its consumer.
fn create(world: &mut World, kept: u32) -> usize {
    let graph = Graph::new(Source::Range { start: 0, stop: 8, step: 1 }, None).expect("a source");
    let batch = Op::Batch(ops::Batch { size: 2, drop_remainder: false });
    let graph = graph.then(Node::new(batch)).expect("a pipeline").to_json();
    let bits = NeededBits::from([("op batch".to_owned(), kept)]);
    world.create(JobRecord { name: format!("of version {kept}"), graph, bits, ..record(TWIN_OF) });
    world.consumers.len() - 1
}

fn want(world: &mut World, worker: usize) {
    let session = world.workers[worker].session.expect("connected");
    world.input(Input::Want { session, splits: 4 });
    world.flush();
}

#[test]
fn only_workers_with_the_bits_that_a_job_began_with_compute_for_it() {
    let mut world = World::new();
    let [old, new] = [BitVersions::own(), BitVersions::own().with("op batch", Versions { latest: 2, oldest: 2 })];
    world.hello_with(0, old.clone());
    let job = create(&mut world, 2);
    world.hello_with(1, new.clone());
    (0..2).for_each(|worker| want(&mut world, worker));
    let session = world.session();
    let key = world.consumers[job].key;
    world.consumers[job].session = Some(session);
    let attachment = Attachment { window: 6, bits: new.clone(), ..attachment(session, key) };
    world.input(Input::Attach(attachment));
    world.flush();
    let holders =
        |world: &World| world.state.leases.held(key).0.iter().map(|(_, worker, _)| worker.0).collect::<BTreeSet<_>>();
    assert_eq!(holders(&world), BTreeSet::from([2]), "the first worker has room, and computes other bits");
    let differs = |world: &World| {
        let workers = world.state.list_workers(world.now, None).into_iter();
        workers.map(|w| w.differs.into_iter().map(|d| (d.job, d.difference)).collect()).collect::<Vec<Vec<_>>>()
    };
    let why = ("of version 2".to_owned(), "op batch (version 1, not 2)".to_owned());
    assert_eq!(differs(&world), [vec![why], vec![]]);
    // The second worker is replaced by one of the old version: the job waits, and the other jobs do not.
    let session = world.workers[1].session.take().expect("connected");
    world.input(Input::WorkerGone { session });
    world.hello_with(1, old);
    want(&mut world, 1);
    world.attach(ENDLESS, 0, 4);
    world.flush();
    assert_eq!(holders(&world), BTreeSet::new(), "what it held was revoked");
    assert!(!world.state.leases.held(world.consumers[ENDLESS].key).0.is_empty());
    world.hello_with(2, new);
    want(&mut world, 2);
    assert_eq!(holders(&world), BTreeSet::from([3]));
    world.check_replay();
}

#[test]
fn a_consumer_that_computes_other_bits_is_refused_and_told_which() {
    let mut world = World::new();
    let job = create(&mut world, 3);
    let key = world.consumers[job].key;
    for (bits, says) in
        [(BitVersions::own(), "op batch (version 1, not 3)"), (BitVersions::first(), "op batch (version 1, not 3)")]
    {
        let session = world.session();
        world.consumers[job].session = Some(session);
        world.input(Input::Attach(Attachment { bits, ..attachment(session, key) }));
        let refused = world.consumers[job].refused.take().expect("refused");
        assert!(refused.kind() == ErrorKind::Version && refused.message().contains(says), "{refused}");
    }
}

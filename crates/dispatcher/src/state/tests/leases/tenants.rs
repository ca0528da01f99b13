//! Tenants: another tenant's objects do not exist, quotas, workers of one tenant.

use crate::state::tests::*;

#[test]
fn what_is_another_tenants_is_answered_as_what_does_not_exist() {
    let mut world = World::with(true);
    let mut attach = |key: ConsumerKey, name: &str| {
        let tenant = Tenant { name: name.into(), ..Tenant::default() };
        let skipped = vec![LostSample { sample: 1, error: "{}".to_owned(), ..LostSample::default() }];
        let attachment = Attachment { tenant, skipped, ..attachment(world.session(), key) };
        let mut out = Vec::new();
        world.state.handle(world.now, Input::Attach(attachment), &mut out);
        out
    };
    let (there, nowhere) = (attach((1, 0), "b"), attach((99, 0), "b"));
    let [Effect::End(_, one), Effect::End(_, other)] = [&there[..], &nowhere[..]].map(|out| &out[0]) else {
        panic!("{there:?} {nowhere:?}")
    };
    assert_eq!((there.len(), nowhere.len()), (1, 1), "nothing is written down either");
    assert_eq!(one.to_json().replace("job 1", "job 99"), other.to_json());
    assert!(attach((1, 0), "a").iter().any(|e| matches!(e, Effect::Consumer(..))));
    let mut out = Vec::new();
    let names = |tenant: Option<&str>| {
        world.state.list_jobs(world.now, tenant, "").into_iter().map(|j| j.name).collect::<Vec<_>>()
    };
    assert_eq!((names(Some("a")).len(), names(Some("c")).len(), names(None).len()), (2, 0, 4));
    let missing = world.state.cancel(world.now, "b", "job 1", &mut out).expect_err("another's");
    let unknown = world.state.cancel(world.now, "b", "job 9", &mut out).expect_err("no such job");
    assert_eq!(missing.to_json().replace("job 1", "job 9"), unknown.to_json());
    let same = JobRecord { tenant: "b".to_owned(), ..record(0) };
    assert!(
        world.state.create(world.now, same, &[None], Quota::default(), &mut out).is_ok(),
        "names are each tenant's own"
    );
}

#[test]
fn a_tenant_gets_no_more_than_its_quota() {
    let mut world = World::with(true);
    let mut out = Vec::new();
    let another = |name: &str| JobRecord { tenant: "a".to_owned(), name: name.to_owned(), ..record(3) };
    let two = Quota { jobs: Some(2), job_consumers: Some(1 << 16), ..Quota::default() };
    let refused = world.state.create(world.now, another("x"), &[None], two.clone(), &mut out).expect_err("it has two");
    assert_eq!((refused.kind(), refused.get("quota")), (ErrorKind::Exhausted, Some("unfinished jobs")));
    world.state.cancel(world.now, "a", "job 0", &mut out).expect("cancelled");
    let wide = JobRecord { consumers: 1 << 16, ..another("x") };
    let refused = world.state.create(world.now, wide, &[None; 1 << 16], two.clone(), &mut out).expect_err("too many");
    assert_eq!((refused.kind(), refused.get("quota")), (ErrorKind::Exhausted, Some("consumers of unfinished jobs")));
    assert!(world.state.create(world.now, another("x"), &[None], two, &mut out).is_ok());
    let quota = Quota { consumers: Some(1), ..Quota::default() };
    let mut attach = |consumer: ConsumerKey| {
        let tenant = Tenant { name: "b".into(), quota: quota.clone() };
        let attachment = Attachment { tenant, ..attachment(world.session(), consumer) };
        let mut out = Vec::new();
        world.state.handle(world.now, Input::Attach(attachment), &mut out);
        out.into_iter().find_map(|e| if let Effect::End(_, error) = e { Some(error.kind()) } else { None })
    };
    assert_eq!(attach((4, 0)), None);
    assert_eq!(attach((4, 0)), Some(ErrorKind::Conflict), "in its own place it is no other");
    assert_eq!(attach((3, 0)), Some(ErrorKind::Exhausted));
}

#[test]
fn a_worker_of_one_tenant_computes_for_no_other() {
    let mut world = World::with(true);
    (1..WORKERS).for_each(|i| world.hello(i));
    let endless = 2;
    world.attach(endless, 0, 4);
    for session in world.workers.iter().filter_map(|w| w.session).collect::<Vec<_>>() {
        world.input(Input::Want { session, splits: 2 });
    }
    world.flush();
    assert_eq!((world.workers[1].held.len(), world.workers[2].held.len()), (2, 0));
    let (session, held) = (world.session(), world.workers[1].held.values().cloned().collect());
    let (worker, address) = (WorkerId(2), Arc::from("elsewhere:1"));
    world.input(Input::Hello(Arrival {
        session,
        worker,
        address,
        threads: 1,
        held,
        serves: Some("b".into()),
        place: "".into(),
        only: None,
        local_key: JobKey::default(),
        worker_type: WorkerType::default(),
        bits: BitVersions::own(),
    }));
    assert!(world.workers[1].session.is_some(), "a caller that knows its id does not get its place");
    assert_eq!(world.state.leases.serves(WorkerId(2)).as_deref(), Some("a"));
}

/// A regression test: each tick looked at all of them, twenty times a second.
#[test]
fn consumers_without_a_process_cost_nothing_at_a_tick() {
    let mut world = World::with(false);
    let mut out = Vec::new();
    let wide = JobRecord { name: "wide".to_owned(), consumers: 1 << 16, ..record(1) };
    let create = world.state.create(world.now, wide, &[None; 1 << 16], Quota::default(), &mut out);
    let key = (create.expect("a new name").id, 65_535);
    world.state.handle(world.now, Input::Tick, &mut out);
    assert_eq!(world.state.leases.active_of(key.0).len(), 0);
    let session = world.session();
    world.state.handle(world.now, Input::Attach(attachment(session, key)), &mut out);
    world.state.handle(world.now, Input::Tick, &mut out);
    assert_eq!(world.state.leases.active_of(key.0), [key]);
    world.state.handle(world.now, Input::ConsumerGone { session }, &mut out);
    world.state.handle(world.now, Input::Tick, &mut out);
    assert_eq!(world.state.leases.active_of(key.0).len(), 0);
}

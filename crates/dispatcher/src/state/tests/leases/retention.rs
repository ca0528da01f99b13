//! The jobs that are removed, and the parts of them that stay.

use crate::options::Retention;
use crate::state::tests::*;

const EMPTY: usize = 2;
/// Longer than a consumer may take to come back.
const MOMENT: Duration = Duration::from_secs(11);

fn world(jobs: usize, age: Duration) -> World {
    let mut world = World::new();
    // The jobs that the model begins with are removed.
    let names: Vec<_> = world.state.records().iter().map(|record| record.name.clone()).collect();
    for name in names {
        let mut out = Vec::new();
        world.state.cancel(world.now, "", &name, &mut out).expect("it goes on");
        world.state.forget_job(world.now, "", &name, &mut out).expect("it is over");
        world.take(out);
    }
    world.consumers.clear();
    world.state.set_retention(Retention { jobs, age, ..Retention::default() });
    world
}

/// Reads a job to its end, and leaves.
fn finish(world: &mut World, name: &str) {
    let at = world.consumers.len();
    world.create(JobRecord { name: name.to_owned(), ..record(EMPTY) });
    world.attach(at, 0, 1);
    world.consume(at);
    let session = world.consumers[at].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
}

fn names(world: &World) -> Vec<String> {
    world.state.records().iter().map(|record| record.name.clone()).collect()
}

#[test]
fn the_last_jobs_that_are_over_stay_and_the_others_leave_the_ledger_too() {
    let mut world = world(2, Duration::from_secs(3600));
    finish(&mut world, "1");
    let cancelled = world.consumers.len();
    world.create(JobRecord { name: "2".to_owned(), ..record(ENDLESS + 1) });
    world.attach(cancelled, 0, 1);
    let mut out = Vec::new();
    world.state.cancel(world.now, "", "2", &mut out).expect("it goes on");
    world.take(out);
    world.consumers[cancelled].session = None;
    // It is unfinished, and has no consumer.
    world.create(JobRecord { name: "unread".to_owned(), ..record(ENDLESS + 1) });
    world.pass(MOMENT, None);
    assert_eq!(names(&world), ["1", "2", "unread"], "no more than two of them are over");
    finish(&mut world, "3");
    world.pass(MOMENT / 2, None);
    assert_eq!(names(&world), ["1", "2", "unread", "3"], "its reader may come back");
    world.pass(MOMENT, None);
    assert_eq!(names(&world), ["2", "unread", "3"]);
    assert_eq!(world.state.figures(world.now).counts.jobs_forgotten, JOBS.len() as u64 + 1);
    world.consumers.clear();
    world.check_replay();
    assert_eq!(world.disk.jobs.len(), 3);
    finish(&mut world, "1");
    assert_eq!(names(&world), ["2", "unread", "3", "1"], "its name was free");
}

#[test]
fn jobs_without_consumers_leave_after_a_while_and_read_jobs_never() {
    let mut world = world(100, Duration::from_secs(30));
    finish(&mut world, "over");
    for name in ["unread", "read"] {
        world.create(JobRecord { name: name.to_owned(), ..record(ENDLESS + 1) });
    }
    let read = world.consumers.len() - 1;
    world.attach(read, 0, 1);
    world.pass(Duration::from_secs(29), None);
    assert_eq!(names(&world), ["over", "unread", "read"]);
    world.pass(Duration::from_secs(2), None);
    assert_eq!(names(&world), ["read"]);
    world.pass(Duration::from_secs(60), None);
    assert_eq!(names(&world), ["read"]);
    let session = world.consumers[read].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
    world.pass(Duration::from_secs(29), None);
    assert_eq!(names(&world), ["read"], "since its reader left");
    world.pass(Duration::from_secs(2), None);
    assert_eq!(names(&world), [""; 0]);
    world.consumers.clear();
    world.check_replay();
}

#[test]
fn each_tenant_keeps_its_own() {
    let mut world = world(1, Duration::from_secs(3600));
    for (tenant, name) in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3")] {
        let record = JobRecord { tenant: tenant.to_owned(), name: name.to_owned(), ..record(ENDLESS + 1) };
        let mut out = Vec::new();
        world.state.create(world.now, record, &[Some(1)], Quota::default(), &mut out).expect("a new name");
        world.state.cancel(world.now, tenant, name, &mut out).expect("it goes on");
        world.take(out);
    }
    world.pass(MOMENT, None);
    let records = world.state.records();
    let left: Vec<_> = records.iter().map(|record| (&*record.tenant, &*record.name)).collect();
    assert_eq!(left, [("b", "1"), ("a", "3")]);
}

#[test]
fn a_job_is_forgotten_when_it_is_over_and_its_tenant_says_so() {
    let mut world = world(100, Duration::from_secs(3600));
    let consumer = world.consumers.len();
    world.create(JobRecord { name: "job".to_owned(), ..record(ENDLESS + 1) });
    world.hello(0);
    world.attach(consumer, 0, 1);
    let session = world.workers[0].session.expect("connected");
    world.input(Input::Want { session, splits: 4 });
    world.flush();
    assert_eq!(world.workers[0].held.len(), 1);
    let mut out = Vec::new();
    let kind = |forgotten: Result<()>| forgotten.expect_err("refused").kind();
    assert_eq!(kind(world.state.forget_job(world.now, "", "job", &mut out)), ErrorKind::Conflict, "it is read");
    assert_eq!(kind(world.state.forget_job(world.now, "b", "job", &mut out)), ErrorKind::NotFound, "it is another's");
    world.state.cancel(world.now, "", "job", &mut out).expect("it goes on");
    world.state.forget_job(world.now, "", "job", &mut out).expect("it is over");
    world.take(out);
    assert_eq!(kind(world.state.forget_job(world.now, "", "job", &mut Vec::new())), ErrorKind::NotFound, "it is gone");
    world.consumers.clear();
    world.check_replay();
    assert!(world.workers[0].held.is_empty() && world.disk.grants.is_empty() && world.disk.jobs.is_empty());
}

#[test]
fn jobs_that_were_left_unfinished_are_as_many_as_those_that_are_over() {
    let mut world = world(2, Duration::from_secs(7 * 24 * 3600));
    finish(&mut world, "over");
    for name in ["1", "2", "3", "4"] {
        world.create(JobRecord { name: name.to_owned(), ..record(ENDLESS + 1) });
    }
    let read = world.consumers.len() - 4;
    world.attach(read, 0, 1);
    world.pass(Duration::from_secs(3590), None);
    assert_eq!(names(&world), ["over", "1", "2", "3", "4"], "their readers may come back");
    world.pass(MOMENT, None);
    assert_eq!(names(&world), ["over", "1", "3", "4"], "one is read, and two are left");
    world.consumers.clear();
    world.check_replay();
}

#[test]
fn a_job_that_is_read_to_its_end_is_forgotten_once_its_consumers_have_left() {
    let mut world = world(100, Duration::from_secs(3600));
    let at = world.consumers.len();
    world.create(JobRecord { name: "job".to_owned(), ..record(EMPTY) });
    world.attach(at, 0, 1);
    world.consume(at);
    let refused = world.state.forget_job(world.now, "", "job", &mut Vec::new()).expect_err("it is read");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("wait until its consumers have ended"), "{refused}");
}

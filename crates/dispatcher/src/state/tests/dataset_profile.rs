//! Profiles of datasets outlive jobs and dispatchers, are written seldom, and are bounded.

use forebay_policy::placement::{Objective, Prices};
use forebay_policy::scaling::Policy;
use forebay_proto::{JobDefinition, SampleStreamKey};

use super::op_costs::{job, spent};
use super::scale::half_second_of;
use super::*;
use crate::options::Scaling;
use crate::records::ProfileRecord;
use crate::state::load::dataset_profile::{DATASETS_MAX, ProfileChange, STEADY_STATES_MAX, WRITE_EVERY};
use crate::state::load::op_costs::WRITTEN_MAX;

impl World {
    fn written(&self, dataset: &str) -> Option<&ProfileRecord> {
        self.disk.profiles.iter().find(|((_, id), _)| id == dataset).map(|(_, profile)| &**profile)
    }

    /// Time passes, and due profiles are written.
    fn pass_and_write(&mut self, by: Duration) {
        self.pass(by, None);
        self.flush();
    }
}

#[test]
fn what_ops_cost_is_shown_by_the_next_dispatcher_of_jobs_that_go_on_and_of_new_ones() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    for window in 1..=4 {
        for _ in 0..3 {
            let read = spent(&[], 100, window * 20_000);
            world.say_ops(0, world.last_job(), vec![read, spent(&[1], 50, 10)]);
            world.pass(Duration::from_secs(4), None);
        }
    }
    let shown: Vec<_> = world.ops("one").into_iter().map(|op| OpStatus { earlier: true, ..op }).collect();
    assert_eq!((shown.len(), shown[0].row_us), (2, 5.0), "the median of 2, 4, 6 and 8");
    world.pass_and_write(WRITE_EVERY);
    for _ in 0..2 {
        world.crash();
        assert_eq!(world.ops("one"), shown);
    }
    // The dataset is the same for any name, seed and epochs of the job.
    world.create(JobRecord { seed: 2, epochs: 7, ..job("two", "d") });
    assert_eq!(world.ops("two"), shown);
    world.create(job("other", "e"));
    assert_eq!(world.ops("other"), []);
    world.hello(0);
    world.say_ops(0, world.last_job() - 1, vec![spent(&[], 10, 1)]);
    let own: Vec<_> = world.ops("two").iter().map(|op| (op.rows_in, op.earlier)).collect();
    assert_eq!(own, [(10, false)], "its own, from then on");
    assert_eq!(world.ops("one")[0].rows_in, shown[0].rows_in + 10, "what was known is added to");
}

/// A job was steady with three workers; this was written, and the dispatcher restarted.
fn rested_and_restarted() -> World {
    let mut world = World::new();
    (0..3).for_each(|worker| world.hello(worker));
    world.attach(ENDLESS, 0, 3);
    (0..40).for_each(|_| half_second_of(&mut world, &[ENDLESS], 3, 31));
    assert_eq!(world.workers_of("job 1"), 3);
    world.pass_and_write(WRITE_EVERY);
    world.crash();
    world
}

impl World {
    fn workers_of(&self, name: &str) -> u32 {
        self.state.list_jobs(self.now, None, name).remove(0).workers
    }
}

#[test]
fn a_job_begins_where_one_came_to_rest_under_the_dispatcher_before() {
    let mut world = rested_and_restarted();
    assert_eq!(world.state.wanted(world.now).wanted, 0, "the consumers may be gone");
    assert_eq!(world.workers_of("job 1"), 0);
    world.add_twin();
    let twin = world.state.list_jobs(world.now, None, "twin").remove(0);
    let told: Vec<_> = twin.decisions.iter().map(|d| &*d.reason).collect();
    assert_eq!((twin.workers, told), (3, vec!["3 workers to begin with, as was right for these samples before"]));
    // Its consumer comes back, and continues as before.
    (0..3).for_each(|worker| world.hello(worker));
    world.attach(ENDLESS, 0, 3);
    assert_eq!(world.workers_of("job 1"), 3);
    (0..40).for_each(|_| half_second_of(&mut world, &[ENDLESS], 3, 31));
    let goes_on = world.state.list_jobs(world.now, None, "job 1").remove(0);
    assert!(goes_on.decisions.iter().all(|d| d.workers == 3), "{goes_on:?}");
    // A new consumer does not reset the decisions.
    let session = world.consumers[ENDLESS].session.take().expect("connected");
    world.input(Input::ConsumerGone { session });
    world.attach(ENDLESS, 0, 3);
    assert_eq!(world.state.list_jobs(world.now, None, "job 1").remove(0).decisions.len(), goes_on.decisions.len());
}

#[test]
fn what_was_right_for_other_consumers_another_tenant_aim_or_policy_is_not_begun_with() {
    let begins = |world: &mut World, record: JobRecord| {
        let name = record.name.clone();
        world.create(record);
        world.workers_of(&name)
    };
    let new = |name: &str| JobRecord { name: name.to_owned(), ..record(TWIN_OF) };
    let mut world = rested_and_restarted();
    assert_eq!(begins(&mut world, JobRecord { consumers: 2, ..new("two readers") }), 0);
    assert_eq!(begins(&mut world, JobRecord { dataset: "e".to_owned(), ..new("other samples") }), 0);
    world.tenants = true;
    assert_eq!(begins(&mut world, new("another tenant's")), 0);
    world.tenants = false;
    let cost = Scaling { objective: Objective::Cost(Prices::default()), ..Scaling::default() };
    world.state.set_scaling(cost);
    assert_eq!(begins(&mut world, new("cheap")), 0);
    world.state.set_scaling(Scaling { policy: Policy::fixed(1), ..Scaling::default() });
    assert_eq!(begins(&mut world, new("climbs")), 0);
    world.state.set_scaling(Scaling::default());
    assert_eq!(begins(&mut world, new("alike")), 3);
}

#[test]
fn it_is_written_seldom_while_jobs_run_and_soon_after_a_consumer_has_left() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    let consumer = world.consumers.len() - 1;
    world.attach(consumer, 0, 3);
    let id = world.last_job();
    let run = |world: &mut World, seconds: u64| {
        for _ in 0..seconds * 2 {
            world.say_ops(0, id, vec![spent(&[], 10, 1)]);
            world.reads(consumer, 500, 0);
            world.half_second();
        }
        world.flush();
        (world.written("d").expect("written").number, world.written("d").expect("written").ops[0].sums.rows_in)
    };
    let (first, rows) = run(&mut world, 4);
    assert!(rows < 80, "no consumer waits for a minute the first time");
    let (same, _) = run(&mut world, 50);
    assert_eq!(first, same);
    let (last, _) = run(&mut world, 120);
    assert!((first + 2..=first + 3).contains(&last), "{} writes in two minutes", last - first);
    let session = world.consumers[consumer].session.take().expect("connected");
    world.input(Input::ConsumerGone { session });
    // The workers' last reports are written, too; then nothing is left to write.
    world.say_ops(0, id, vec![spent(&[], 10, 1)]);
    world.pass_and_write(Duration::from_secs(4));
    let written = world.written("d").expect("written").clone();
    assert_eq!((written.number, written.ops[0].sums.rows_in), (last + 1, world.ops("one")[0].rows_in));
    let is_more = |world: &mut World| {
        world.state.load.profiles_mut().write(world.now);
        let changes = world.state.load.profiles_mut().take_changes();
        changes.iter().any(|change| matches!(change, ProfileChange::Written(r) if r.dataset == "d"))
    };
    world.now = world.now + WRITE_EVERY;
    assert!(!is_more(&mut world));
}

#[test]
fn what_is_left_is_written_when_the_dispatcher_ends_in_peace() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    world.say_ops(0, world.last_job(), vec![spent(&[], 10, 1)]);
    let mut out = Vec::new();
    world.state.write_profiles(&mut out);
    world.take(out);
    world.flush();
    world.crash();
    assert_eq!(world.ops("one").len(), 1);
}

#[test]
fn datasets_ops_and_places_of_rest_are_bounded_and_the_longest_unheard_of_goes() {
    let mut world = rested_and_restarted();
    let rest = world.written("").expect("of the other jobs").steady_states[0].state;
    world.hello(0);
    let ops = (0..99u32).map(|place| spent(&[place], 10, u64::from(place))).collect();
    world.create(job("0", "0"));
    world.say_ops(0, world.last_job(), ops);
    for n in 1..=DATASETS_MAX {
        let name = n.to_string();
        world.create(job(&name, &name));
        world.say_ops(0, world.last_job(), vec![spent(&[], 10, 1)]);
        if n == DATASETS_MAX / 2 {
            world.pass_and_write(WRITE_EVERY);
            let costliest = world.written("0").expect("written").ops.iter().map(|op| op.places[0]).min();
            assert_eq!(costliest, Some(99 - WRITTEN_MAX as u32));
            // Its report comes after the first half, to this dispatcher or the next.
            world.say_ops(0, world.consumers[world.consumers.len() - 1 - n].key.0, vec![spent(&[], 10, 1)]);
            world.pass_and_write(WRITE_EVERY);
            world.crash();
            world.hello(0);
        }
    }
    world.pass_and_write(WRITE_EVERY);
    assert_eq!(world.disk.profiles.len(), DATASETS_MAX);
    let gone: Vec<_> = (0..=DATASETS_MAX).filter(|n| world.written(&n.to_string()).is_none()).collect();
    assert_eq!(gone, [1, 2], "there is the dataset of the other jobs, too");
    for consumers in 0..2 * STEADY_STATES_MAX as u32 {
        let job = JobRecord { consumers, ..job("0", "0") };
        world.state.load.profiles_mut().note_steady_state(world.now, &job, &Objective::Time, rest);
    }
    world.pass_and_write(WRITE_EVERY);
    let steady_states: Vec<_> =
        world.written("0").expect("written").steady_states.iter().map(|rest| rest.consumers).collect();
    assert_eq!(steady_states, (STEADY_STATES_MAX as u32..2 * STEADY_STATES_MAX as u32).collect::<Vec<_>>());
}

#[test]
fn a_job_is_told_how_often_its_samples_were_read_before_it() {
    let mut world = World::new();
    let opened = |world: &mut World, record: JobRecord| {
        let name = record.name.clone();
        world.create(record);
        world.state.job("", &name).expect("opened").clone()
    };
    let first = opened(&mut world, JobRecord { epochs: 5, ..job("first", "d") });
    assert_eq!(first.read_before, 0);
    let consumer = world.consumers.len() - 1;
    world.attach(consumer, 0, 3);
    let session = world.consumers[consumer].session.expect("connected");
    let ack = |world: &mut World, epoch: u64, ordinal: u64| {
        world.input(Input::Ack { session, position: Position::new(epoch, ordinal) });
    };
    ack(&mut world, 0, 1);
    assert_eq!(opened(&mut world, job("early", "d")).read_before, 0, "no epoch has ended");
    ack(&mut world, 1, 0);
    ack(&mut world, 2, 1);
    ack(&mut world, 2, 1);
    let later = opened(&mut world, job("later", "d"));
    assert_eq!((later.read_before, opened(&mut world, job("other", "e")).read_before), (2, 0));
    let twin = later.definition();
    assert_eq!(SampleStreamKey::of(&twin), SampleStreamKey::of(&opened(&mut world, job("early 2", "d")).definition()));
    assert_eq!(
        SampleStreamKey::of(&twin),
        SampleStreamKey::of(&JobDefinition { read_before: 0, ..twin.clone() }),
        "it reaches no sample"
    );
    world.pass_and_write(WRITE_EVERY);
    world.crash();
    assert_eq!(opened(&mut world, job("after", "d")).read_before, 2, "it outlives the dispatcher");
    assert_eq!(world.state.job("", "later").expect("goes on").read_before, 2, "and stays with a job");
}

#[test]
fn of_a_job_with_several_consumers_each_reads_a_part() {
    let mut world = World::new();
    let of = JobRecord { consumers: 3, ..job("shared", "d") };
    for (consumer, read) in [(0, 0), (1, 0), (2, 1)] {
        world.state.load.profiles_mut().add_epochs(world.now, &of, 1);
        assert_eq!(world.state.load.profiles().epochs_read(&of), read, "consumer {consumer}");
    }
}

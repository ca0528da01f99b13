//! Op costs: sums over all reports, the median cost of a row, the first figures of a later job, and bounds.

use forebay_plan::{Graph, Node, Op, Site, Source, ops};

use super::*;

/// The job of [`World::create`] with a graph: reading, then two ops.
pub(super) fn job(name: &str, dataset: &str) -> JobRecord {
    let site = |line| Some(Site { file: "train.py".to_owned(), line });
    let graph = Graph::new(Source::Range { start: 0, stop: 9, step: 1 }, site(1)).expect("a source");
    let rename = |from: &str, to: &str| Op::Rename(ops::Rename { columns: vec![(from.to_owned(), to.to_owned())] });
    let node = |line, op| Node { site: site(line), ..Node::new(op) };
    let graph = graph.then(node(2, rename("id", "a"))).and_then(|graph| graph.then(node(3, rename("a", "b"))));
    let graph = graph.expect("legal").to_json();
    JobRecord { name: name.to_owned(), dataset: dataset.to_owned(), graph, ..record(TWIN_OF) }
}

pub(super) fn spent(places: &[u32], rows: u64, nanos: u64) -> OpSpent {
    let bytes = 10 * rows;
    OpSpent {
        places: places.to_vec(),
        rows_in: rows,
        rows_out: rows / 2,
        rows_found: 0,
        timed: rows / 10,
        nanos,
        bytes_in: bytes / 10,
        bytes_out: bytes,
    }
}

impl World {
    /// A worker reports the ops of a job.
    pub(super) fn say_ops(&mut self, worker: usize, job: u64, ops: Vec<OpSpent>) {
        let session = self.workers[worker].session.expect("connected");
        let ops = vec![JobOps { job, ops }];
        self.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { ops, ..WorkerHeartbeat::default() } });
    }

    pub(super) fn ops(&self, name: &str) -> Vec<OpStatus> {
        self.state.list_jobs(self.now, None, name).remove(0).ops
    }

    pub(super) fn last_job(&self) -> u64 {
        self.consumers.last().expect("one").key.0
    }
}

#[test]
fn the_costs_of_all_workers_add_up_in_run_order_with_the_users_lines() {
    let mut world = World::new();
    (0..2).for_each(|worker| world.hello(worker));
    world.create(job("one", "d"));
    let (id, consumer) = (world.last_job(), world.consumers.len() - 1);
    assert_eq!(world.ops("one"), []);
    world.say_ops(0, id, vec![spent(&[1], 50, 1_000), spent(&[], 100, 20_000)]);
    world.say_ops(1, id, vec![spent(&[], 100, 40_000), spent(&[9], 0, 1)]);
    world.attach(consumer, 0, 3);
    let said = ConsumerHeartbeat { ops: vec![spent(&[0], 20, 400)], ..ConsumerHeartbeat::default() };
    let session = world.consumers[consumer].session.expect("connected");
    world.input(Input::ConsumerHeartbeat { session, said });
    let ops = world.ops("one");
    let told: Vec<_> = ops.iter().map(|op| (&*op.op, &*op.line, &*op.at, op.rows_in, op.rows_out)).collect();
    let want = [
        ("read", "train.py:1", "workers", 200, 100),
        ("rename", "train.py:2", "reader", 20, 10),
        ("rename", "train.py:3", "workers", 50, 25),
    ];
    assert_eq!(told, want);
    // A tenth of the rows was timed; their time is scaled.
    assert_eq!((ops[0].seconds, ops[0].bytes_in, ops[0].bytes_out), (60_000.0 * 10.0 / 1e9, 2000, 20_000));
    assert!((ops[0].row_us - 3.0).abs() < 1e-9 && !ops[0].earlier, "{:?}", ops[0]);
    assert!(world.state.list_jobs(world.now, None, "").iter().all(|job| job.ops.is_empty()), "only when it is named");
}

#[test]
fn one_bad_minute_part_is_not_what_a_row_costs() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    let id = world.last_job();
    for window in 0..20u64 {
        // Ten seconds each; a storage stalls in one of six.
        let nanos = if window % 6 == 2 { 90_000_000 } else { 1_000 };
        for _ in 0..3 {
            world.say_ops(0, id, vec![spent(&[], 10, nanos)]);
            world.pass(Duration::from_secs(4), None);
        }
    }
    let read = world.ops("one").remove(0);
    assert!((read.row_us - 1.0).abs() < 1e-9, "{read:?}");
    assert!(read.seconds > 1.0, "it is in the sums");
}

#[test]
fn a_second_job_begins_with_what_the_first_one_showed() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    world.say_ops(0, world.last_job(), vec![spent(&[], 100, 20_000)]);
    world.create(job("two", "d"));
    world.create(job("other", "e"));
    let known = world.ops("two");
    assert_eq!(known, [OpStatus { earlier: true, ..world.ops("one").remove(0) }]);
    assert_eq!(world.ops("other"), []);
    let two = world.consumers.iter().rev().nth(1).expect("readers").key.0;
    world.say_ops(0, two, vec![spent(&[0], 10, 1)]);
    let own: Vec<_> = world.ops("two").iter().map(|op| (op.rows_in, op.earlier)).collect();
    assert_eq!(own, [(10, false)], "its own, from then on");
    world.create(job("three", "d"));
    let both: Vec<_> = world.ops("three").iter().map(|op| (op.rows_in, op.earlier)).collect();
    assert_eq!(both, [(100, true), (10, true)]);
}

#[test]
fn what_a_worker_says_of_jobs_that_it_does_not_serve_is_not_taken() {
    let mut world = World::with(true);
    world.hello(1);
    world.create(job("one", "d"));
    let id = world.last_job();
    world.say_ops(1, id, vec![spent(&[], 10, 1)]);
    assert_eq!(world.ops("one").len(), 1, "the tenant's own worker");
    world.hello(2);
    world.say_ops(2, id, vec![spent(&[0], 10, 1)]);
    world.say_ops(2, 999, vec![spent(&[0], 10, 1)]);
    assert_eq!(world.ops("one").len(), 1, "another tenant's");
}

#[test]
fn nonsense_is_bounded() {
    let mut world = World::new();
    world.hello(0);
    world.create(job("one", "d"));
    let id = world.last_job();
    world.say_ops(0, id, (0..9999).map(|place| spent(&[place], 10, 1)).collect());
    world.say_ops(0, id, vec![spent(&[7; 999], 10, 1)]);
    assert_eq!(world.ops("one").len(), crate::state::load::op_costs::OPS_MAX);
    for _ in 0..3 {
        let most = u64::MAX;
        let (rows_in, rows_out, rows_found, timed) = (most, most, most, 1);
        let said = OpSpent {
            places: vec![0],
            rows_in,
            rows_out,
            rows_found,
            timed,
            nanos: most,
            bytes_in: most,
            bytes_out: most,
        };
        world.say_ops(0, id, vec![said]);
    }
    assert!(world.ops("one").iter().all(|op| op.seconds.is_finite()));
    // The oldest dataset goes.
    for n in 0..crate::state::load::dataset_profile::DATASETS_MAX {
        let name = format!("new {n}");
        world.create(job(&name, &name));
        world.say_ops(0, world.last_job(), vec![spent(&[], 10, 1)]);
    }
    world.create(job("late", "d"));
    assert_eq!(world.ops("late"), []);
    world.create(job("later", "new 0"));
    assert_eq!(world.ops("later").len(), 1);
}

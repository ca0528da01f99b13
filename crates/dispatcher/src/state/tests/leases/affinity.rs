//! A split goes to the worker that has its rows from the epoch before, or that computes the splits beside it, if that has
//! room; otherwise to another one.

use forebay_plan::{Graph, Node, Op, Source};

use crate::state::leases::grants::grant::LOOKAHEAD;
use crate::state::tests::*;

const SPLITS: u64 = 40;

/// A job that is read, and two workers.
struct Epochs {
    world: World,
    key: ConsumerKey,
    session: SessionId,
}

impl Epochs {
    fn new(ops: &[Op], window: u32) -> Self {
        Self::over(Source::Range { start: 0, stop: 900, step: 1 }, ops, (String::new(), String::new()), window)
    }

    /// Over a source with this extent and these sizes.
    fn over(source: Source, ops: &[Op], (extent, sizing): (String, String), window: u32) -> Self {
        let mut world = World::new();
        (0..2).for_each(|worker| world.hello(worker));
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.iter().try_fold(graph, |graph, op| graph.then(Node::new(op.clone()))).expect("legal");
        let (graph, name) = (graph.to_json(), "epochs".to_owned());
        let record = JobRecord { graph, extent, sizing, epochs: 3, name, ..record(TWIN_OF) };
        let mut out = Vec::new();
        let id =
            world.state.create(world.now, record, &[Some(SPLITS)], Quota::default(), &mut out).expect("a new name").id;
        world.take(out);
        let (session, key) = (world.session(), (id, 0));
        world.input(Input::Attach(Attachment { window, ..attachment(session, key) }));
        Self { world, key, session }
    }

    /// A worker requests splits; returns the splits of an epoch that it then holds.
    fn want(&mut self, worker: usize, splits: u32, epoch: u64) -> Vec<u64> {
        let session = self.world.workers[worker].session.expect("connected");
        self.world.input(Input::Want { session, splits });
        self.world.flush();
        let (leases, _) = self.world.state.leases.held(self.key);
        let own = leases.iter().filter(|(p, holder, _)| p.epoch == epoch && *holder == WorkerId(worker as u128 + 1));
        own.map(|(p, ..)| p.ordinal).collect()
    }

    fn ack(&mut self, epoch: u64, ordinal: u64) {
        self.world.input(Input::Ack { session: self.session, position: Position::new(epoch, ordinal) });
    }

    /// The first epoch: the workers get every other split.
    fn first(&mut self) {
        for ordinal in 0..SPLITS {
            self.want(ordinal as usize % 2, 1, 0);
            self.ack(0, ordinal + 1);
        }
    }
}

#[test]
fn each_worker_gets_what_it_had_in_the_epoch_before() {
    let mut epochs = Epochs::new(&[], 4);
    epochs.first();
    assert_eq!(epochs.want(1, 2, 1), [1, 3]);
    assert_eq!(epochs.want(0, 2, 1), [0, 2]);
    epochs.ack(1, 4);
    // A worker without room delays no split.
    assert_eq!(epochs.want(0, 4, 1), [4, 5, 6, 7]);
}

#[test]
fn with_a_shuffle_and_after_a_worker_is_gone_the_first_goes_first() {
    let mut shuffled = Epochs::new(&[Op::SHUFFLE], 4);
    shuffled.first();
    assert_eq!(shuffled.want(1, 2, 1), [0, 1]);
    let mut epochs = Epochs::new(&[], 4);
    epochs.first();
    let session = epochs.world.workers[0].session.expect("connected");
    epochs.world.input(Input::Leaving { session });
    epochs.world.input(Input::WorkerGone { session });
    assert_eq!(epochs.want(1, 1, 1), [0], "no worker has it");
    assert_eq!(epochs.want(1, 2, 1), [0, 1, 2]);
}

#[test]
fn a_job_without_consumers_keeps_no_affinities() {
    let mut epochs = Epochs::new(&[], 4);
    epochs.first();
    epochs.world.input(Input::ConsumerGone { session: epochs.session });
    let homes = |epochs: &Epochs| epochs.world.state.leases.affinities(epochs.key, SPLITS);
    assert_eq!(homes(&epochs), SPLITS as usize, "it may come back");
    epochs.world.pass(Duration::from_secs(12), None);
    assert_eq!(homes(&epochs), 0);
}

#[test]
fn a_split_is_passed_over_by_few_others() {
    let mut epochs = Epochs::new(&[], SPLITS as u32);
    epochs.first();
    let got = epochs.want(1, LOOKAHEAD as u32 / 2 + 1, 1);
    let own: Vec<u64> = (0..LOOKAHEAD as u64).filter(|ordinal| ordinal % 2 == 1).collect();
    assert_eq!(got, [&[0], &own[..]].concat(), "then the first goes to any worker with room");
}

/// Windows of text in a store that are read by lanes: one group of lanes for each 64 files.
fn shuffled_text(files: u64, window: u32) -> Epochs {
    let source = Source::Text { paths: vec!["s3://texts/*".to_owned()] };
    let extent = format!(r#"{{"rows": null, "blocks": {files}, "bytes": {}}}"#, files << 28);
    let sizing = r#"{"unit_rows": 0, "morsel_units": 1, "split_units": 1, "window_bytes": 67108864}"#.to_owned();
    Epochs::over(source, &[Op::SHUFFLE], (extent, sizing), window)
}

/// Four groups of lanes.
#[test]
fn a_window_goes_to_the_worker_that_read_the_one_before_it() {
    let mut epochs = shuffled_text(256, 8);
    for ordinal in 0..4 {
        epochs.want(ordinal as usize % 2, 1, 0);
        epochs.ack(0, ordinal + 1);
    }
    assert_eq!(epochs.want(1, 2, 0), [5, 7]);
    assert_eq!(epochs.want(0, 2, 0), [4, 6]);
    let session = epochs.world.workers[0].session.expect("connected");
    epochs.world.input(Input::Leaving { session });
    epochs.world.input(Input::WorkerGone { session });
    assert_eq!(epochs.want(1, 1, 0), [4, 5, 7], "the first window, since no worker reads its group");
}

/// Text in a store, whose lines are counted: splits share what is requested ahead.
fn counted_text(window: u32) -> Epochs {
    let source = Source::Text { paths: vec!["s3://texts/*".to_owned()] };
    let extent = r#"{"rows": 40, "blocks": 1, "bytes": 1048576}"#.to_owned();
    let sizing = r#"{"unit_rows": 1, "morsel_units": 1, "split_units": 1}"#.to_owned();
    Epochs::over(source, &[], (extent, sizing), window)
}

#[test]
fn each_worker_gets_a_run_of_splits() {
    let mut epochs = counted_text(16);
    assert_eq!(epochs.want(0, 2, 0), [0, 1]);
    assert_eq!(epochs.want(1, 2, 0), [8, 9], "the first eight belong to the other worker");
    assert_eq!(epochs.want(0, 3, 0), [0, 1, 2, 3, 4]);
    assert_eq!(epochs.want(1, 6, 0), [8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(epochs.want(1, 1, 0), [5, 8, 9, 10, 11, 12, 13, 14, 15], "no worker idles");
    epochs.ack(0, 4);
    assert_eq!(epochs.want(0, 3, 0), [4, 6, 7, 16]);
}

#[test]
fn the_run_of_a_lost_worker_goes_first() {
    let mut epochs = counted_text(16);
    epochs.want(0, 2, 0);
    epochs.want(1, 2, 0);
    let session = epochs.world.workers[0].session.expect("connected");
    epochs.world.input(Input::Leaving { session });
    epochs.world.input(Input::WorkerGone { session });
    assert_eq!(epochs.want(1, 3, 0), [0, 1, 2, 8, 9]);
}

#[test]
fn runs_are_shorter_where_a_consumer_may_lease_few_splits() {
    let mut epochs = counted_text(4);
    assert_eq!(epochs.want(0, 1, 0), [0]);
    assert_eq!(epochs.want(1, 2, 0), [2, 3]);
    assert_eq!(epochs.want(0, 1, 0), [0, 1]);
}

/// One group of lanes, and two workers: each reads several windows that follow each other.
#[test]
fn workers_that_share_a_group_of_lanes_get_runs_of_windows() {
    let mut epochs = shuffled_text(16, 16);
    assert_eq!(epochs.want(0, 4, 0), [0, 1, 2, 3]);
    assert_eq!(epochs.want(1, 9, 0), [8, 9, 10, 11, 12, 13, 14, 15], "a window of the other one's run costs too much");
    epochs.ack(0, 2);
    let own: Vec<u64> = (8..18).collect();
    assert_eq!(epochs.want(1, 2, 0), own, "a run of its own");
    epochs.ack(0, 4);
    let own: Vec<u64> = (8..20).collect();
    assert_eq!(epochs.want(1, 2, 0), [&[4], &own[..]].concat(), "the consumer needs it next");
    assert_eq!(epochs.want(0, 4, 0), [5, 6, 7]);
}

/// Windows of row groups, of 8 splits each.
fn shuffled_row_groups(window: u32) -> Epochs {
    let source = Source::Range { start: 0, stop: 40_000, step: 1 };
    let extent = r#"{"rows": 40000, "blocks": 100, "bytes": 4000000}"#.to_owned();
    let sizing = r#"{"unit_rows": 100, "morsel_units": 1, "split_units": 10, "window_rows": 8000}"#.to_owned();
    Epochs::over(source, &[Op::SHUFFLE], (extent, sizing), window)
}

#[test]
fn each_worker_has_windows_of_row_groups_for_itself() {
    let mut epochs = shuffled_row_groups(16);
    assert_eq!(epochs.want(0, 1, 0), [0]);
    assert_eq!(epochs.want(1, 9, 0), [8, 9, 10, 11, 12, 13, 14, 15], "the first window is the other worker's");
    assert_eq!(epochs.want(0, 6, 0), [0, 1, 2, 3, 4, 5, 6]);
    epochs.ack(0, 1);
    assert_eq!(epochs.want(0, 1, 0), [1, 2, 3, 4, 5, 6, 7], "its window comes before another one");
    assert_eq!(epochs.want(1, 0, 0), [8, 9, 10, 11, 12, 13, 14, 15, 16], "then the next window");
}

#[test]
fn workers_share_windows_of_row_groups_that_consumers_cannot_have_ahead() {
    let mut epochs = shuffled_row_groups(8);
    assert_eq!(epochs.want(0, 1, 0), [0]);
    assert_eq!(epochs.want(1, 8, 0), [4, 5, 6, 7]);
    assert_eq!(epochs.want(0, 8, 0), [0, 1, 2, 3]);
}

#[test]
fn workers_without_windows_of_an_epoch_begin_the_next_one_or_share_the_last_ones() {
    let mut epochs = shuffled_row_groups(16);
    let last = SPLITS - 8;
    let to_end = |epochs: &mut Epochs, epoch: u64| {
        epochs.world.input(Input::Ack { session: epochs.session, position: Position::new(epoch, last) });
    };
    to_end(&mut epochs, 0);
    assert_eq!(epochs.want(0, 1, 0), [last]);
    assert_eq!(epochs.want(1, 2, 1), [0, 1], "the last window is the other worker's");
    to_end(&mut epochs, 2);
    assert_eq!(epochs.want(0, 1, 2), [last]);
    assert_eq!(epochs.want(1, 2, 2), [last + 4, last + 5], "no window is left");
}

/// Nothing that the other worker has computed can be consumed before that split, so its memory stays full.
#[test]
fn the_split_that_a_consumer_needs_next_takes_the_place_of_its_last_one() {
    let mut epochs = shuffled_row_groups(16);
    assert_eq!(epochs.want(0, 1, 0), [0]);
    let own = epochs.want(1, 4, 0);
    assert_eq!(own, [8, 9, 10, 11]);
    let lost = epochs.world.workers[0].session.expect("connected");
    epochs.world.input(Input::Leaving { session: lost });
    epochs.world.input(Input::WorkerGone { session: lost });
    assert_eq!(epochs.want(1, 0, 0), own, "it computes them");
    epochs.world.now = epochs.world.now + Duration::from_millis(20);
    let session = epochs.world.workers[1].session.expect("connected");
    let finished = epochs.world.workers[1].held.keys().copied().collect();
    epochs
        .world
        .input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { finished, ..WorkerHeartbeat::default() } });
    epochs.world.input(Input::Tick);
    assert_eq!(epochs.want(1, 0, 0), [0, 8, 9, 10]);
}

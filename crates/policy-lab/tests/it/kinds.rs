//! The simulator with several worker types: the scaling policies of jobs and the fleet policy together.

use forebay_policy::fleet::{Offer, RETRY};
use forebay_policy::placement::Prices;
use forebay_policy::scaling::Policy;
use forebay_policy_lab::simulate::{Job, Kind, KindOutcome, Outcome, Pool, Scenario, simulate};
use proptest::prelude::*;

const PRICES: Prices = Prices { trainer: 36.0, worker: 0.0 };

fn kind(name: &str, price: f64, threads: u32) -> Kind {
    Kind::new(Offer { kind: name.to_owned(), price, threads, max: 1000, spot: false })
}

fn run(jobs: Vec<Job>, kinds: Vec<Kind>, policy: &Policy) -> Outcome {
    let scenario = Scenario { kinds, ..Scenario::new(jobs, Pool::default(), 7) };
    simulate(&scenario, policy).expect("a scenario")
}

/// A job that wants 38 threads.
fn job(batches: u64) -> Job {
    Job { noise: 0.02, ..Job::new("job", 0.05, 1.9, batches) }
}

fn at(kind: &KindOutcome, time: f64) -> u32 {
    kind.workers[kind.workers.partition_point(|change| change.0 <= time) - 1].1
}

#[test]
fn one_kind_is_the_pool_but_for_what_is_left_later() {
    let pool = Pool { threads: 4, startup: 20.0, ..Pool::default() };
    let jobs = vec![Job::new("job", 0.05, 1.9, 20_000)];
    let plain = simulate(&Scenario::new(jobs.clone(), pool, 7), &Policy::default()).expect("a scenario");
    let kinds = vec![Kind { startup: 20.0, ..kind("a", 3.6, 4) }];
    let mixed = run(jobs, kinds, &Policy::default());
    let of = |outcome: &Outcome| outcome.workers[..2].to_vec();
    assert_eq!((&mixed.jobs, of(&mixed)), (&plain.jobs, of(&plain)));
    assert!((mixed.price(&PRICES) - plain.price(&Prices { worker: 3.6, ..PRICES })).abs() < 1e-9);
}

/// Spot machines for 0.11 and others for 0.38; the cloud has enough of both, but no spot machines from 20 to 60
/// minutes.
#[test]
fn spot_machines_that_are_taken_back_are_filled_up_and_come_again() {
    let away = (1200.0, 3600.0);
    let spot = Kind { away: Some(away), startup: 60.0, ..kind("c5", 0.11, 8) };
    let spot = Kind { offer: Offer { spot: true, ..spot.offer.clone() }, ..spot };
    let kinds = vec![Kind { startup: 60.0, ..kind("c5", 0.38, 8) }, spot];
    let outcome = run(vec![job(90_000)], kinds, &Policy::default());
    let [dear, cheap] = &outcome.kinds[..] else { panic!("two kinds") };
    assert_eq!((at(dear, 1199.0), at(cheap, 1199.0)), (0, 5), "{outcome:?}");
    // The spot machines were lost, so the policy does not wait for more of them.
    let filled = away.0 + 21.0;
    assert_eq!((at(dear, away.0 + 10.0), at(dear, filled), at(cheap, filled)), (0, 5, 0), "{:?}", outcome.kinds);
    assert!(outcome.jobs[0].waited_s < 200.0, "{:?}", outcome.jobs);
    // They come when they are requested again, and their replacements stay until then.
    let again = away.1 + RETRY.as_secs_f64() + 200.0;
    assert_eq!((at(dear, again), at(cheap, again)), (0, 5), "{:?}", outcome.kinds);
    assert_eq!(cheap.lost, 5);
    let hours = |kind: &KindOutcome| kind.worker_s * kind.price;
    let price = (36.0 * outcome.trainer_s() + hours(dear) + hours(cheap)) / 3600.0;
    assert!((outcome.price(&PRICES) - price).abs() < 1e-9);
}

#[test]
fn threads_that_are_faster_than_they_look_are_found_out_and_preferred() {
    // By price and threads the first is cheaper; by its rate the second is.
    let slow = Kind { pace: 0.5, comes: 3, ..kind("slow", 0.30, 8) };
    let fast = Kind { pace: 1.0, ..kind("fast", 0.38, 8) };
    let outcome = run(vec![job(100_000)], vec![slow, fast], &Policy::default());
    let last = |i: usize| outcome.kinds[i].workers.last().expect("some").1;
    assert_eq!((last(0), last(1)), (0, 5), "{:?}", outcome.kinds);
    assert!(outcome.jobs[0].waited_s < 0.05 * outcome.jobs[0].took_s, "{:?}", outcome.jobs);
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let of = (1..17u32, 1..100u32, 2..200u32, 0.5..2.0f64, 0.0..120.0f64, any::<bool>());
    let of = of.prop_map(|(threads, cents, comes, pace, startup, is_steady)| Kind {
        pace,
        comes,
        startup,
        lost_every: (!is_steady).then_some(7200.0),
        ..kind("", f64::from(cents) / 100.0, threads)
    });
    prop::collection::vec(of, 1..4).prop_map(|mut kinds| {
        // Give each type its own name; the last type is always available.
        (0..).zip(&mut kinds).for_each(|(i, kind)| kind.offer.kind = format!("kind-{i}"));
        kinds.last_mut().into_iter().for_each(|kind| kind.comes = 1000);
        kinds
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Jobs get enough workers from any types, and both policies together come to rest.
    #[test]
    fn jobs_are_fed_and_kinds_come_to_rest(kinds in kinds(), load in 1.0..60.0f64, seed: u64) {
        let job = Job { noise: 0.02, ..Job::new("job", 0.05, 0.05 * load, 150_000) };
        let pool = Pool { max: 1000, ..Pool::default() };
        let scenario = Scenario { jobs: vec![job], pool, kinds, seed };
        let outcome = simulate(&scenario, &Policy::default()).expect("a scenario");
        prop_assert_eq!(&outcome, &simulate(&scenario, &Policy::default()).expect("a scenario"), "the same again");
        // The policy waits for types of which too few come, one after the other, and tries them again.
        let waited = 700.0 + 0.04 * outcome.ended_s;
        prop_assert!(outcome.jobs[0].waited_s <= waited, "{:?} {:?}", outcome.jobs, outcome.kinds);
        let changes = outcome.jobs[0].changes.len();
        prop_assert!(changes <= 30, "{changes} {:?}", outcome.jobs[0].changes);
    }
}

//! The simulator: against results by hand, against a published trace, and against itself.

use forebay_policy::placement::{Placement, Prices};
use forebay_policy::scaling::Policy;
use forebay_policy_lab::baselines::policy;
use forebay_policy_lab::simulate::{Job, Op, Outcome, Pool, Scenario, best, simulate};
use proptest::prelude::*;

fn named(name: &str) -> Policy {
    policy(name).expect("a policy")
}

fn run(jobs: Vec<Job>, pool: Pool, policy: &Policy) -> Outcome {
    simulate(&Scenario::new(jobs, pool, 7), policy).expect("a scenario")
}

fn asked(outcome: &Outcome, job: usize) -> Vec<u32> {
    outcome.jobs[job].changes.iter().map(|change| change.to.workers).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// Cachew's two tenants (USENIX ATC 2022, Figure 10): trainers of 100 and 50 ms a batch, ten workers. Its authors'
/// trace, once the batches are cheap: the second climbs from 1 to 5 and back to 4 in 148 s, and the first comes to rest
/// at 2.
#[test]
fn two_tenants_come_to_the_published_numbers() {
    let jobs = vec![Job::new("one", 0.1, 0.19, 10_000), Job::new("two", 0.05, 0.19, 10_000)];
    // Its pods took some seconds to start.
    let pool = Pool { max: 10, startup: 5.0, ..Pool::default() };
    let cachew = run(jobs.clone(), pool, &named("cachew"));
    assert_eq!([asked(&cachew, 0), asked(&cachew, 1)], [vec![1, 2, 3, 2], vec![1, 2, 3, 4, 5, 4]]);
    assert!((120.0..=165.0).contains(&cachew.jobs[1].settled_s), "{}", cachew.jobs[1].settled_s);
    let forebay = run(jobs, pool, &Policy::default());
    assert_eq!([asked(&forebay, 0), asked(&forebay, 1)], [vec![1, 2], vec![1, 4]]);
    assert!(forebay.settled_s() <= 30.0, "{}", forebay.settled_s());
    assert!(forebay.jobs[1].took_s < cachew.jobs[1].took_s);
}

#[test]
fn where_workers_are_short_jobs_have_them_by_weight() {
    let light = Job::new("light", 0.01, 0.1, 1_000);
    let heavy = Job { weight: 3.0, ..Job::new("heavy", 0.01, 0.1, 3_000) };
    let outcome = run(vec![light, heavy], Pool { max: 8, ..Pool::default() }, &Policy::fixed(8));
    // 2 and 6 of 8 workers: 20 and 60 batches/s.
    assert!(close(outcome.jobs[0].took_s, 50.0) && close(outcome.jobs[1].took_s, 50.0), "{outcome:?}");
}

#[test]
fn what_is_shared_bounds_all_workers_and_they_are_given_back() {
    let job = Job { shared_limit: Some(10.0), ..Job::new("job", 0.05, 0.5, 10_000) };
    let most = run(vec![job.clone()], Pool::default(), &Policy::fixed(64));
    assert!(close(most.ended_s, 1000.0), "{}", most.ended_s);
    let forebay = run(vec![job], Pool::default(), &Policy::default());
    let last = asked(&forebay, 0).pop().expect("some");
    assert!((5..=6).contains(&last), "five are as good as ten: {:?}", asked(&forebay, 0));
}

#[test]
fn lost_workers_are_replaced_and_paid_for_meanwhile() {
    let job = Job::new("job", 0.05, 0.23, 100_000);
    let pool = Pool { lost_every: Some(1800.0), startup: 30.0, ..Pool::default() };
    let outcome = run(vec![job.clone()], pool, &Policy::fixed(5));
    // Five workers for 5000 s, each lost every 1800 s on average: 14, within four times the root of that.
    assert!((3..=30).contains(&outcome.lost), "{}", outcome.lost);
    let calm = run(vec![job], Pool { lost_every: None, ..pool }, &Policy::fixed(5));
    assert!(outcome.ended_s > calm.ended_s && close(outcome.worker_s, 5.0 * outcome.ended_s));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let good = Job::new("job", 0.05, 0.2, 100);
    let bad = [
        Job { step: 0.0, ..good.clone() },
        Job { step: f64::NAN, ..good.clone() },
        Job { ops: vec![Op { cost: -1.0, bytes: 0.0 }], ..good.clone() },
        Job { ops: Vec::new(), ..good.clone() },
        Job { batches: 0, ..good.clone() },
        Job { efficiency: 1.5, ..good.clone() },
        Job { noise: 0.9, ..good.clone() },
        Job { weight: 0.0, ..good.clone() },
        Job { begins: -1.0, ..good.clone() },
        Job { shared_limit: Some(0.0), ..good.clone() },
        Job { then: vec![(20.0, 0.1), (10.0, 0.1)], ..good.clone() },
        Job { then: vec![(20.0, 0.0)], ..good.clone() },
    ];
    for job in bad {
        let scenario = Scenario::new(vec![job.clone()], Pool::default(), 0);
        let error = simulate(&scenario, &Policy::default()).expect_err("refused");
        assert_eq!(error.get("job"), Some("job"), "{job:?}: {error}");
    }
    let pool = Pool { max: 0, ..Pool::default() };
    assert!(simulate(&Scenario::new(vec![good.clone()], pool, 0), &Policy::default()).is_err());
    let one = Scenario::new(vec![good], Pool { max: 4, ..Pool::default() }, 0);
    assert!(simulate(&one, &Policy::fixed(5)).is_err());
    let endless = Scenario { jobs: vec![Job::new("job", 1.0, 1.0, 1 << 40)], ..one };
    assert!(simulate(&endless, &Policy::fixed(1)).is_err());
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let parts = (5.0f64..100.0, 0.3f64..20.0, 0u32..9, 0.0f64..0.05, 0.0f64..20.0, 5_000u64..50_000, any::<u64>());
    parts.prop_map(|(demand, load, ahead, noise, startup, batches, seed)| {
        let job = Job { ahead, noise, ..Job::new("job", 1.0 / demand, load / demand, batches) };
        Scenario::new(vec![job], Pool { startup, ..Pool::default() }, seed)
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let fixed = (1u32..=64).prop_map(Policy::fixed);
    prop_oneof![Just(Policy::default()), Just(named("cachew")), Just(named("hpa")), fixed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn times_and_prices_add_up(scenario in scenarios(), policy in policies()) {
        let outcome = simulate(&scenario, &policy).expect("a scenario");
        prop_assert_eq!(&outcome, &simulate(&scenario, &policy).expect("a scenario"), "the same again");
        let (job, of) = (&scenario.jobs[0], &outcome.jobs[0]);
        prop_assert!(close(of.took_s, of.waited_s + job.batches as f64 * job.step), "{:?}", of);
        let ends = outcome.workers.iter().skip(1).map(|w| w.0).chain([outcome.ended_s]);
        let sum: f64 = outcome.workers.iter().zip(ends).map(|(&(at, n), end)| f64::from(n) * (end - at)).sum();
        prop_assert!(close(sum, outcome.worker_s), "{} {}", sum, outcome.worker_s);
        let prices = Prices { trainer: 36.0, worker: 3.6 };
        let price = 0.01 * of.took_s + 0.001 * sum;
        prop_assert!(close(outcome.price(&prices), price));
        if let Some(Placement { workers, .. }) = policy.initial().fixed() {
            let slowest = job.step.max(job.ops[0].cost / f64::from(workers));
            let least = scenario.pool.startup + job.batches as f64 * slowest;
            let saved = f64::from(job.ahead) * slowest;
            prop_assert!((least * (1.0 - 1e-9) - saved..=least + 1e-3).contains(&of.took_s), "{} {}", of.took_s, least);
        }
    }

    #[test]
    fn no_policy_beats_the_best_fixed_number_of_workers(mut scenario in scenarios()) {
        // With a start-up time, one worker, paid alone while the others start, could save more than their late start
        // costs.
        scenario.pool.startup = 0.0;
        let prices = Prices::default();
        let least = best(&scenario, &prices).expect("a scenario");
        let floor = least.outcome.price(&prices);
        for workers in 1..=64 {
            let price = simulate(&scenario, &Policy::fixed(workers)).expect("a scenario").price(&prices);
            prop_assert!(price >= floor * (1.0 - 1e-9), "{} workers cost {}, {} {}", workers, price, least.workers, floor);
        }
        for policy in ["forebay", "cachew", "hpa"].map(named) {
            let price = simulate(&scenario, &policy).expect("a scenario").price(&prices);
            // Batches ahead are paid for with more workers than take part in using them up: 8 batches of 5000.
            prop_assert!(price >= 0.998 * floor, "{policy} {} {}", price, floor);
        }
    }
}

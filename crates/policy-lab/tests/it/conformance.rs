//! Invariants of every scaling policy: its limits, its purity, and a reason for people.

use forebay_core::Ticks;
use forebay_policy::scaling::{CHOICES, Limits, Observation, Policy};
use forebay_policy_lab::baselines::{BASELINES, policy};
use proptest::prelude::*;

/// A name for each choice. A new policy is added here, or the first test fails.
const NAMES: [&str; 6] = ["forebay", "static:3", "cachew", "hpa", "pecan", "static:1+2@1"];

#[test]
fn every_choice_has_a_name_here_and_every_name_one_choice() {
    let choices = || CHOICES.iter().chain(BASELINES);
    for choice in choices() {
        assert!(NAMES.iter().any(|name| (choice.parse)(name).is_some()), "{}: add a name", choice.usage);
    }
    for name in NAMES {
        assert_eq!(choices().filter(|choice| (choice.parse)(name).is_some()).count(), 1, "{name}");
    }
}

fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.0..200.0f64, 1 => Just(0.0), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(-1.0)]
}

/// One window: possible measurements, and figures that only a broken host reports.
fn window() -> impl Strategy<Value = Observation> {
    let counts = (0..40u32, 0..4u32, any::<bool>(), 0..1000u64, (1..8u32, 1..40u32));
    let rates = (figure(), prop::option::of(figure()), 0.0..1.0f64, prop::option::of(figure()));
    let rest = (prop::option::of(0.0..1.0f64), prop::option::of(figure()), prop::option::of(figure()), 1..3usize);
    (counts, rates, rest).prop_map(|(counts, (delivered, demand, waited, compute), (busy, made, ahead, kinds))| {
        let (workers, local, steady, batches, (min, max)) = counts;
        Observation {
            at: Ticks::default(),
            workers,
            local,
            steady,
            limits: Limits { min, max },
            threads: 4.0,
            threads_by_kind: vec![4.0 / kinds as f64; kinds],
            batches,
            delivered,
            demand,
            waited,
            compute,
            busy,
            made,
            ahead,
            beside: 0.0,
            host: None,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_policy_keeps_its_limits_is_pure_and_says_why(windows in prop::collection::vec(window(), 1..60), copied in 0..60usize) {
        for name in NAMES {
            let chosen: Policy = policy(name).expect("a policy");
            let (mut one, mut other) = (chosen.start(), chosen.start());
            for (at, seen) in (0..).zip(&windows) {
                let seen = Observation { at: Ticks(at * 2000), ..seen.clone() };
                if at as usize == copied {
                    other = one.clone();
                }
                let decision = one.decide(&seen);
                prop_assert_eq!(format!("{decision:?}"), format!("{:?}", other.decide(&seen)), "{} is not pure", name);
                let within = seen.limits.min.min(seen.limits.max)..=seen.limits.max;
                prop_assert!(within.contains(&decision.workers), "{name}: {} of {within:?}", decision.workers);
                prop_assert!(!decision.to_string().is_empty(), "{}", name);
            }
        }
    }
}

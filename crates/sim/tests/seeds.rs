//! Seeds without a violation, planted bugs that are found, and a simulation that is a function of its seed.

use std::collections::BTreeMap;

use forebay_sim::{Fault, Planted, Simulator, Worlds};

/// About 10 s on one core, in release. `cargo run --release -p forebay-sim` runs any number of seeds.
const SEEDS: [(Worlds, &str, u64); 2] = [(Worlds::Plain, "plain", 1500), (Worlds::Mixed, "mixed", 1000)];
/// Effects that must occur besides every kind of fault.
const FELT: [&str; 16] = [
    "splits raced",
    "cut by the policy",
    "cut begun anew",
    "chunks finished by readers",
    "splits cut at two places",
    "races cut at two places",
    "windows cut at two places",
    "chunks of twins taken",
    "chunks of twins waited for",
    "chunks lent",
    "chunks lent to several",
    "processes died at a sample",
    "budgets spent",
    "workers ended by a split",
    "splits given up",
    "epochs ended together",
];
/// Every planted bug must be found within so many seeds.
const FOUND_WITHIN: u64 = 600;

#[test]
fn no_seed_breaks_an_invariant_and_every_kind_of_fault_is_felt() {
    let simulator = Simulator::default();
    let mut felt: BTreeMap<&str, u64> = BTreeMap::new();
    for (worlds, name, seed) in SEEDS.into_iter().flat_map(|(worlds, name, n)| (0..n).map(move |s| (worlds, name, s))) {
        let scenario = simulator.scenario(worlds, seed);
        let outcome = simulator.run(&scenario, None, false);
        if let Some(violation) = outcome.violation {
            panic!(
                "{scenario}{violation}\nreplay: cargo run --release -p forebay-sim -- --worlds {name} --seed {seed}"
            );
        }
        outcome.felt.into_iter().for_each(|(what, times)| *felt.entry(what).or_default() += times);
    }
    for name in Fault::NAMES.into_iter().chain(FELT) {
        assert!(felt.get(name).is_some_and(|&times| times > 0), "I7: {name:?} was never felt: {felt:?}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let simulator = Simulator::default();
    for (name, planted) in Planted::ALL {
        let violates = |worlds, seed| {
            let scenario = simulator.scenario(worlds, seed);
            simulator.run(&scenario, Some(planted), false).violation.is_some()
        };
        let found = Worlds::ALL.iter().find(|(_, worlds)| (0..FOUND_WITHIN).any(|seed| violates(*worlds, seed)));
        assert!(found.is_some(), "{name} was not found within {FOUND_WITHIN} seeds");
    }
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_gives_another() {
    let mut histories = BTreeMap::new();
    let all = |(_, worlds): (&str, Worlds)| (0..20).map(move |seed| (worlds, seed));
    for (worlds, seed) in Worlds::ALL.into_iter().flat_map(all) {
        // Two simulators: results that one has kept must not matter to the other.
        let (first, second) = (Simulator::default(), Simulator::default());
        let scenario = first.scenario(worlds, seed);
        let (a, b) = (first.run(&scenario, None, false), second.run(&second.scenario(worlds, seed), None, true));
        assert_eq!((a.history, a.events, a.time), (b.history, b.events, b.time), "I8: seed {seed}");
        assert_eq!(a.felt, b.felt, "I8: seed {seed}");
        assert_eq!(histories.insert(a.history, seed), None, "seed {seed} of {worlds:?} gives the history of another");
    }
}

//! The policy window by window: its requests, its reasons, and the changes that it does not make.

use std::cmp::Ordering;

use forebay_core::Ticks;

use super::*;
use crate::placement::{Cut, Finishing, Objective, Prices, Wire};
use crate::scaling::{Gap, Host};

fn observation(workers: u32, demand: f64, compute: f64) -> Observation {
    let made = f64::from(workers) / compute;
    let delivered = demand.min(made);
    Observation {
        at: Ticks(0),
        workers,
        local: 0,
        steady: true,
        limits: Limits { min: 1, max: 64 },
        threads: 1.0,
        batches: 10,
        delivered,
        demand: Some(demand),
        waited: 1.0 - delivered / demand,
        compute: Some(compute),
        busy: None,
        made: Some(delivered),
        ahead: None,
        threads_by_kind: Vec::new(),
        beside: 0.0,
        host: None,
    }
}

/// Runs windows with the workers of the last decision; returns the decisions.
fn run(previous: &mut Previous, windows: usize, workers: &mut u32, of: impl Fn(u32) -> Observation) -> Vec<Decision> {
    let step = |_| {
        let (decision, next) = decide(&of(*workers), previous);
        (*previous, *workers) = (next, decision.workers);
        decision
    };
    (0..windows).map(step).collect()
}

#[test]
fn a_number_is_found_confirmed_and_told_in_words() {
    let (mut previous, mut workers) = (Previous::default(), 1);
    let decisions = run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
    let wanted: Vec<_> = decisions.iter().map(|d| d.workers).collect();
    assert_eq!(wanted, [1, 1, 3, 3, 3, 3, 3, 3]);
    assert_eq!(
        decisions[2].to_string(),
        "3 workers: the trainer takes 10.00 batches/s when it never waits, one worker makes 4.00; 1.0 % are added"
    );
    assert_eq!(decisions[7].reason, Reason::Enough { at_most: WAIT_AGAIN });
    let json = serde_json::to_value(decisions[2]).expect("serialises");
    assert_eq!((&json["rule"], &json["figures"]["demand"]), (&"demand".into(), &10.0.into()));
}

#[test]
fn another_job_on_the_same_samples_begins_where_the_first_came_to_rest_and_follows_its_own_load() {
    let (mut previous, mut workers) = (Previous::default(), 1);
    assert_eq!(previous.rest(), None, "nothing is known");
    run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
    let rest = previous.rest().expect("known");
    let kept = serde_json::to_string(&rest).expect("serialises");
    assert_eq!(serde_json::from_str::<SteadyState>(&kept).expect("as it was written"), rest);
    let (first, next) = Previous::from_rest(&rest);
    assert_eq!((first.workers, first.reason), (3, Reason::Again));
    assert_eq!(first.to_string(), "3 workers to begin with, as was right for these samples before");
    let (mut same, mut workers) = (next.clone(), first.workers);
    let decided = run(&mut same, 20, &mut workers, |n| observation(n, 10.0, 0.25));
    assert!(decided.iter().all(|d| d.workers == 3), "{decided:?}");
    assert!(matches!(decided[19].reason, Reason::Enough { .. }), "{decided:?}");
    // The trainer may have no machine with figures, although that of the first job had.
    let (mut other, mut workers) = (next.clone(), 2);
    other.wanted = Some(Placement { workers: 2, local: 3, cut: 1 });
    let decided = run(&mut other, 20, &mut workers, |n| observation(n, 10.0, 0.25));
    assert!(decided.iter().all(|d| d.local == 0) && decided[19].workers == 3, "{decided:?}");
    let (mut other, mut workers) = (next, first.workers);
    let decided = run(&mut other, 20, &mut workers, |n| observation(n, 30.0, 0.25));
    assert_eq!(decided[19].workers, 8, "{decided:?}");
}

#[test]
fn without_figures_or_with_wrong_ones_nothing_changes() {
    let (mut previous, mut workers) = (Previous::default(), 1);
    run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
    let good = observation(3, 10.0, 0.25);
    let wrong = [
        (Observation { demand: None, ..good.clone() }, Gap::Idle),
        (Observation { demand: None, waited: 1.0, ..good.clone() }, Gap::NothingYet),
        (Observation { compute: None, ..good.clone() }, Gap::NotComputed),
        (Observation { workers: 0, ..good.clone() }, Gap::NoWorkers),
        (Observation { demand: Some(f64::NAN), ..good.clone() }, Gap::Contradiction),
        (Observation { compute: Some(-1.0), ..good.clone() }, Gap::Contradiction),
        (Observation { waited: 1.5, ..good.clone() }, Gap::Contradiction),
        (Observation { delivered: 50.0, ..good.clone() }, Gap::Contradiction),
        (Observation { threads: 0.0, ..good.clone() }, Gap::Contradiction),
    ];
    for (seen, gap) in wrong {
        for _ in 0..20 {
            let (decision, next) = decide(&seen, &previous);
            assert_eq!((decision.workers, decision.reason), (3, Reason::NoFigures { gap }));
            previous = next;
        }
    }
}

/// Returns the decisions for a trainer that wants 15 batches/s, from at most `max` workers of 10 batches/s each. After
/// each change of workers, one of them alone makes the reader's next split for `late` windows, and the others' batches
/// come behind it. For ten windows they make as much as the reader may have ahead. The first worker is slow at first.
fn in_order(objective: Objective, max: u32, late: u32) -> (u32, Vec<Decision>) {
    let limits = Limits { min: 1, max };
    let (mut previous, mut workers, mut since, mut before) = (Previous::default(), 1, 0, 1);
    let mut decided = Vec::new();
    for window in 0..80 {
        since = if workers == before { since + 1 } else { 0 };
        before = workers;
        let of_one = if window < 3 { 5.0 } else { 10.0 };
        let all = of_one * f64::from(workers);
        // The split comes through in the middle of a window.
        let delivered = match since.cmp(&late) {
            Ordering::Less => of_one,
            Ordering::Equal => (of_one + all.min(15.0)) / 2.0,
            Ordering::Greater => all.min(15.0),
        };
        let host = (objective != Objective::Time).then(|| Host { objective, ..no_host() });
        let made = Some(match since {
            ..10 => all,
            10..14 => 0.0,
            _ => delivered,
        });
        let waited = 1.0 - delivered / 15.0;
        let seen = Observation { limits, delivered, made, waited, host, ..observation(workers, 15.0, 0.1) };
        decided.extend(run(&mut previous, 1, &mut workers, |_| seen.clone()));
    }
    (workers, decided)
}

/// Returns a machine without figures, where nothing may compute.
fn no_host() -> Host {
    Host {
        cores: 0.0,
        spare: 0.0,
        pressure: 0.0,
        local_max: 0,
        here: 0.0,
        cuts: Cut::of_ops(&[(0.1, 1e3)]),
        cut: 1,
        wire: Wire::default(),
        finishing: Finishing::Threads,
        finishes: 0.0,
        objective: Objective::Time,
    }
}

#[test]
fn what_is_made_ahead_of_what_is_next_is_made_all_the_same() {
    let (workers, decided) = in_order(Objective::Time, 64, 10);
    assert!(workers == 2 && decided.iter().all(|d| d.workers <= 4), "{decided:?}");
    assert!(decided.iter().all(|d| !matches!(d.reason, Reason::Shared { .. })), "{decided:?}");
    let ahead = decided.iter().find(|d| matches!(d.reason, Reason::Ahead { .. })).expect("it waits for the first");
    assert_eq!(
        ahead.to_string(),
        "2 workers stay: 2 workers make 20.00 batches/s, and the trainer takes 15.00 batches/s; it waits 33.3 % of its time for what is \
         next in its order, and the rest is ahead of it"
    );
    assert!(matches!(decided[79].reason, Reason::Enough { .. }), "{decided:?}");
    // The policy requests no more if the limit allows no more.
    let (_, decided) = in_order(Objective::Time, 2, 10);
    let asks = |d: &Decision| matches!(d.reason, Reason::AtMost { .. }) && d.figures.is_some_and(|f| f.made > 15.0);
    assert!(!decided.iter().any(asks), "{decided:?}");
    // At first the other workers bring nothing, so their price seems high; the true prices are 1.1 / 10 and 2.1 / 15 a
    // batch. With `late` 0, the efficiency of the slow first worker makes the price seem high in the same way.
    for late in [10, 0] {
        let (workers, decided) = in_order(Objective::Cost(Prices { trainer: 0.1, worker: 1.0 }), 64, late);
        assert!(workers == 1 && decided.iter().any(|d| d.workers > 1), "{late}: {decided:?}");
    }
}

#[test]
fn workers_that_do_not_help_are_given_back() {
    // Storage delivers 12 batches a second to any number of workers: as many as three workers make.
    let held_up = |n: u32| {
        let delivered = 12.0f64.min(f64::from(n) * 4.0);
        Observation { delivered, made: Some(delivered), waited: 1.0 - delivered / 32.0, ..observation(n, 32.0, 0.25) }
    };
    let (mut previous, mut workers) = (Previous::default(), 1);
    let decisions = run(&mut previous, 60, &mut workers, held_up);
    assert_eq!(workers, 3);
    assert_eq!(decisions.windows(2).filter(|w| w[0].workers != w[1].workers).count(), 2);
    assert!(decisions.iter().any(|d| d.reason == Reason::Shared { useful: 3 }), "{decisions:?}");
}

/// The trainer wants 10 batches/s of 0.8 s each; its machine has 16 cores.
fn at_home(seen: Placement, spare: f64, pressure: f64) -> Observation {
    let here = f64::from(seen.local).min(spare) / 0.8;
    let delivered = (here + f64::from(seen.workers) / 0.8).min(10.0);
    let host = Host {
        cores: 16.0,
        spare,
        pressure,
        local_max: 16,
        here: here.min(delivered),
        cuts: Cut::of_ops(&[(0.8, 1e6)]),
        cut: 1,
        wire: Wire::default(),
        finishing: Finishing::Threads,
        finishes: 0.0,
        objective: Objective::Time,
    };
    let limits = Limits { min: 0, max: 64 };
    let (local, waited) = (seen.local, 1.0 - delivered / 10.0);
    Observation { local, limits, delivered, waited, host: Some(host), ..observation(seen.workers, 10.0, 0.8) }
}

#[test]
fn cores_that_the_trainer_lacks_are_given_back_at_once_and_not_taken_again() {
    let mut previous = Previous::default();
    let mut at = Placement { workers: 1, local: 0, cut: 1 };
    let mut step = |spare: f64, pressure: f64| {
        let (decision, next) = decide(&at_home(at, spare, pressure), &previous);
        (previous, at) = (next, Placement { workers: decision.workers, local: decision.local, cut: 1 });
        decision
    };
    let placed = |decision: &Decision| (decision.workers, decision.local);
    let found = (0..8).map(|_| step(12.0, 0.0)).last().expect("one");
    assert_eq!(placed(&found), (0, 9), "{found}");
    let pressed = step(12.0, 0.3);
    assert_eq!(placed(&pressed), (5, 4), "{pressed}");
    assert_eq!(pressed.reason, Reason::Yields { spare: 12.0, pressure: 0.3 });
    assert!(pressed.to_string().contains("4 threads at the trainer"), "{pressed}");
    assert!((0..40).all(|_| step(12.0, 0.0).local == 4), "no more cores than when it lacked them");
    let short = step(0.05, 0.0);
    assert_eq!(placed(&short), (9, 0), "{short}");
    // Once there are as many spare cores as at first, they are used again.
    let again = (0..40).map(|_| step(12.0, 0.0)).last().expect("one");
    assert_eq!(placed(&again), (0, 9), "{again}");
}

/// Returns the machine of a reader that runs the ops behind a cut itself, without threads beside it.
fn looked_at(cuts: &[(f64, f64)], spare: f64, pressure: f64, finishes: f64) -> Host {
    Host {
        cores: 16.0,
        spare,
        pressure,
        local_max: 0,
        here: 0.0,
        cuts: Cut::of_ops(cuts),
        cut: cuts.len() as u32,
        wire: Wire::default(),
        finishing: Finishing::Reader,
        finishes,
        objective: Objective::Time,
    }
}

#[test]
fn a_trainer_that_lacks_cores_for_something_else_is_not_held_to_want_more_without_that() {
    // Four workers feed the trainer; its process does next to nothing on their rows, and it lacks cores half of its
    // time.
    let host = looked_at(&[(0.4, 1e6), (0.001, 4e6)], 0.0, 0.5, 0.01);
    let pressed = |n: u32| Observation { host: Some(host.clone()), ..observation(n, 9.5, 0.401) };
    let (mut previous, mut workers) = (Previous::default(), 4);
    let decisions = run(&mut previous, 20, &mut workers, pressed);
    assert!(decisions.iter().all(|d| (d.workers, d.local) == (4, 0)), "{decisions:?}");
}

#[test]
fn of_two_cuts_that_leave_a_trainer_without_cores_about_the_same_one_is_taken_and_kept() {
    // The cost of receiving a byte is off by a tenth, to both sides of the point at which the better cut changes.
    let (mut previous, mut cut, mut moved) = (Previous::default(), 1, 0);
    for i in 0..40 {
        let receive = if i % 2 == 0 { 0.9e-8 } else { 1.1e-8 };
        let host = looked_at(&[(0.4, 1e6), (0.01, 2e6)], 0.0, 0.5, 0.2);
        let host = Host { cut, wire: Wire { receive, ..Wire::default() }, ..host };
        let (decision, next) = decide(&Observation { host: Some(host), ..observation(4, 9.5, 0.4) }, &previous);
        let to = decision.cut.expect("there are two");
        (moved, cut, previous) = (moved + u32::from(to != cut), to, next);
    }
    assert!(moved <= 1, "{moved} times");
}

#[test]
fn cores_that_come_and_go_where_nothing_is_placed_change_nothing() {
    // Three workers should feed the trainer, and it waits a little: then there are four. Its machine becomes ever
    // idler.
    let of = |n: u32, host| {
        let waited = if n < 4 { 0.04 } else { 0.0 };
        Observation { waited, delivered: 10.0 * (1.0 - waited), host, ..observation(n, 10.0, 0.29) }
    };
    let decided = |is_told: bool| {
        let (mut previous, mut workers) = (Previous::default(), 3);
        let at = |i: u32| {
            let host = looked_at(&[(0.29, 1e6)], f64::from(1 + i / 3), 5.0 / f64::from(10 + i), 8.0);
            let (decision, next) = decide(&of(workers, is_told.then_some(host)), &previous);
            (previous, workers) = (next, decision.workers);
            (decision.workers, decision.reason)
        };
        (0..45).map(at).collect::<Vec<_>>()
    };
    assert_eq!(decided(true), decided(false));
    assert_eq!(decided(true).last().map(|of| of.0), Some(4));
}

#[test]
fn what_may_not_be_had_is_said_and_what_does_not_come_is_waited_for() {
    let limited = |n| Observation { limits: Limits { min: 1, max: 2 }, ..observation(n, 10.0, 0.5) };
    let (mut previous, mut workers) = (Previous::default(), 1);
    let decisions = run(&mut previous, 30, &mut workers, limited);
    assert_eq!(workers, 2);
    assert!(matches!(decisions[29].reason, Reason::AtMost { needed: 6.., limit: 2 }), "{}", decisions[29]);
    // Five are needed, and never more than one comes.
    let mut previous = Previous::default();
    let decisions = run(&mut previous, 30, &mut 1, |_| observation(1, 10.0, 0.5));
    assert!(decisions[5..].iter().all(|d| d.workers == 6), "{decisions:?}");
    assert_eq!(decisions[29].reason, Reason::Settling { wanted: 6 });
}

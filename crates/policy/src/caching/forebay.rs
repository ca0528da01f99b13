//! Forebay's own policy: the place that costs least; the policy leaves it only when its loss against another is large
//! enough.
//!
//! Invariants: the same windows give the same decisions; invalid figures change nothing; between two changes the choice
//! loses [`LOST_MAX`] against its successor, so noise, which goes both ways, changes nothing for long. Two events start
//! the choice anew at once, because they are no noise: far more passes remain than it was made for, or a fetch time is
//! measured that was guessed before.

use super::{Choice, Cost, Decision, Observation, Reason};

/// Windows before the first choice.
pub const FEW: u32 = 3;
/// The ratio of costs up to which a choice loses nothing against another, as a logarithm: 2 %.
pub const SLACK: f64 = 0.02;
/// The loss of a choice against another, in windows times the logarithm of their costs' ratio, from which it is left.
pub const LOST_MAX: f64 = 8.0;
/// The factor by which the remaining passes grow before the choice starts anew.
const PASSES_MOVED: f64 = 1.5;

/// The state between windows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Previous {
    choice: Choice,
    windows: u32,
    /// The fewest remaining passes in any of the windows.
    passes: f64,
    /// Whether the windows began with a guessed fetch time.
    guessed: bool,
    /// While measuring: the sum of the logarithms of each cost. Later: the loss of the choice against each.
    sums: Vec<f64>,
}

/// Decides after one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    if !seen.is_sound() {
        let (choice, reason) = (before.choice, Reason::NoFigures);
        return (Decision { choice, reason, passes: seen.passes, costs: Vec::new() }, before.clone());
    }
    let costs: Vec<Cost> =
        std::iter::once(Cost::computed(seen)).chain(seen.places.iter().map(|place| Cost::kept(seen, place))).collect();
    let mut next = before.clone();
    // The places are those of another pipeline: begin anew.
    if next.sums.len() != costs.len() {
        next = Previous { sums: vec![0.0; costs.len()], ..Previous::default() };
    }
    if next.windows == 0 || next.is_overtaken(seen.passes, seen.guessed) {
        let sums = vec![0.0; costs.len()];
        next = Previous { choice: next.choice, windows: 0, passes: seen.passes, guessed: seen.guessed, sums };
    }
    next.passes = next.passes.min(seen.passes);
    next.windows = next.windows.saturating_add(1);
    let reason = if next.windows <= FEW { next.learn(&costs) } else { next.watch(&costs) };
    // Peers may have come after the first choice.
    next.guessed |= seen.guessed && matches!(reason, Reason::Lost { .. });
    (Decision { choice: next.choice, reason, passes: seen.passes, costs }, next)
}

/// Returns the logarithm of a cost, also of a cost of 0.
fn log(cost: &Cost) -> f64 {
    cost.nanos.max(1.0).ln()
}

impl Previous {
    /// Returns whether the choice was made for far fewer passes, or from a guess that a measurement has replaced.
    pub fn is_overtaken(&self, passes: f64, guessed: bool) -> bool {
        passes > self.passes.max(1.0) * PASSES_MOVED || self.guessed && !guessed
    }

    /// Makes the first choice: the lowest cost over all windows so far. Caching has to gain a little.
    fn learn(&mut self, costs: &[Cost]) -> Reason {
        self.sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += log(cost));
        if self.windows < FEW {
            return Reason::Measuring { windows: self.windows, needed: FEW };
        }
        let least = (0..self.sums.len()).min_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]));
        let gains = |at: &usize| self.sums[0] - self.sums[*at] > SLACK * f64::from(FEW);
        self.choose(least.filter(gains).unwrap_or(0));
        Reason::Cheapest
    }

    fn watch(&mut self, costs: &[Cost]) -> Reason {
        let chosen = log(&costs[self.choice.at()]);
        self.sums
            .iter_mut()
            .zip(costs)
            .for_each(|(lost, other)| *lost = (*lost + chosen - log(other) - SLACK).max(0.0));
        let most = (0..self.sums.len()).max_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b])).unwrap_or(0);
        if self.sums[most] < LOST_MAX {
            return Reason::Stays;
        }
        let before = costs[self.choice.at()].nanos;
        self.choose(most);
        Reason::Lost { before }
    }

    fn choose(&mut self, at: usize) {
        self.choice = Choice::of(at);
        self.sums.fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PASSES_UNKNOWN, Place, Rent, Tiers};
    use super::*;

    /// The table of the README.
    fn seen() -> Observation {
        let place = |name: &str, bytes: f64, before: f64, after: f64, memory: f64| Place {
            name: name.to_owned(),
            bytes,
            before,
            after,
            found: Tiers { memory, disk: 5.0 * memory, peers: 4.0 * memory, store: 40.0 * memory },
            write: 0.0,
            kept: 1.0,
        };
        Observation {
            rows: 200_000,
            passes: PASSES_UNKNOWN,
            pass_nanos: 0.0,
            compute: 2.8e6,
            places: vec![place("read", 1e5, 0.3e6, 2.5e6, 0.03e6), place("decoded", 5e5, 2.3e6, 0.5e6, 0.15e6)],
            room: Tiers { memory: 40_000_000_000, disk: 200_000_000_000, peers: 0, store: 0 },
            rent: Rent::default(),
            guessed: false,
        }
    }

    /// Returns the decisions of `windows` equal windows.
    fn decisions(seen: &Observation, mut before: Previous, windows: usize) -> (Vec<Decision>, Previous) {
        let mut all = Vec::new();
        for _ in 0..windows {
            let (decision, next) = decide(seen, &before);
            all.push(decision);
            before = next;
        }
        (all, before)
    }

    #[test]
    fn the_place_that_costs_least_is_kept_after_a_few_windows_and_what_fits_counts() {
        let (made, _) = decisions(&seen(), Previous::default(), 3);
        assert_eq!(made[1].choice, Choice::Compute);
        assert_eq!(made[1].reason, Reason::Measuring { windows: 2, needed: 3 });
        assert_eq!((made[2].choice, made[2].reason), (Choice::Keep(1), Reason::Cheapest));
        let costs: Vec<_> = made[2].costs.iter().map(|cost| (cost.nanos / 1e4).round() / 100.0).collect();
        assert_eq!(costs, [2.8, 2.53, 1.01]);
        let said = made[2].to_string();
        assert!(
            said.starts_with("decoded is kept: 1.01 ms a row of 500000 bytes, 40 % in memory and 60 % on disk"),
            "{said}"
        );
        assert!(said.ends_with("; computing all: 2.80 ms; read: 2.53 ms; 10 passes to come"), "{said}");
        let small = Observation { room: Tiers { memory: 4_000_000_000, ..Tiers::default() }, ..seen() };
        let last = decisions(&small, Previous::default(), 3).0.pop().expect("three");
        assert_eq!(last.choice, Choice::Keep(1), "{last}");
        assert!((last.costs[2].nanos / 1e6 - 2.71).abs() < 0.01, "{last}");
    }

    #[test]
    fn what_is_kept_has_to_gain_something() {
        let choice = |compute: f64| {
            let seen = Observation { compute, rows: 1, ..seen() };
            decisions(&seen, Previous::default(), 3).0.pop().expect("three").choice
        };
        // Decoded rows cost 0.65 ms, all of them found in memory.
        assert_eq!([0.64e6, 0.66e6, 0.67e6].map(choice), [Choice::Compute, Choice::Compute, Choice::Keep(1)]);
    }

    #[test]
    fn what_others_have_counts_where_it_is_not_dearer_to_fetch_than_to_compute() {
        let decided = |room, found: fn(&mut Tiers<f64>)| {
            let mut seen = Observation { room, ..seen() };
            seen.places.iter_mut().for_each(|place| found(&mut place.found));
            decisions(&seen, Previous::default(), 3).0.pop().expect("three")
        };
        // Eight workers: the others have the room that one lacks.
        let mine = Tiers { memory: 10_000_000_000, ..Tiers::default() };
        let ours = Tiers { peers: 7 * mine.memory, store: 1 << 50, ..mine };
        let cost = |decision: &Decision| (decision.costs[2].nanos / 1e3).round() / 1e3;
        let (alone, together) = (decided(mine, |_| ()), decided(ours, |_| ()));
        assert_eq!([cost(&alone), cost(&together)], [2.585, 1.395], "the store is dearer than computing");
        assert!(together.to_string().contains("10 % in memory, 70 % at peers and 20 % in the store"), "{together}");
        assert_eq!(cost(&decided(ours, |found| found.store = found.disk)), 1.085);
        let far = decided(ours, |found| (found.peers, found.store) = (1e9, 1e9));
        assert_eq!(cost(&far), cost(&alone), "they are computed");
    }

    #[test]
    fn one_pass_over_data_that_is_dear_to_write_keeps_nothing() {
        let mut once = Observation { passes: 1.0, ..seen() };
        once.places.iter_mut().for_each(|place| (place.kept, place.write) = (0.0, 1e5));
        let last = |seen: &Observation| decisions(seen, Previous::default(), 3).0.pop().expect("three");
        assert_eq!(last(&once).choice, Choice::Compute);
        assert!(last(&once).to_string().ends_with("; 1 pass to come"), "{}", last(&once));
        once.passes = 3.0;
        assert_eq!(last(&once).choice, Choice::Keep(1));
        assert!(last(&once).costs[2].filling > 0.6e6, "a third of what it takes to compute and write");
    }

    #[test]
    fn a_store_that_is_paid_for_is_used_where_it_brings_more_than_it_costs() {
        // A quarter fits into memory.
        let room = Tiers { memory: 25_000_000_000, disk: 0, peers: 0, store: 1 << 50 };
        let mut seen = Observation { room, pass_nanos: 1e12, ..seen() };
        seen.places.iter_mut().for_each(|place| (place.kept, place.found.store) = (0.0, 2.0 * place.found.memory));
        let last = |rent: Rent, passes: f64| {
            let seen = Observation { rent, passes, ..seen.clone() };
            decisions(&seen, Previous::default(), 3).0.pop().expect("three")
        };
        let free = last(Rent::default(), 10.0);
        assert_eq!((free.choice, free.costs[2].stores, free.costs[2].rent), (Choice::Keep(1), true, 0.0));
        // The store saves three quarters of 2 ms for 500,000 bytes: 3 ns a byte.
        let cheap = last(Rent { written: 10.0, held: 0.5e-12 }, 10.0);
        assert_eq!((cheap.choice, cheap.costs[2].stores), (Choice::Keep(1), true));
        assert!((cheap.costs[2].rent - 5e5 * 1.5).abs() < 1.0, "{cheap}");
        assert!(cheap.to_string().contains("in the store, 750.0 µs of it for the store; "), "{cheap}");
        for (dear, passes) in [(Rent { written: 0.0, held: 5e-12 }, 10.0), (Rent { written: 10.0, held: 0.0 }, 2.0)] {
            let decision = last(dear, passes);
            let cost = &decision.costs[2];
            assert_eq!((cost.stores, cost.rent, cost.share.store), (false, 0.0, 0.0), "{decision}");
            assert_eq!(cost.share.memory, 0.25, "memory is paid for anyway");
        }
    }

    #[test]
    fn what_has_lost_much_is_left_soon_and_what_lost_little_later() {
        let changed = |factor: f64| {
            let (_, before) = decisions(&seen(), Previous::default(), 3);
            let now = Observation { compute: 1.01e6 / factor, ..seen() };
            let (made, _) = decisions(&now, before, 1000);
            made.iter().position(|decision| decision.choice == Choice::Compute)
        };
        assert_eq!(changed(2.0), Some(11));
        assert_eq!(changed(10.0), Some(3));
        assert!(changed(1.05).is_some_and(|windows| windows > 100));
        assert_eq!(changed(1.01), None);
    }

    #[test]
    fn when_a_job_turns_out_to_have_more_passes_ahead_it_is_chosen_anew_at_once() {
        let mut seen = Observation { passes: 1.0, ..seen() };
        seen.places.iter_mut().for_each(|place| (place.kept, place.write) = (0.0, 1e5));
        let (made, before) = decisions(&seen, Previous::default(), 100);
        assert_eq!(made[99].choice, Choice::Compute);
        seen.passes = 1.4;
        let (_, before) = decisions(&seen, before, 3);
        assert_eq!(before.windows, 103, "that is little more");
        seen.passes = 2.0;
        let (made, _) = decisions(&seen, before, 3);
        assert_eq!(made[1].reason, Reason::Measuring { windows: 2, needed: 3 });
        assert_eq!((made[1].choice, made[2].choice), (Choice::Compute, Choice::Keep(1)));
    }

    #[test]
    fn a_guess_at_what_fetching_takes_is_chosen_anew_when_that_was_measured() {
        let room = Tiers { store: 1 << 50, ..Tiers::default() };
        let mut seen = Observation { room, guessed: true, ..seen() };
        seen.places.iter_mut().for_each(|place| place.found.store = place.found.memory);
        let (made, before) = decisions(&seen, Previous::default(), 50);
        assert_eq!(made[49].choice, Choice::Keep(1));
        // The store is slower than computing: rows computed instead cost no more than without a cache.
        seen.places.iter_mut().for_each(|place| place.found.store = 3e6);
        let (still, _) = decisions(&seen, before.clone(), 10);
        assert!(still.iter().all(|decision| decision.choice == Choice::Keep(1)), "it loses nothing");
        seen.guessed = false;
        let (made, before) = decisions(&seen, before, 3);
        assert_eq!(made[1].reason, Reason::Measuring { windows: 2, needed: 3 });
        assert_eq!((made[1].choice, made[2].choice), (Choice::Keep(1), Choice::Compute));
        seen.guessed = true;
        assert_eq!(decisions(&seen, before, 1).0[0].reason, Reason::Stays, "it was measured once");
    }

    #[test]
    fn a_choice_that_a_guess_led_to_later_is_one_that_was_guessed() {
        let mut seen = Observation { room: Tiers::default(), ..seen() };
        let (made, before) = decisions(&seen, Previous::default(), 50);
        assert_eq!(made[49].choice, Choice::Compute, "there is no room");
        // Peers come, and the time of a read from them is unknown.
        (seen.room.peers, seen.guessed) = (1 << 50, true);
        seen.places.iter_mut().for_each(|place| place.found.peers = place.found.memory);
        let (made, before) = decisions(&seen, before, 50);
        assert_eq!(made[49].choice, Choice::Keep(1));
        seen.guessed = false;
        seen.places.iter_mut().for_each(|place| place.found.peers = 3e6);
        assert_eq!(decisions(&seen, before, 3).0[2].choice, Choice::Compute);
    }

    #[test]
    fn figures_that_cannot_be_right_change_nothing() {
        let (_, before) = decisions(&seen(), Previous::default(), 3);
        let mut wrong = vec![Observation { compute: f64::NAN, ..seen() }, Observation { compute: 0.0, ..seen() }];
        wrong.push(seen());
        wrong[2].places[0].found.memory = -1.0;
        for wrong in wrong {
            let (decision, next) = decide(&wrong, &before);
            assert_eq!((decision.choice, decision.reason), (Choice::Keep(1), Reason::NoFigures));
            assert_eq!(next, before);
        }
    }
}

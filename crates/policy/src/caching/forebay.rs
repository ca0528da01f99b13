//! Forebay's own policy: the place that costs least, left only when it has lost enough to another.
//!
//! Invariants: the same windows give the same decisions; figures that cannot be right change nothing; between two changes the
//! choice has lost [`LOST_MAX`] to what follows it, so noise, which goes both ways, changes nothing for long.

use super::{Choice, Cost, Decision, Observation, Reason};

/// Windows that the first choice is made on.
pub const FEW: u32 = 3;
/// What a choice may be dearer than another without losing anything to it, as a logarithm: 2 %.
pub const SLACK: f64 = 0.02;
/// What a choice may lose to another, in windows times the logarithm of their costs' ratio.
pub const LOST_MAX: f64 = 8.0;

/// What is remembered from window to window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Previous {
    choice: Choice,
    windows: u32,
    /// While it is measured: the sum of the logarithms of each cost. Later: what the choice has lost to each.
    sums: Vec<f64>,
}

/// Decides on one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    if !seen.is_sound() {
        return (Decision { choice: before.choice, reason: Reason::NoFigures, costs: Vec::new() }, before.clone());
    }
    let costs: Vec<Cost> =
        std::iter::once(Cost::computed(seen)).chain(seen.places.iter().map(|place| Cost::kept(seen, place))).collect();
    let mut next = before.clone();
    // Another pipeline's: begin anew.
    if next.sums.len() != costs.len() {
        next = Previous { sums: vec![0.0; costs.len()], ..Previous::default() };
    }
    next.windows = next.windows.saturating_add(1);
    let reason = if next.windows <= FEW { next.learn(&costs) } else { next.watch(&costs) };
    (Decision { choice: next.choice, reason, costs }, next)
}

/// Costs of nothing at all have logarithms, too.
fn log(cost: &Cost) -> f64 {
    cost.nanos.max(1.0).ln()
}

impl Previous {
    /// The first choice: what cost least in all windows so far.
    fn learn(&mut self, costs: &[Cost]) -> Reason {
        self.sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += log(cost));
        if self.windows < FEW {
            return Reason::Measuring { windows: self.windows, needed: FEW };
        }
        let least = (0..self.sums.len()).min_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]));
        self.choose(least.unwrap_or(0));
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
    use super::super::{Place, Tiers};
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
            passes: None,
            compute: 2.8e6,
            places: vec![place("read", 1e5, 0.3e6, 2.5e6, 0.03e6), place("decoded", 5e5, 2.3e6, 0.5e6, 0.15e6)],
            room: Tiers { memory: 40_000_000_000, disk: 200_000_000_000, peers: 0, store: 0 },
            storage: 0.0,
        }
    }

    /// The decisions of so many windows that are all the same.
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
        assert!(said.ends_with("; computing all: 2.80 ms; read: 2.53 ms"), "{said}");
        let small = Observation { room: Tiers { memory: 4_000_000_000, ..Tiers::default() }, ..seen() };
        let last = decisions(&small, Previous::default(), 3).0.pop().expect("three");
        assert_eq!(last.choice, Choice::Keep(1), "{last}");
        assert!((last.costs[2].nanos / 1e6 - 2.71).abs() < 0.01, "{last}");
    }

    #[test]
    fn what_others_have_counts_where_it_is_not_dearer_to_fetch_than_to_compute() {
        let decided = |room, found: fn(&mut Tiers<f64>)| {
            let mut seen = Observation { room, ..seen() };
            seen.places.iter_mut().for_each(|place| found(&mut place.found));
            decisions(&seen, Previous::default(), 3).0.pop().expect("three")
        };
        // Eight workers: what one has no room for, the others have.
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
        let mut once = Observation { passes: Some(1.0), ..seen() };
        once.places.iter_mut().for_each(|place| (place.kept, place.write) = (0.0, 1e5));
        assert_eq!(decisions(&once, Previous::default(), 3).0[2].choice, Choice::Compute);
        once.passes = Some(3.0);
        assert_eq!(decisions(&once, Previous::default(), 3).0[2].choice, Choice::Keep(1));
        once.storage = 10.0;
        assert_eq!(decisions(&once, Previous::default(), 3).0[2].choice, Choice::Compute, "the room is dear");
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

//! The cheapest workers that together reach a capacity: greedy, with the last few chosen well.

use super::Offer;

/// A worker type to choose from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// Of a worker, above 0.
    pub(super) capacity: f64,
    /// Of a worker, for an hour.
    pub(super) price: f64,
    /// The most workers.
    pub(super) max: u32,
}

impl Choice {
    pub(super) fn of(offer: &Offer, pace: f64, max: u32) -> Self {
        Self { capacity: f64::from(offer.threads) * pace, price: offer.price, max }
    }

    fn price_of_capacity(&self) -> f64 {
        self.price / self.capacity
    }

    /// Returns the workers needed for a capacity, without regard to `max`.
    fn needed(&self, capacity: f64) -> u32 {
        // A rest within rounding needs no worker.
        (capacity / self.capacity - 1e-9).ceil().max(0.0) as u32
    }
}

/// Returns the order of types: the cheapest capacity first; at the same price, the larger worker.
pub(super) fn order(choices: &[Choice]) -> Vec<usize> {
    let mut order: Vec<_> = (0..choices.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&choices[a], &choices[b]);
        a.price_of_capacity().total_cmp(&b.price_of_capacity()).then(b.capacity.total_cmp(&a.capacity))
    });
    order
}

/// Returns the number of workers of each type for `need`, `most` in all; if they cannot cover it, as much as they can.
pub(super) fn cover(need: f64, choices: &[Choice], most: u32) -> Vec<u32> {
    let order = order(choices);
    let mut counts = vec![0; choices.len()];
    let (mut left, mut room) = (need, most);
    for &at in &order {
        let kind = &choices[at];
        // Whole workers only: afterwards less than one of these is left, or the type is used up.
        let whole = ((left / kind.capacity + 1e-9).floor().max(0.0) as u32).min(kind.max).min(room);
        counts[at] = whole;
        (left, room) = (left - f64::from(whole) * kind.capacity, room - whole);
        if whole < kind.max {
            break;
        }
    }
    if left > need * 1e-9 {
        let last = (0..choices.len()).filter_map(|at| {
            let kind = &choices[at];
            let more = kind.needed(left);
            (more <= (kind.max - counts[at]).min(room)).then(|| (at, more, f64::from(more) * kind.price))
        });
        match last.min_by(|a, b| a.2.total_cmp(&b.2).then(a.1.cmp(&b.1))) {
            Some((at, more, _)) => counts[at] += more,
            None => fill(left, choices, room, &mut counts),
        }
    }
    if sum(&counts) == most && capacity(&counts, choices) < need {
        return largest(need, choices, most, counts);
    }
    counts
}

/// Adds types in turn, if no type alone covers the rest.
fn fill(mut left: f64, choices: &[Choice], mut room: u32, counts: &mut [u32]) {
    for at in order(choices) {
        let more = choices[at].needed(left).min(choices[at].max - counts[at]).min(room);
        counts[at] += more;
        room -= more;
        left -= f64::from(more) * choices[at].capacity;
    }
}

/// Returns the largest workers, if these reach more together: with so few workers allowed, price does not matter.
fn largest(need: f64, choices: &[Choice], most: u32, cheapest: Vec<u32>) -> Vec<u32> {
    let mut order: Vec<_> = (0..choices.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&choices[a], &choices[b]);
        b.capacity.total_cmp(&a.capacity).then(a.price.total_cmp(&b.price))
    });
    let mut counts = vec![0; choices.len()];
    let (mut left, mut room) = (need, most);
    for at in order {
        counts[at] = choices[at].needed(left).min(choices[at].max).min(room);
        room -= counts[at];
        left -= f64::from(counts[at]) * choices[at].capacity;
    }
    if capacity(&counts, choices) > capacity(&cheapest, choices) { counts } else { cheapest }
}

fn sum(counts: &[u32]) -> u32 {
    counts.iter().sum()
}

/// Returns the capacity of the workers together.
pub(super) fn capacity(counts: &[u32], choices: &[Choice]) -> f64 {
    counts.iter().zip(choices).map(|(&count, kind)| f64::from(count) * kind.capacity).sum()
}

/// Returns the price of the workers for an hour.
pub(super) fn price(counts: &[u32], choices: &[Choice]) -> f64 {
    counts.iter().zip(choices).map(|(&count, kind)| f64::from(count) * kind.price).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(capacity: f64, price: f64, max: u32) -> Choice {
        Choice { capacity, price, max }
    }

    #[test]
    fn the_plain_numbers_of_the_readme() {
        let kinds = |spot: u32| [choice(8.0, 0.38, 99), choice(8.0, 0.11, spot), choice(4.0, 0.17, 99)];
        assert_eq!(cover(40.0, &kinds(99), 100), [0, 5, 0]);
        assert_eq!(cover(40.0, &kinds(3), 100), [0, 3, 4]);
        assert_eq!(cover(41.0, &kinds(5), 100), [0, 5, 1], "what is left is had where it costs least");
        assert_eq!(cover(40.0, &kinds(3), 5), [2, 3, 0], "five at most");
        assert_eq!(cover(4000.0, &kinds(3), 1000), [99, 3, 99], "all that there is");
    }

    fn choices() -> impl Strategy<Value = Vec<Choice>> {
        let one = (1..12u32, 0..100u32, 0..7u32);
        prop::collection::vec(one.prop_map(|(c, price, max)| choice(f64::from(c), f64::from(price) / 10.0, max)), 1..4)
    }

    /// Returns the least price of all mixes that cover the need, by trying all of them.
    fn least(need: f64, choices: &[Choice], most: u32) -> Option<f64> {
        let Some((kind, rest)) = choices.split_first() else { return (need <= 1e-9).then_some(0.0) };
        let of = |count: u32| {
            least(need - f64::from(count) * kind.capacity, rest, most - count)
                .map(|price| price + f64::from(count) * kind.price)
        };
        (0..=kind.max.min(most)).filter_map(of).min_by(f64::total_cmp)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn it_covers_what_can_be_covered_for_one_worker_more_than_the_least(need in 0.0..60.0f64, choices in choices(), few in 1..9u32) {
            for most in [99, few] {
                let counts = cover(need, &choices, most);
                prop_assert!(counts.iter().zip(&choices).all(|(count, kind)| *count <= kind.max) && sum(&counts) <= most);
                let covers = capacity(&counts, &choices) >= need - 1e-6;
                match least(need, &choices, most) {
                    None => prop_assert!(!covers),
                    Some(least) if most == 99 => {
                        let dearest = choices.iter().map(|kind| kind.price).fold(0.0, f64::max);
                        prop_assert!(covers && price(&counts, &choices) <= least + dearest + 1e-9, "{counts:?}, {least}");
                    }
                    Some(_) => prop_assert!(covers, "{counts:?}"),
                }
            }
        }
    }
}

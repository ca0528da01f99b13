//! The splits with a file that some workers cannot read: which workers the consumer has tried. Pure: no clock, no I/O.
//!
//! The dispatcher grants such a split to another worker. It grants the split to the same worker again only if no other
//! worker is left, so the second failure at one worker is the error of the split.

use std::collections::BTreeMap;

use forebay_core::Error;

use crate::stream::reorder_buffer::{Assignment, SplitKey};

/// The most workers that the consumer tries for one split.
const WORKERS_MAX: usize = 16;

/// The failed attempts to read one split.
#[derive(Debug)]
struct Attempts {
    /// The addresses of the workers.
    addresses: Vec<String>,
    /// The error of the attempt that came furthest, and how many chunks of the split had arrived then.
    furthest: (u64, Error),
}

/// The failed attempts by split.
#[derive(Debug, Default)]
pub(crate) struct UnreadableSplits(BTreeMap<SplitKey, Attempts>);

impl UnreadableSplits {
    /// Notes that the worker of an assignment cannot read a file of the split; `received` chunks have arrived. Forgets
    /// the splits before `head`. Returns the error of the split if the consumer has no other worker to try.
    pub(crate) fn add(
        &mut self,
        head: SplitKey,
        assignment: &Assignment,
        received: u64,
        error: &Error,
    ) -> Option<Error> {
        self.0 = self.0.split_off(&head);
        let new = || Attempts { addresses: Vec::new(), furthest: (received, error.clone()) };
        let attempts = self.0.entry(assignment.split).or_insert_with(new);
        if received > attempts.furthest.0 {
            attempts.furthest = (received, error.clone());
        }
        let is_repeated = attempts.addresses.contains(&assignment.address);
        if !is_repeated {
            attempts.addresses.push(assignment.address.clone());
        }
        let is_last = is_repeated || attempts.addresses.len() >= WORKERS_MAX;
        is_last.then(|| attempts.furthest.1.clone().with("workers", attempts.addresses.join(", ")))
    }

    /// Forgets all attempts: a dispatcher that was started again does not know them.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(ordinal: u64, address: &str) -> Assignment {
        Assignment { split: SplitKey { epoch: 0, ordinal }, token: 1, address: address.to_owned(), from_chunk: 0 }
    }

    #[test]
    fn a_split_fails_at_the_second_failure_of_one_worker_or_after_the_bound() {
        let (head, mut splits) = (SplitKey::default(), UnreadableSplits::default());
        let mut add = |ordinal, address: &str, received| {
            let error = Error::data(format!("{address} at {received}"));
            splits.add(head, &assignment(ordinal, address), received, &error)
        };
        assert_eq!(add(0, "a", 0), None);
        assert_eq!(add(0, "b", 7), None);
        assert_eq!(add(1, "a", 0), None, "another split");
        assert_eq!(add(0, "a", 7), Some(Error::data("b at 7").with("workers", "a, b")));
        let many: Vec<_> = (0..WORKERS_MAX).map(|i| add(2, &i.to_string(), 0)).collect();
        let first = many.iter().position(Option::is_some);
        assert_eq!(first, Some(WORKERS_MAX - 1));
    }
}

//! The workers that cannot read a file of a split. Pure: no clock, no I/O.
//!
//! The dispatcher grants such a split to another worker, and to the same worker again only if it has no other. So a
//! second answer of one worker is the error of the split.

use std::collections::BTreeMap;

use forebay_core::Error;

use crate::stream::reorder_buffer::{Assignment, SplitKey};

/// The most workers that are tried for a split whose file some workers cannot read.
const WORKERS_MAX: usize = 16;

/// The workers besides those that cannot read a file of a split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Another worker may be able to read it.
    MayReadIt,
    /// None is left to try: the error of the split, with the addresses of the workers that were tried.
    AreTried(Error),
}

/// The workers that cannot read a file of one split.
#[derive(Debug)]
struct Tried {
    addresses: Vec<String>,
    /// The error of the worker that came furthest in the split, and how many chunks had arrived then.
    furthest: (u64, Error),
}

/// By split, the workers that cannot read one of its files.
#[derive(Debug, Default)]
pub(crate) struct WithoutFile(BTreeMap<SplitKey, Tried>);

impl WithoutFile {
    /// Notes that the worker of an assignment cannot read a file behind the first `received` chunks; forgets the splits
    /// before `head`.
    pub(crate) fn add(&mut self, head: SplitKey, assignment: &Assignment, received: u64, error: &Error) -> Others {
        self.0 = self.0.split_off(&head);
        let (address, furthest) = (&assignment.address, (received, error.clone()));
        let new = || Tried { addresses: Vec::new(), furthest: furthest.clone() };
        let tried = self.0.entry(assignment.split).or_insert_with(new);
        if furthest.0 > tried.furthest.0 {
            tried.furthest = furthest.clone();
        }
        let is_repeated = tried.addresses.contains(address);
        if !is_repeated {
            tried.addresses.push(address.clone());
        }
        if is_repeated || tried.addresses.len() >= WORKERS_MAX {
            Others::AreTried(tried.furthest.1.clone().with("workers", tried.addresses.join(", ")))
        } else {
            Others::MayReadIt
        }
    }

    /// Forgets all workers: a dispatcher that was started again grants without that knowledge.
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
    fn a_split_fails_at_the_second_answer_of_one_worker_or_after_the_bound() {
        let (head, mut without) = (SplitKey::default(), WithoutFile::default());
        let mut add = |ordinal, address: &str, received| {
            let error = Error::data(format!("{address} at {received}"));
            without.add(head, &assignment(ordinal, address), received, &error)
        };
        assert_eq!(add(0, "a", 0), Others::MayReadIt);
        assert_eq!(add(0, "b", 7), Others::MayReadIt);
        assert_eq!(add(1, "a", 0), Others::MayReadIt, "another split");
        assert_eq!(add(0, "a", 7), Others::AreTried(Error::data("b at 7").with("workers", "a, b")));
        let many: Vec<_> = (0..WORKERS_MAX).map(|i| add(2, &i.to_string(), 0)).collect();
        let first = many.iter().position(|others| *others != Others::MayReadIt);
        assert_eq!(first, Some(WORKERS_MAX - 1));
    }
}

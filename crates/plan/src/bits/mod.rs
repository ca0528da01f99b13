//! The versions of the bits that this version of Forebay computes: of each op, source and function, and of the plan.
//!
//! A fleet may run two versions of Forebay during an upgrade. A job's samples must not depend on the worker, so each name
//! has a small number, which rises when the same pipeline gives other bits. A job keeps the numbers that it began with, and
//! only processes with these numbers for its names compute for it. A new argument is a name of its own.
//!
//! Raise a number in [`CHANGED`] when a golden file of bits changes. Invariant: a number never falls. `names` finds the
//! names of this process and of a pipeline.

mod names;

use std::collections::BTreeMap;

use forebay_core::{Error, ErrorKind, Result};

use crate::graph::Graph;

/// The name of what all jobs depend on: the order of rows, random numbers, and the sizes of splits and morsels.
const PLAN: &str = "plan";
/// The names whose number is not 1: the number, and the oldest one of which this version computes the same bits.
///
/// 2: rows fail only for the branches that they take; a row that is longer than its bucket is padded fails alone; a row
/// of a Parquet file that a filter leaves out cannot fail for a value that no filter needs.
const CHANGED: &[(&str, Versions)] = &[
    ("expr fill_null", SECOND),
    ("expr where", SECOND),
    ("op and", SECOND),
    ("op bucket_by_length", SECOND),
    ("op filter_expr", SECOND),
    ("op or", SECOND),
];
const SECOND: Versions = Versions { latest: 2, oldest: 2 };
/// The names that a process of protocol 1 knows, each in its first version. Such a process sends no numbers.
const FIRST: &str = include_str!("first.txt");
/// Names that a peer may send, and the bytes of each.
const NAMES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 64;
/// Differences that a text names.
const NAMED_MAX: usize = 8;

/// The version of the bits of each name that a job needs.
pub type NeededBits = BTreeMap<String, u32>;

/// The versions of the bits of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The number for new jobs.
    pub latest: u32,
    /// The oldest number of which a job gets the same bits.
    pub oldest: u32,
}

impl Versions {
    /// The versions of a name that never changed.
    pub const FIRST: Self = Self { latest: 1, oldest: 1 };
}

/// The versions of the bits that a process computes, of each name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BitVersions(BTreeMap<String, Versions>);

impl BitVersions {
    /// Returns the versions of this process.
    pub fn own() -> Self {
        let versions =
            |name: &str| CHANGED.iter().find(|(changed, _)| *changed == name).map_or(Versions::FIRST, |c| c.1);
        Self(names::known().iter().map(|name| (name.clone(), versions(name))).collect())
    }

    /// Returns the versions of a peer that sends none.
    pub fn first() -> Self {
        Self(FIRST.lines().map(|name| (name.to_owned(), Versions::FIRST)).collect())
    }

    /// Returns the versions that a peer sent.
    ///
    /// # Errors
    /// Invalid when there are more than 4,096, or a name is longer than 64 bytes.
    pub fn sent(versions: impl IntoIterator<Item = (String, Versions)>) -> Result<Self> {
        let versions: BTreeMap<_, _> = versions.into_iter().take(NAMES_MAX + 1).collect();
        if versions.len() > NAMES_MAX || versions.keys().any(|name| name.len() > NAME_BYTES_MAX) {
            let most = format!("a process sends the versions of at most {NAMES_MAX} names of {NAME_BYTES_MAX} bytes");
            return Err(Error::invalid(most));
        }
        Ok(Self(versions))
    }

    /// Returns these versions with those of a name.
    #[must_use]
    pub fn with(mut self, name: &str, versions: Versions) -> Self {
        self.0.insert(name.to_owned(), versions);
        self
    }

    /// Returns the names and their versions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Versions)> {
        self.0.iter().map(|(name, versions)| (name.as_str(), *versions))
    }

    /// Returns the numbers other than 1 of the names that a pipeline uses: what a job of this process has to keep.
    pub fn kept(&self, graph: &Graph) -> NeededBits {
        let latest = |name: String| Some((self.0.get(&name)?.latest, name));
        let kept = names::of(graph).into_iter().filter_map(latest).filter(|(latest, _)| *latest != 1);
        kept.map(|(latest, name)| (name, latest)).collect()
    }

    /// Returns the difference between these versions and the versions that a job needs, as a text; `None` if there is none.
    pub fn difference(&self, needed: &NeededBits) -> Option<String> {
        let mut differing = needed.iter().filter_map(|(name, needed)| match self.0.get(name) {
            Some(own) if (own.oldest..=own.latest).contains(needed) => None,
            Some(own) => Some(format!("{name} (version {}, not {needed})", own.latest)),
            None => Some(format!("{name} (unknown)")),
        });
        let named: Vec<_> = differing.by_ref().take(NAMED_MAX).collect();
        let more = differing.count();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| named.join(", ") + &more)
    }
}

/// Returns the number of each name of a pipeline whose job has kept these.
pub fn needed_bits(graph: &Graph, kept: &NeededBits) -> NeededBits {
    let number = |name: &String| kept.get(name).copied().unwrap_or(1);
    names::of(graph).into_iter().map(|name| (name.clone(), number(&name))).collect()
}

/// Checks that this process may plan a job that has kept these numbers.
///
/// # Errors
/// Version.
pub fn check_planned_bits(kept: &NeededBits) -> Result<()> {
    let needed = NeededBits::from([(PLAN.to_owned(), kept.get(PLAN).copied().unwrap_or(1))]);
    let Some(difference) = BitVersions::own().difference(&needed) else { return Ok(()) };
    Err(Error::new(ErrorKind::Version, format!("the job began with another order of rows: {difference}"))
        .hint("end the job with the version of forebay that began it, or begin it anew"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::ops::{self, Op};
    use crate::source::Source;

    fn graph() -> Graph {
        let graph = Graph::new(Source::Range { start: 0, stop: 8, step: 1 }, None).expect("a source");
        let batch = Op::Batch(ops::Batch { size: 2, drop_remainder: false });
        graph.then(Node::new(Op::SHUFFLE)).and_then(|graph| graph.then(Node::new(batch))).expect("a pipeline")
    }

    #[test]
    fn a_job_needs_the_versions_that_it_began_with_and_names_what_differs() {
        let (own, nothing) = (BitVersions::own(), NeededBits::new());
        let of_first = needed_bits(&graph(), &nothing);
        assert_eq!(own.kept(&graph()), nothing, "first versions are not written down");
        assert_eq!(own.difference(&of_first), None);
        assert_eq!(BitVersions::first().difference(&of_first), None);
        let other = own.clone().with("op batch", Versions { latest: 2, oldest: 2 });
        let wider = own.clone().with("op batch", Versions { latest: 2, oldest: 1 });
        let kept = other.clone().with("op resize", Versions { latest: 7, oldest: 7 }).kept(&graph());
        assert_eq!(kept, NeededBits::from([("op batch".to_owned(), 2)]), "only what it uses");
        let needed = needed_bits(&graph(), &kept);
        assert_eq!((other.difference(&needed), wider.difference(&needed)), (None, None));
        assert_eq!(wider.difference(&of_first), None, "it computes the bits of both");
        assert_eq!(own.difference(&needed).as_deref(), Some("op batch (version 1, not 2)"));
        assert_eq!(other.difference(&of_first).as_deref(), Some("op batch (version 2, not 1)"));
        let unknown = BitVersions::default().difference(&needed).expect("differs");
        assert_eq!(unknown, "op batch (unknown), op shuffle (unknown), plan (unknown), source range (unknown)");
        assert_eq!(check_planned_bits(&kept), Ok(()));
        let other = NeededBits::from([(PLAN.to_owned(), 9)]);
        assert_eq!(check_planned_bits(&other).map_err(|e| e.kind()), Err(ErrorKind::Version));
    }

    #[test]
    fn every_name_of_the_first_protocol_is_still_known() {
        let own = BitVersions::own();
        let gone: Vec<_> = FIRST.lines().filter(|name| !own.0.contains_key(*name)).collect();
        assert_eq!(gone, Vec::<&str>::new(), "a job of the ledger may need it");
        let unknown: Vec<_> = CHANGED.iter().filter(|(name, _)| !own.0.contains_key(*name)).collect();
        assert_eq!(unknown, Vec::<&(&str, Versions)>::new());
    }

    #[test]
    fn more_than_a_peer_may_send_is_refused() {
        let of = |n: usize| BitVersions::sent((0..n).map(|i| (i.to_string(), Versions::FIRST))).map_err(|e| e.kind());
        assert!(of(NAMES_MAX).is_ok());
        assert_eq!(of(NAMES_MAX + 1), Err(ErrorKind::Invalid));
        assert_eq!(
            BitVersions::sent([("x".repeat(65), Versions::FIRST)]).map_err(|e| e.kind()),
            Err(ErrorKind::Invalid)
        );
    }
}

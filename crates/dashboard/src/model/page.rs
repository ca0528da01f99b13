//! The part of a long list that a caller requests.

use forebay_core::{Error, Result};
use forebay_proto::{JobStatus, WorkerStatus};

use super::Recent;

/// Rows of a page, by default and at most.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 200;
/// The most characters of a search.
const SEARCH_CHARS_MAX: usize = 200;

/// The order of a list of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Jobs that need attention first, then the newest.
    #[default]
    State,
    Name,
    Waited,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    search: String,
    order: Order,
}

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, limit: LIMIT, search: String::new(), order: Order::default() }
    }
}

impl Page {
    /// Returns a page without a limit and without a search.
    pub fn all() -> Self {
        Self { limit: usize::MAX, ..Self::default() }
    }

    /// Sets one parameter of a query; `false` if a page has no such parameter.
    ///
    /// # Errors
    /// Invalid, with the allowed values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "offset" => self.offset = value.parse().map_err(|_| wrong(name, value, "a number from 0"))?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                self.limit = limit.ok_or_else(|| wrong(name, value, &format!("a number from 1 to {LIMIT_MAX}")))?;
            }
            "search" => self.search = value.chars().take(SEARCH_CHARS_MAX).collect::<String>().to_lowercase(),
            "sort" => {
                self.order = match value {
                    "state" => Order::State,
                    "name" => Order::Name,
                    "waited" => Order::Waited,
                    _ => return Err(wrong(name, value, "state, name or waited")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the jobs of the page, and how many there are in all.
    pub fn jobs<'a>(&self, jobs: &'a [JobStatus]) -> (Vec<&'a JobStatus>, usize) {
        let matches = |job: &&JobStatus| self.matches(&[&job.name, &job.tenant, &job.state]);
        // The dispatcher lists the oldest first.
        let mut found: Vec<_> = jobs.iter().rev().filter(matches).collect();
        match self.order {
            Order::State => found.sort_by_key(|job| rank(&job.state)),
            Order::Name => found.sort_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name))),
            Order::Waited => {
                let waited = |job: &JobStatus| Recent::of(&job.consumers).waited.unwrap_or(-1.0);
                found.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
            }
        }
        let all = found.len();
        (found.into_iter().skip(self.offset).take(self.limit).collect(), all)
    }

    /// Returns the workers of the page, and how many there are in all.
    pub fn workers<'a>(&self, workers: &'a [WorkerStatus]) -> (Vec<&'a WorkerStatus>, usize) {
        let matches = |w: &&WorkerStatus| self.matches(&[&w.worker, &w.address, &w.state, &w.kind]);
        let mut found: Vec<_> = workers.iter().filter(matches).collect();
        let rank =
            |w: &WorkerStatus| ["lost", "slow", "leaving"].iter().position(|state| *state == w.state).unwrap_or(3);
        found.sort_by(|a, b| (rank(a), &a.kind, &a.address).cmp(&(rank(b), &b.kind, &b.address)));
        let all = found.len();
        (found.into_iter().skip(self.offset).take(self.limit).collect(), all)
    }

    fn matches(&self, texts: &[&str]) -> bool {
        self.search.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&self.search))
    }
}

/// Returns the rank of a state in the list; the lowest rank comes first.
fn rank(state: &str) -> usize {
    ["waiting for workers", "running", "no consumer", "finished"].iter().position(|s| *s == state).unwrap_or(4)
}

fn wrong(name: &str, value: &str, may: &str) -> Error {
    let value: String = value.chars().take(40).collect();
    Error::invalid(format!("{name} is {value:?}")).hint(format!("use {may}"))
}

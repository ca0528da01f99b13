//! How many workers all jobs want together.

use forebay_proto::{GetScaleResponse, KindWanted};
use serde::Serialize;

/// The wanted workers in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Scale<'a> {
    /// `null` while it is not known: then keep the present workers.
    pub wanted: Option<u32>,
    /// Workers that compute now.
    pub workers: u32,
    /// The most that may be wanted.
    pub max_workers: u32,
    /// The scaling policy.
    pub policy: &'a str,
    /// The worker types that can be started.
    pub kinds: Vec<Kind<'a>>,
}

/// How many workers of a type are wanted.
#[derive(Debug, Clone, Serialize)]
pub struct Kind<'a> {
    /// The worker type.
    pub kind: &'a str,
    /// Whether these are spot workers.
    pub spot: bool,
    /// The price of one for an hour.
    pub price: f64,
    /// The threads of one.
    pub threads: u32,
    /// `null` while it is not known.
    pub wanted: Option<u32>,
    /// Workers of this type that there are.
    pub workers: u32,
    /// The most that can be started.
    pub max: u32,
    /// The speed of one thread, relative to those of other kinds.
    pub pace: f64,
    /// Why this many are wanted.
    pub reason: &'a str,
}

impl<'a> Scale<'a> {
    /// Makes the JSON of the answer.
    pub fn of(scale: &'a GetScaleResponse) -> Self {
        Self {
            wanted: Some(scale.wanted).filter(|&n| n > 0),
            workers: scale.workers,
            max_workers: scale.workers_max,
            policy: &scale.policy,
            kinds: scale.kinds.iter().map(Kind::of).collect(),
        }
    }
}

impl<'a> Kind<'a> {
    fn of(of: &'a KindWanted) -> Self {
        Self {
            kind: &of.kind,
            spot: of.spot,
            price: of.price,
            threads: of.threads,
            wanted: of.wanted,
            workers: of.workers,
            max: of.max,
            pace: of.pace,
            reason: &of.reason,
        }
    }
}

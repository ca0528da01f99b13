//! How many workers all jobs want together.

use forebay_proto::{GetScaleResponse, KindWanted};
use serde::Serialize;

/// The wanted workers in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Scale<'a> {
    /// `null` while it is not known. A provisioner then keeps the present workers.
    pub wanted: Option<u32>,
    /// Workers that compute now.
    pub workers: u32,
    /// The upper limit of `wanted`.
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
    /// The price of one worker for an hour.
    pub price: f64,
    /// The threads of one worker.
    pub threads: u32,
    /// `null` while it is not known.
    pub wanted: Option<u32>,
    /// The present workers of this type.
    pub workers: u32,
    /// The most workers of this type that can be started.
    pub max: u32,
    /// The speed of one thread, relative to threads of other kinds.
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

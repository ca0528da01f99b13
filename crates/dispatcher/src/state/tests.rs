//! The state in a model of workers, readers, disk and crashes: random histories against its invariants, and what it should do by idea.

mod cuts;
mod ends;
mod figures;
mod fleet;
mod grant;
mod held_up;
mod histories;
mod homes;
mod learned;
mod local;
mod lost;
mod ops;
mod peers;
mod poison;
mod race;
mod retention;
mod scale;
mod tenants;
mod together;
mod twins;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, WorkerId};
use forebay_proto::{
    ConsumerHeartbeat, JobKey, JobOps, LostSample, OpSpent, OpStatus, Spent, UNREACHED, WorkerHeartbeat,
    consumer_event, worker_event,
};
use proptest::prelude::*;

use super::{Attachment, Effect, Input, Kind, SessionId, State};
use crate::options::Timing;
use crate::records::{ConsumerKey, JobRecord, Position};
use crate::tenant::{Quota, Tenant};
use world::*;

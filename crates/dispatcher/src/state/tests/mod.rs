//! Tests of the state in a model of workers, consumers, disk and crashes: random histories against its invariants, and
//! one file for each subject.

mod dataset_profile;
mod figures;
mod fleet;
mod histories;
mod leases;
mod local_workers;
mod model;
mod op_costs;
mod peers;
mod placement;
mod scale;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::{
    ConsumerHeartbeat, JobKey, JobOps, LostSample, OpSpent, OpStatus, Spent, UNREACHED, UNREADABLE, WorkerHeartbeat,
    consumer_event, worker_event,
};
use proptest::prelude::*;

use super::{Arrival, Attachment, Effect, Input, SessionId, State, WorkerType};
use crate::options::Timing;
use crate::records::{ConsumerKey, JobRecord, Position};
use crate::tenant::{Quota, Tenant};
use model::*;
use world::World;

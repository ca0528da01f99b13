//! Tests of the state in a model of workers, consumers, disk and crashes: random histories against its invariants, and
//! one file for each subject.

mod affinity;
mod bits;
mod dataset_profile;
mod epoch_ends;
mod figures;
mod fleet;
mod grant;
mod held_up;
mod hints;
mod histories;
mod job_end;
mod local_workers;
mod make_way;
mod op_costs;
mod peers;
mod placement;
mod poison;
mod retention;
mod scale;
mod sharing;
mod skipped;
mod speculation;
mod tenants;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::{
    ConsumerHeartbeat, JobKey, JobOps, LostSample, OpSpent, OpStatus, Spent, UNREACHED, WorkerHeartbeat,
    consumer_event, worker_event,
};
use proptest::prelude::*;

use super::{Arrival, Attachment, Effect, Input, SessionId, State, WorkerType};
use crate::options::Timing;
use crate::records::{ConsumerKey, JobRecord, Position};
use crate::tenant::{Quota, Tenant};
use world::*;

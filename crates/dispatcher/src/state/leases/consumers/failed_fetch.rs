//! A consumer could not fetch a split: which worker it avoids, who gets the split next, and when it is hopeless.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Ticks};
use forebay_proto::UNREACHED;

use crate::records::Position;
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::grants::trouble::Death;
use crate::state::leases::machine::Leases;

/// A split that workers refused this often is not tried again.
const REFUSALS_MAX: u32 = 4;

/// A consumer that reaches no worker for a split for this long gets an error. Consumers wait as long for a dispatcher.
const UNREACHED_FOR: Duration = Duration::from_secs(60);

/// The most characters of a cause that is kept.
const CAUSE_CHARS_MAX: usize = 300;

/// Why a consumer could not fetch a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchFailure {
    /// Nothing answered. That may pass, and so may a dispatcher's restart.
    Unreached,
    /// The worker cannot read a file of the split. Another worker may be able to.
    WithoutFile,
    /// The worker refused the fetch. That does not pass.
    Refused,
}

impl FetchFailure {
    fn of(error: &Error) -> Self {
        match (error.kind(), error.get(UNREACHED)) {
            (ErrorKind::Unavailable, Some(_)) => Self::Unreached,
            (ErrorKind::NotFound | ErrorKind::PermissionDenied, None) => Self::WithoutFile,
            _ => Self::Refused,
        }
    }
}

impl Leases {
    /// Accepts the report that a consumer could not fetch a split from a worker: grants the split anew.
    pub(in crate::state) fn unreachable(
        &mut self,
        now: Ticks,
        session: SessionId,
        position: Position,
        token: u64,
        error: &Error,
        out: &mut Vec<Effect>,
    ) {
        let lease = self.timing.lease;
        let Some(key) = self.heard_consumer(now, session) else { return };
        let Some(consumer) = self.consumer_mut(key) else { return };
        let Some(holder) = consumer.holder(position, token) else {
            // The message is about an older lease; the consumer may not have got the current one yet.
            return self.send_assignments((key, position), out);
        };
        let failure = FetchFailure::of(error);
        if failure != FetchFailure::WithoutFile
            && let Some(worker) = self.workers.get_mut(&holder.worker)
        {
            let suspected = worker.fail(now, holder.token, (key, position), lease) && !worker.leaving;
            let death = Death { worker: holder.worker, address: worker.address.clone(), at: now };
            if suspected {
                self.accuse((key, position), death);
            }
        }
        let Some(consumer) = self.consumer_mut(key) else { return };
        if failure != FetchFailure::Refused {
            consumer.avoided.add(now, holder.worker, lease, &cause(error));
        }
        let is_backed_up = consumer.backups().contains_key(&position);
        if failure == FetchFailure::WithoutFile {
            consumer.trouble.entry(position).or_default().without_files.insert(holder.worker);
        }
        if is_backed_up {
            // The other worker holds the split, too.
            self.drop_lease((key, position), token, out);
            return self.revoke_from_worker(holder, out);
        }
        consumer.release(position);
        let trouble = consumer.trouble.entry(position).or_default();
        trouble.failures += 1;
        trouble.avoid = Some((holder.worker, now));
        let failures = trouble.failures;
        let is_hopeless = match failure {
            FetchFailure::Unreached => now - *trouble.unreached.get_or_insert(now) >= UNREACHED_FOR,
            // The consumer counts: the error of the last worker ends its stream at the split's place in the order.
            FetchFailure::WithoutFile => false,
            FetchFailure::Refused => {
                trouble.refusals += 1;
                trouble.refusals >= REFUSALS_MAX
            }
        };
        self.counts.splits_recomputed += 1;
        self.revoke((key, position), holder, out);
        if is_hopeless {
            let error = error.clone().with("split", position).with("attempts", failures);
            self.end_consumer(now, key, error, out);
        }
    }
}

/// Returns the cause of a failed fetch in one line.
fn cause(error: &Error) -> String {
    let detail = error.get("cause").or(error.get("file")).map_or_else(String::new, |detail| format!(": {detail}"));
    format!("{}{detail}", error.message()).chars().take(CAUSE_CHARS_MAX).collect()
}

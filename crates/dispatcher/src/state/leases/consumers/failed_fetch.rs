//! A consumer could not fetch a split: which worker it avoids, who gets the split next, and when it is hopeless.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Ticks};
use forebay_proto::{UNREACHED, UNREADABLE, in_one_line};

use crate::records::{Position, SplitKey};
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::consumers::consumer::Holder;
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
    Unreadable,
    /// The worker refused the fetch. That does not pass.
    Refused,
}

impl FetchFailure {
    fn of(error: &Error) -> Self {
        match error.kind() {
            _ if error.get(UNREADABLE).is_some() => Self::Unreadable,
            ErrorKind::Unavailable if error.get(UNREACHED).is_some() => Self::Unreached,
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
        if failure != FetchFailure::Unreadable {
            self.suspect(now, (key, position), holder);
        }
        let Some(consumer) = self.consumer_mut(key) else { return };
        if failure != FetchFailure::Refused {
            let cause: String = in_one_line(error).chars().take(CAUSE_CHARS_MAX).collect();
            consumer.avoided.add(now, holder.worker, lease, &cause, failure == FetchFailure::Unreadable);
        }
        let is_repeated = failure == FetchFailure::Unreadable
            && !consumer.trouble.entry(position).or_default().unreadable_at.insert(holder.worker);
        if consumer.backups().contains_key(&position) {
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
            // A consumer ends its stream itself at the second failure of one worker, behind the rows before the split.
            FetchFailure::Unreadable => is_repeated,
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

    /// Suspects a split of having ended its worker: a consumer often notices a death before the dispatcher.
    fn suspect(&mut self, now: Ticks, key: SplitKey, holder: Holder) {
        let lease = self.timing.lease;
        let Some(worker) = self.workers.get_mut(&holder.worker) else { return };
        let is_suspected = worker.fail(now, holder.token, key, lease) && !worker.leaving;
        let death = Death { worker: holder.worker, address: worker.address.clone(), at: now };
        if is_suspected {
            self.accuse(key, death);
        }
    }
}

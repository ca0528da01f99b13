//! The task that takes snapshots of the service while the dashboard runs, so that history begins before the first
//! visitor.

#![expect(clippy::disallowed_methods, reason = "it looks every two seconds, and points of a history have a time")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_core::ErrorKind;

use super::calls::Caller;
use super::store::Store;

/// The time between two snapshots.
const EVERY: Duration = Duration::from_secs(2);
/// The time between two snapshots while the dashboard has no token of its own and the service requires one.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

/// Takes snapshots of the service until the future is dropped.
pub(crate) async fn sample(store: Arc<Store>) -> Infallible {
    loop {
        let look = store.snapshot(&Caller::Own).await;
        let is_refused = look.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        if !is_refused {
            store.note(look.as_deref());
        }
        tokio::time::sleep(if is_refused { REFUSED_EVERY } else { EVERY }).await;
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

//! The slot that a consumer shares with its local worker: the worker's address, the host's spare capacity, the thread
//! count that the dispatcher wants.
//!
//! The consumer's session and the local worker's supervisor each read the other's last values; neither waits for the
//! other. A consumer without a supervisor probes its host itself, once for each heartbeat, so the probe needs no
//! thread. The probe can be replaced; the simulation has none. Bound: one value of each kind.

use std::fmt;
use std::sync::Mutex;

use forebay_core::Ticks;
use forebay_proto::{JobKey, Spare};

use crate::lock::lock;

#[derive(Debug, Default)]
struct State {
    address: Option<String>,
    spare: Option<Spare>,
    wanted_threads: u32,
}

/// Measures the spare capacity of this host; `None` if the host does not report it, or not yet. Takes a moment: it
/// reads files of the system.
pub type HostProbe = Box<dyn FnMut(Ticks) -> Option<Spare> + Send>;

/// The slot for the local worker of one consumer. Empty if the consumer has none.
#[derive(Default)]
pub struct LocalWorkerSlot {
    key: JobKey,
    state: Mutex<State>,
    probe: Mutex<Option<HostProbe>>,
}

impl LocalWorkerSlot {
    /// Returns a slot without a local worker. The consumer's session calls `probe` to measure the host.
    pub fn with_probe(probe: HostProbe) -> Self {
        Self { probe: Mutex::new(Some(probe)), ..Self::default() }
    }

    /// Returns a slot for a local worker that presents `key`, a secret of this consumer and that worker.
    pub fn for_worker(key: JobKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Returns the key that the local worker presents; an empty key if there is no local worker.
    pub fn key(&self) -> JobKey {
        self.key
    }

    /// Sets the address at which the local worker listens. The worker is a child process on this host, so the consumer
    /// connects to it without TLS.
    pub fn set_address(&self, address: Option<String>) {
        lock(&self.state).address = address;
    }

    /// Sets the spare capacity that the next heartbeat reports to the dispatcher; `None` reports nothing.
    pub fn set_spare(&self, spare: Option<Spare>) {
        lock(&self.state).spare = spare;
    }

    /// Sets the thread count that the dispatcher wants.
    pub fn set_wanted_threads(&self, wanted: u32) {
        lock(&self.state).wanted_threads = wanted;
    }

    /// Returns the thread count of the dispatcher's last answer; 0 before the first answer.
    pub fn wanted_threads(&self) -> u32 {
        lock(&self.state).wanted_threads
    }

    /// Returns whether the local worker listens at `address`.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        lock(&self.state).address.as_deref() == Some(address)
    }

    /// Runs the probe, if the slot has one, and stores its result.
    pub(crate) fn run_probe(&self, now: Ticks) {
        if let Some(probe) = &mut *lock(&self.probe) {
            let spare = probe(now);
            self.set_spare(spare);
        }
    }

    /// Returns the spare capacity that was set last.
    pub fn spare(&self) -> Option<Spare> {
        lock(&self.state).spare
    }
}

impl fmt::Debug for LocalWorkerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWorkerSlot").field("state", &self.state).finish_non_exhaustive()
    }
}

//! The secret of a worker: who knows it is that worker, and its id follows from it.
//!
//! Ids are shown to every tenant, so an id by itself must give nobody anything. A worker makes a secret at its start and shows it
//! to the dispatcher alone; the dispatcher computes the id, and keeps neither. So nothing is compared, a dispatcher that
//! restarts or takes over knows each worker again, and nobody can speak under an id whose secret it does not know.

use std::fmt;

use forebay_core::{Error, Result, WorkerId};

const BYTES: usize = 16;
/// What ids are derived for.
const PURPOSE: &str = "forebay 2026-11-23 the id of a worker";

/// 128 bits that cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WorkerSecret([u8; BYTES]);

impl WorkerSecret {
    /// Takes random bits.
    pub fn new(random: u128) -> Self {
        Self(random.to_be_bytes())
    }

    /// Takes what a worker says.
    ///
    /// # Errors
    /// Invalid when it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |_| Error::invalid(format!("a worker's secret has {BYTES} bytes, not {}", bytes.len()));
        bytes.try_into().map(Self).map_err(wrong)
    }

    /// Returns what a worker says.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Returns the id that others know it by.
    pub fn id(&self) -> WorkerId {
        let hash = blake3::derive_key(PURPOSE, &self.0);
        let mut id = [0; BYTES];
        id.copy_from_slice(&hash[..BYTES]);
        WorkerId(u128::from_be_bytes(id))
    }
}

impl fmt::Debug for WorkerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_its_secret_and_is_no_secret() -> Result<()> {
        let secret = WorkerSecret::new(7);
        assert_eq!(WorkerSecret::from_bytes(&secret.to_vec())?.id(), secret.id());
        let shown = WorkerSecret::new(secret.id().0);
        assert_ne!(shown.id(), secret.id(), "whoever says an id is somebody else");
        assert_ne!(WorkerSecret::new(8).id(), secret.id());
        assert_eq!(format!("{secret:?}"), "WorkerSecret(…)");
        assert!(WorkerSecret::from_bytes(&[0; 15]).is_err());
        Ok(())
    }
}

//! The secret of a worker, from which its id follows: a process that knows the secret is that worker.
//!
//! Every tenant sees worker ids, so an id alone must give no rights. A worker makes a secret at its start and sends it
//! to the dispatcher alone, which computes the id and stores neither. So a dispatcher that restarts or takes over still
//! recognises each worker, and no process can use an id whose secret it does not know.

use std::fmt;

use forebay_core::{Error, Result, WorkerId};

const BYTES: usize = 16;
/// The context of the key derivation.
const PURPOSE: &str = "forebay 2026-11-23 the id of a worker";

/// 128 bits that cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WorkerSecret([u8; BYTES]);

impl WorkerSecret {
    /// Makes a secret of random bits.
    pub fn new(random: u128) -> Self {
        Self(random.to_be_bytes())
    }

    /// Reads the bytes that a worker sends.
    ///
    /// # Errors
    /// Invalid when it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |_| Error::invalid(format!("a worker's secret has {BYTES} bytes, not {}", bytes.len()));
        bytes.try_into().map(Self).map_err(wrong)
    }

    /// Returns the bytes that a worker sends.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Returns the id of the worker.
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
        assert_ne!(shown.id(), secret.id(), "an id is not a secret");
        assert_ne!(WorkerSecret::new(8).id(), secret.id());
        assert_eq!(format!("{secret:?}"), "WorkerSecret(…)");
        assert!(WorkerSecret::from_bytes(&[0; 15]).is_err());
        Ok(())
    }
}

//! The key of a job: a ticket must carry it to read the job's chunks.
//!
//! Workers do not check tokens. The dispatcher makes a key for each job of a tenant, and sends it to the workers that
//! compute the job and to the consumers that may read it. Jobs of a dispatcher without tokens have no key, and need
//! none.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

const BYTES: usize = 16;

/// 128 bits that cannot be guessed; all zero means no key. In JSON, 32 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct JobKey([u8; BYTES]);

impl JobKey {
    /// Reads the key of a definition. Bytes of another length become no key, which does not open a job that has one.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().unwrap_or_default())
    }

    /// Returns whether it opens a job whose definition has the key `wanted`. Takes the same time for any wrong key.
    pub fn opens(&self, wanted: &[u8]) -> bool {
        wanted.is_empty() || bool::from(self.0[..].ct_eq(wanted))
    }

    /// Returns the key as in a definition; empty for no key.
    pub fn to_vec(&self) -> Vec<u8> {
        if self.is_none() { Vec::new() } else { self.0.to_vec() }
    }

    /// Returns whether this is no key.
    pub fn is_none(&self) -> bool {
        self.0 == [0; BYTES]
    }
}

impl From<JobKey> for String {
    fn from(key: JobKey) -> String {
        key.0.iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl TryFrom<String> for JobKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let wrong = "a job's key has 32 hexadecimal digits";
        let digit = |at: usize| (text.as_bytes()[at] as char).to_digit(16).ok_or(wrong);
        if text.len() != 2 * BYTES {
            return Err(wrong);
        }
        let mut key = [0; BYTES];
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = (digit(2 * i)? << 4 | digit(2 * i + 1)?) as u8;
        }
        Ok(Self(key))
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "JobKey(none)" } else { "JobKey(…)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_its_own_job_and_any_that_asks_for_none() {
        let bytes: Vec<u8> = (1..=16).collect();
        let key = JobKey::from_bytes(&bytes);
        assert!(key.opens(&bytes) && key.opens(b"") && JobKey::default().opens(b""));
        let mut other = bytes.clone();
        other[15] ^= 1;
        for wanted in [&other[..], &bytes[..15], &[0; 16], b"\0"] {
            assert!(!key.opens(wanted));
        }
        // An invalid key opens nothing, not even a job with the same bytes.
        assert!(!JobKey::from_bytes(&bytes[..15]).opens(&bytes[..15]));
        assert_eq!(String::from(key), "0102030405060708090a0b0c0d0e0f10");
        assert_eq!(JobKey::try_from(String::from(key)), Ok(key));
        assert!(JobKey::try_from("é".repeat(16)).is_err() && JobKey::try_from(String::new()).is_err());
        assert_eq!(format!("{key:?}"), "JobKey(…)");
    }
}

//! Bounds the bytes of blobs: of each tenant, of all tenants, and the bytes that must stay free on their disk for the
//! ledger.
//!
//! The bytes of stored blobs are counted from the store at the first request, so a restart forgets nothing and
//! counts nothing twice. Bytes of uploads count as they arrive, so concurrent uploads are bounded together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, ErrorKind, Result};

use super::key::at;

/// The default of the bytes that blobs leave free on their disk: this, or a part of a small disk.
const KEEP_FREE_BYTES: u64 = 1 << 30;
const KEEP_FREE_PART: u64 = 20;
/// The room for all, divided by this, is the room of a tenant without a quota.
const TENANT_PART: u64 = 2;

/// The limits of all blobs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobLimits {
    /// The bytes of all blobs. Default: the room of the disk.
    pub bytes: Option<u64>,
    /// Bytes of their disk that blobs leave free. Default: 1 GiB, or a twentieth of a smaller disk.
    pub keep_free: Option<u64>,
}

/// The room for the blobs of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Room {
    limits: BlobLimits,
    /// Bytes by tenant; `None` before they were counted.
    taken: Mutex<Option<BTreeMap<String, u64>>>,
    /// Held while a blob is moved to a path where one may exist.
    pub(in crate::store) placing: Mutex<()>,
}

/// The tenant of a blob, and its quota.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Whose<'a> {
    pub(in crate::store) tenant: &'a str,
    pub(in crate::store) quota: Option<u64>,
}

impl Room {
    pub(in crate::store) fn new(limits: BlobLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes room on the disk of a folder; `count` counts the bytes of each tenant there.
    ///
    /// # Errors
    /// Exhausted, naming the limit; the error of `count`.
    pub(in crate::store) fn take(
        &self,
        whose: Whose<'_>,
        folder: &Path,
        bytes: u64,
        count: impl FnOnce() -> Result<BTreeMap<String, u64>>,
    ) -> Result<()> {
        let free = self.check_disk(folder, bytes)?;
        let mut slot = self.taken();
        let taken = match &mut *slot {
            Some(taken) => taken,
            none => none.insert(count()?),
        };
        let all: u64 = taken.values().sum();
        if let Some(most) = self.limits.bytes.filter(|most| all + bytes > *most) {
            return Err(full(format!("the blobs of all jobs take {all} bytes, and may take {most}"), "blob bytes")
                .hint("forget jobs that are over, or start the dispatcher with a larger --blob-bytes"));
        }
        let own = taken.entry(whose.tenant.to_owned()).or_default();
        let share = || self.limits.bytes.unwrap_or(u64::MAX).min(all.saturating_add(free)) / TENANT_PART;
        let may = whose.quota.or_else(|| (!whose.tenant.is_empty()).then(share));
        if let Some(may) = may.filter(|may| *own + bytes > *may) {
            let message = format!("the blobs of tenant {:?} take {own} bytes, and its quota is {may}", whose.tenant);
            return Err(full(message, "blob bytes").hint(
                "forget jobs that are over (blobs that only they need are removed an hour later), or ask for a larger blob_bytes \
                 in the token file",
            ));
        }
        *own += bytes;
        Ok(())
    }

    /// Returns room.
    pub(in crate::store) fn give(&self, tenant: &str, bytes: u64) {
        // Without bytes there is nothing to give back. The caller may be a thread of the runtime, which must not wait
        // for a count.
        if bytes == 0 {
            return;
        }
        if let Some(own) = self.taken().as_mut().and_then(|taken| taken.get_mut(tenant)) {
            *own = own.saturating_sub(bytes);
        }
    }

    /// Returns the bytes of all blobs, if they were counted. Does not wait for a count.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.taken.try_lock().ok()?.as_ref().map(|taken| taken.values().sum())
    }

    /// Returns how many more bytes blobs may take of a disk.
    ///
    /// # Errors
    /// Exhausted when the room is less than `bytes`.
    pub(in crate::store) fn check_disk(&self, folder: &Path, bytes: u64) -> Result<u64> {
        let disk = rustix::fs::statvfs(folder).map_err(|e| at(folder, e.into()))?;
        let (free, size) = (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
        let keep = self.limits.keep_free.unwrap_or(KEEP_FREE_BYTES.min(size / KEEP_FREE_PART));
        let room = free.saturating_sub(keep);
        if bytes <= room {
            return Ok(room);
        }
        let message =
            format!("the disk of the dispatcher's blobs has {free} bytes free, and keeps {keep} for the ledger");
        Err(full(message, "free bytes").with("folder", folder.display()).hint(
            "forget jobs that are over, or make room on the disk; --keep-free sets how many bytes blobs leave free",
        ))
    }

    fn taken(&self) -> MutexGuard<'_, Option<BTreeMap<String, u64>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full(message: String, quota: &str) -> Error {
    Error::new(ErrorKind::Exhausted, message).with("quota", quota)
}

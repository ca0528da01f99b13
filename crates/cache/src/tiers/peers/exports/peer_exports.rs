//! The blocks that peers may read: blocks of rows on the disk, and snapshots of rows in memory, by range, under the
//! names of a store's objects.
//!
//! Invariants: a peer can only read blocks of the folder and snapshots. The size of an answer is bounded. The peer
//! checks the sum of every row.

#![expect(clippy::disallowed_methods, reason = "a process without a folder has a random name")]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};

use crate::key::PrefixKey;
use crate::lock::read;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::tiers::block::name::Name;
use crate::tiers::peers::exports::make::snapshots;
use crate::tiers::peers::server::{PeerReply, PeerRequest};
use crate::tiers::remote::blocks::{Object, Part};
use crate::tiers::remote::names::{object_of, parse_name};

/// The most bytes of a block in one read.
pub const PART_BYTES_MAX: u64 = 8 << 20;

/// See the module's documentation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PeerExports(Arc<CacheState>);

impl PeerExports {
    pub(crate) fn new(cache: Arc<CacheState>) -> Self {
        Self(cache)
    }

    /// Identifies the folder: processes with the same folder return the same text, others do not. A process without a
    /// folder returns a unique text. Empty where the folder cannot be identified.
    pub fn place(&self) -> String {
        if self.0.disk().is_none() {
            return uuid::Uuid::new_v4().to_string();
        }
        // Device and inode numbers identify a folder on one system, until it restarts.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let folder = self.0.disk().and_then(|disk| std::fs::metadata(disk.folder().root()).ok());
        folder.map_or_else(String::new, |folder| format!("{}:{}:{}", boot.trim(), folder.dev(), folder.ino()))
    }

    /// Lists the blocks of a prefix, as [`RemoteBlocks::list`](crate::RemoteBlocks::list) does. Makes snapshots, which
    /// takes some tenths of a second at most on an idle processor.
    pub fn blocks(&self, prefix: PrefixKey) -> Vec<Object> {
        let on_disk = self.0.disk().map(|disk| disk.blocks(prefix)).unwrap_or_default();
        let in_memory = self.0.known_prefix(prefix).map(|state| snapshots(&self.0, &state)).unwrap_or_default();
        let object =
            |name: &Name, bytes: u64| Object { name: object_of(name), bytes, modified: SystemTime::UNIX_EPOCH };
        let on_disk = on_disk.iter().map(|block| object(&block.name, block.len));
        on_disk.chain(in_memory.iter().map(|snapshot| object(&snapshot.name, snapshot.len))).collect()
    }

    /// Returns rows, as blocks, to a peer that would compute them: rows that are here, and rows that are computed here
    /// within `limit`.
    ///
    /// # Errors
    /// NotFound where this process does not know the prefix; or the error of encoding a block.
    pub fn rows(&self, request: &PeerRequest<'_>, limit: Duration) -> Result<PeerReply> {
        self.0.reply(request, limit)
    }

    /// Reads a part of a block. Blocks the thread on the disk.
    ///
    /// # Errors
    /// NotFound where the block does not exist, or rows of the part have left memory; Data where the block ends before
    /// the part; Invalid where the part is too long; or the system's error.
    pub fn read(&self, part: &Part) -> Result<Bytes> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no block {}", part.name));
        let name = parse_name(&part.name).ok_or_else(missing)?;
        let len = part.range.end.saturating_sub(part.range.start);
        if len > PART_BYTES_MAX {
            return Err(Error::invalid(format!("{len} bytes of a block; at most {PART_BYTES_MAX} are read at once")));
        }
        let find = |state: Arc<PrefixState>| read(&state.index).exports.find(&name.name).cloned();
        if let Some(snapshot) = self.0.known_prefix(name.prefix).and_then(find) {
            return snapshot.read(&part.range, self.0.passes(name.prefix));
        }
        let disk = self.0.disk().ok_or_else(missing)?;
        let from_disk = || {
            let mut bytes = vec![0; len as usize];
            File::open(disk.folder().path(&name))?.read_exact_at(&mut bytes, part.range.start)?;
            Ok(bytes.into())
        };
        from_disk().map_err(|e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => missing(),
            std::io::ErrorKind::UnexpectedEof => {
                Error::data(format!("the block {} ends before {:?}", part.name, part.range))
            }
            _ => e.into(),
        })
    }
}

//! What a process shows its peers: the blocks of rows on its disk, by range, under the names that a store's objects have.
//!
//! Invariants: nothing but blocks of the folder is read, whatever a peer asks for; an answer has a bound. What a peer does with it
//! is its own affair: it checks every row's sum.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};

use crate::PrefixKey;
use crate::shared::Shared;
use crate::store::{Object, Part, object_of, parse_name};

/// The most bytes of a block that are read at once.
pub const PART_BYTES_MAX: u64 = 8 << 20;

/// See the module's documentation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lent(Arc<Shared>);

impl Lent {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Says which folder it is: processes with one folder say the same, others do not. Empty where that cannot be known.
    pub fn place(&self) -> String {
        // Devices and inodes are numbers of one system, and of the time since it was started.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let folder = self.0.disk().and_then(|disk| std::fs::metadata(disk.folder().root()).ok());
        folder.map_or_else(String::new, |folder| format!("{}:{}:{}", boot.trim(), folder.dev(), folder.ino()))
    }

    /// Returns the blocks of a prefix, as [`Store::list`](crate::Store::list) does.
    pub fn blocks(&self, prefix: PrefixKey) -> Vec<Object> {
        let blocks = self.0.disk().map(|disk| disk.blocks(prefix)).unwrap_or_default().into_iter();
        let modified = SystemTime::UNIX_EPOCH;
        blocks.map(|block| Object { name: object_of(&block.name), bytes: block.len, modified }).collect()
    }

    /// Reads a part of a block. Waits for the disk.
    ///
    /// # Errors
    /// NotFound where there is no such block (any more); Data where it ends before the part; Invalid where the part is too long; or what the
    /// system says.
    pub fn read(&self, part: &Part) -> Result<Bytes> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no block {}", part.name));
        let (disk, name) = self.0.disk().zip(parse_name(&part.name)).ok_or_else(missing)?;
        let len = part.range.end.saturating_sub(part.range.start);
        if len > PART_BYTES_MAX {
            return Err(Error::invalid(format!("{len} bytes of a block; at most {PART_BYTES_MAX} are read at once")));
        }
        let read = || {
            let mut bytes = vec![0; len as usize];
            File::open(disk.folder().path(&name))?.read_exact_at(&mut bytes, part.range.start)?;
            Ok(bytes.into())
        };
        read().map_err(|e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => missing(),
            std::io::ErrorKind::UnexpectedEof => {
                Error::data(format!("the block {} ends before {:?}", part.name, part.range))
            }
            _ => e.into(),
        })
    }
}

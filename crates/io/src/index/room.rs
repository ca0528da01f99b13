//! Bounds the disk space of the kept tables: beyond a bound for each folder, the oldest are removed.
//!
//! A missing table is made again, so the bound costs only time. It also protects a dispatcher's own files, which lie on
//! the same disk. Each process that shares a folder keeps it within the bound.

use std::fs::{DirEntry, Metadata};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The most bytes of a folder's tables; on a smaller disk, a part of it.
const BYTES_MAX: u64 = 4 << 30;
const DISK_PART: u64 = 10;
/// The most tables of a folder.
const TABLES_MAX: usize = 1 << 18;
/// The part of the bound that is left after the oldest tables were removed.
const LEFT: (u64, u64) = (3, 4);
/// A process checks again after this many bytes, and after this many tables.
const LOOK_BYTES: u64 = 64 << 20;
const LOOK_TABLES: u64 = 4096;
/// The least size that a table counts for, as in file systems.
const BLOCK: u64 = 4096;

/// A use is recorded when the last record is at least this old.
const NOTED_AFTER: Duration = Duration::from_secs(600);

/// The bound of a folder.
#[derive(Debug, Clone, Copy)]
struct Bound {
    bytes: u64,
    tables: usize,
}

/// Records that a table of `bytes` bytes was kept, and from time to time removes the oldest tables of the folder.
pub(super) fn kept(folder: &Path, bytes: u64) {
    // The bytes that this process has kept since its last check: it checks once at the beginning.
    static SINCE: AtomicU64 = AtomicU64::new(LOOK_BYTES);
    let counted = bytes.max(LOOK_BYTES / LOOK_TABLES);
    if SINCE.fetch_add(counted, Relaxed) + counted < LOOK_BYTES {
        return;
    }
    SINCE.store(0, Relaxed);
    let size = rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    shrink(folder, Bound { bytes: BYTES_MAX.min(size / DISK_PART), tables: TABLES_MAX });
}

/// Removes the oldest tables of a folder that exceeds its bound.
fn shrink(folder: &Path, bound: Bound) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut tables: Vec<_> = entries.flatten().filter_map(|entry| table(&entry)).collect();
    let mut bytes: u64 = tables.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= bound.bytes && tables.len() <= bound.tables {
        return;
    }
    tables.sort_by_key(|(used, ..)| *used);
    let mut left = tables.len();
    for (_, size, path) in tables {
        if bytes <= bound.bytes / LEFT.1 * LEFT.0 && left <= bound.tables / LEFT.1 as usize * LEFT.0 as usize {
            break;
        }
        // Another process may have removed it.
        let _ = std::fs::remove_file(path);
        (bytes, left) = (bytes - size, left - 1);
    }
}

/// Returns when a table was last used, its size, and its path. Tables that a dead process left incomplete count, too.
fn table(entry: &DirEntry) -> Option<(SystemTime, u64, PathBuf)> {
    let found: Metadata = entry.metadata().ok().filter(Metadata::is_file)?;
    Some((found.modified().ok()?, found.len().max(BLOCK), entry.path()))
}

/// Records that a table is in use, so that unused ones are removed first.
pub(super) fn used(path: &Path) {
    let changed = std::fs::metadata(path).and_then(|found| found.modified());
    if changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age < NOTED_AFTER)) {
        return;
    }
    // A read-only folder stays as it is.
    if let Ok(file) = std::fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_that_were_not_used_for_longest_go_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |n: u64| folder.path().join(format!("{n}.table"));
        let begin = SystemTime::now() - Duration::from_secs(2000);
        for n in 0..100 {
            std::fs::write(path(n), vec![0; 10_000]).expect("written");
            let file = std::fs::File::options().append(true).open(path(n)).expect("there");
            file.set_modified(begin + Duration::from_secs(n)).expect("set");
        }
        used(&path(3));
        let left = || (0..100).filter(|&n| path(n).exists()).collect::<Vec<_>>();
        shrink(folder.path(), Bound { bytes: 1_000_000, tables: 100 });
        assert_eq!(left().len(), 100, "within the bound");
        shrink(folder.path(), Bound { bytes: 400_000, tables: 100 });
        assert_eq!(left(), [vec![3], (71..100).collect()].concat());
        shrink(folder.path(), Bound { bytes: 400_000, tables: 8 });
        assert_eq!(left(), [3, 95, 96, 97, 98, 99]);
    }
}

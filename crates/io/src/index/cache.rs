//! Tables kept on disk between jobs, one small file each.
//!
//! [`super::room`] bounds how many are kept. Invariants: an entry is used only when it is whole (checksum) and of the
//! same uri, format and identity; with any fault of the cache, indexing continues without it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::Modes;

use super::codec::{Decoder, Encoder};
use super::room;
use super::table::{Counted, Table};
use crate::store::Stat;
use crate::store::decoded::Points;

const MAGIC: [u8; 4] = *b"FBTB";
const VERSION: u8 = 3;

fn entry(folder: &Path, uri: &str, format: &str) -> PathBuf {
    let mut hash = blake3::Hasher::new();
    hash.update(format.as_bytes()).update(&[0]).update(uri.as_bytes());
    folder.join(format!("{}.table", hash.finalize().to_hex()))
}

/// Returns the cached table of a file, if the file is still the same.
pub(crate) fn load(folder: &Path, uri: &str, format: &str, stat: &Stat) -> Option<Counted> {
    let path = entry(folder, uri, format);
    let bytes = std::fs::read(&path).ok()?;
    let mut from = Decoder::open(&bytes, MAGIC, VERSION..=VERSION).ok()?;
    let same = from.text().ok()? == uri && from.text().ok()? == format && from.stat().ok()? == *stat;
    let table = same.then(|| Table::decode(&mut from).ok()).flatten()?;
    let points = Points::decode(&mut from, stat.size).ok()?.map(Arc::new);
    room::used(&path);
    Some(Counted { table, points })
}

/// Stores a table. A full or read-only disk only means that the next job reads the file again.
pub(crate) fn keep(folder: &Path, uri: &str, format: &str, stat: &Stat, counted: &Counted) {
    static UNIQUE: AtomicU64 = AtomicU64::new(0);
    let mut to = Encoder::new(MAGIC, VERSION);
    to.text(uri);
    to.text(format);
    to.stat(stat);
    counted.table.encode(&mut to);
    Points::encode(counted.points.as_deref(), &mut to);
    let path = entry(folder, uri, format);
    let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{unique}.tmp", std::process::id()));
    let sealed = to.seal();
    let write = || {
        // The entry gets the access modes of the cache's folder.
        let modes = Modes::of(folder.parent().unwrap_or(folder))?;
        modes.folder(folder)?;
        modes.file(&temporary)?.write_all(&sealed)?;
        std::fs::rename(&temporary, &path)
    };
    match write() {
        Ok(()) => room::kept(folder, sealed.len() as u64),
        Err(_) => drop(std::fs::remove_file(&temporary)),
    }
}

//! A file of pages: a table of its pages, and then the pages, which the process that made the file appends.
//!
//! ```text
//!      0   4 KiB   magic, the length that the file was made with, the source's key, its description; their sum
//!   4096   60 KiB  1280 slots of 48 bytes: file key, page, offset, length, sum of the page's sums; the slot's own sum
//!  65536           pages, each with its sums (`checksums`)
//! ```
//!
//! A change of this layout, or of the length of a page, requires another magic word. Numbers are little-endian. A page
//! exists once its slot does, which is written last; so a process that reads the table later finds new pages while the
//! file grows. A complete file is truncated to its content, which is less than its first length.
//!
//! Invariants: reading arbitrary bytes neither panics nor takes more memory than a page may have. A page that was read
//! has the bytes, the number and the file that it was written with.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::key::{FileKey, PrefixKey};
use crate::pages::checksums::{StoredPage, stored_bytes, sums};
use crate::pages::page::PageKey;
use crate::tiers::block::read_at::Trouble;

const MAGIC: [u8; 8] = *b"FBPAGES2";
/// The bytes before the slots.
const PREAMBLE: usize = 4096;
const SLOT: usize = 48;
/// The number of slots.
const SLOTS: usize = (HEAD - PREAMBLE) / SLOT;
/// The offset of the first page.
pub(super) const HEAD: usize = 64 << 10;
/// The most bytes of the description of a source.
const WHAT_MAX: usize = 2000;
/// The longest page.
pub(super) const PAGE_MAX: usize = 8 << 20;

/// The offset, length and sum of a page in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageSlot {
    pub(super) slot: u32,
    at: u32,
    pub(super) len: u32,
    sum: u64,
}

/// The header of a file of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) source: PrefixKey,
    pub(crate) what: String,
    /// The length of the file when it was created.
    room: u64,
}

/// The content of the slots of a file, from a slot on.
#[derive(Debug, Default)]
pub(crate) struct SlotList {
    pub(super) pages: Vec<(PageKey, PageSlot)>,
    /// The first slot that may be filled later.
    pub(super) next: u32,
    /// Where the pages end.
    end: u64,
    /// Slots with a wrong sum.
    pub(super) broken: Vec<u32>,
}

impl FileHeader {
    /// Returns the beginning of a new file.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; PREAMBLE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.room.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.source.0);
        let end = (0..=self.what.len().min(WHAT_MAX)).rev().find(|&at| self.what.is_char_boundary(at)).unwrap_or(0);
        bytes[48..50].copy_from_slice(&(end as u16).to_le_bytes());
        bytes[50..50 + end].copy_from_slice(&self.what.as_bytes()[..end]);
        let sum = xxh3_64(&bytes[..PREAMBLE - 8]);
        bytes[PREAMBLE - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; PREAMBLE]) -> Result<Self, Trouble> {
        if bytes[..7] == MAGIC[..7] && bytes[7] != MAGIC[7] {
            return Err(Trouble::OtherFormat(char::from(bytes[7]).to_string()));
        }
        if bytes[..8] != MAGIC || word(bytes, PREAMBLE - 8) != xxh3_64(&bytes[..PREAMBLE - 8]) {
            return Err(Trouble::Broken("it does not begin as a file of pages does".to_owned()));
        }
        let mut source = [0; 32];
        source.copy_from_slice(&bytes[16..48]);
        let len = usize::from(u16::from_le_bytes([bytes[48], bytes[49]])).min(WHAT_MAX);
        let what = String::from_utf8_lossy(&bytes[50..50 + len]).into_owned();
        Ok(Self { source: PrefixKey(source), what, room: word(bytes, 8) })
    }

    /// Reads the header of a file.
    pub(crate) fn read(file: &File) -> Result<Self, Trouble> {
        let mut bytes = [0; PREAMBLE];
        file.read_exact_at(&mut bytes, 0)?;
        Self::decode(&bytes)
    }

    /// Says whether pages may still be added to a file.
    pub(super) fn is_growing(&self, file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.len() == self.room)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(half)
}

fn encode_slot(key: &PageKey, entry: &PageSlot) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..16].copy_from_slice(&key.file.0);
    slot[16..24].copy_from_slice(&key.page.to_le_bytes());
    slot[24..28].copy_from_slice(&entry.at.to_le_bytes());
    slot[28..32].copy_from_slice(&entry.len.to_le_bytes());
    slot[32..40].copy_from_slice(&entry.sum.to_le_bytes());
    let check = xxh3_64(&slot[..40]);
    slot[40..].copy_from_slice(&check.to_le_bytes());
    slot
}

fn decode_slot(slot: &[u8], number: u32) -> Option<(PageKey, PageSlot)> {
    if word(slot, 40) != xxh3_64(&slot[..40]) {
        return None;
    }
    let mut file = [0; 16];
    file.copy_from_slice(&slot[..16]);
    let entry = PageSlot { slot: number, at: half(slot, 24), len: half(slot, 28), sum: word(slot, 32) };
    let fits = entry.at as usize >= HEAD && entry.len as usize <= PAGE_MAX;
    fits.then_some((PageKey { file: FileKey(file), page: word(slot, 16) }, entry))
}

/// Reads the slots of a file, from slot `first` on.
pub(super) fn list(file: &File, first: u32) -> io::Result<SlotList> {
    let mut listed = SlotList { next: first, end: HEAD as u64, ..SlotList::default() };
    let skipped = PREAMBLE + first as usize * SLOT;
    if skipped >= HEAD {
        return Ok(listed);
    }
    let mut bytes = vec![0; HEAD - skipped];
    file.read_exact_at(&mut bytes, skipped as u64)?;
    for (number, slot) in (first..).zip(bytes.chunks_exact(SLOT)) {
        if slot.iter().all(|byte| *byte == 0) {
            break;
        }
        match decode_slot(slot, number) {
            Some((key, entry)) => {
                listed.end = listed.end.max(u64::from(entry.at) + stored_bytes(entry.len as usize) as u64);
                // A page of no bytes was withdrawn.
                listed.pages.extend((entry.len > 0).then_some((key, entry)));
                listed.next = number + 1;
            }
            // The last slot may be half written: it is read again.
            None => listed.broken.push(number),
        }
    }
    Ok(listed)
}

/// Fills `to` with the bytes of a page from `start` on, and checks their sums.
pub(super) fn read(file: &File, key: &PageKey, entry: &PageSlot, start: usize, to: &mut [u8]) -> Result<(), Trouble> {
    StoredPage { file, at: u64::from(entry.at), len: entry.len as usize }.read(key, entry.sum, start, to)
}

/// Withdraws the pages in some slots of a file, so that no process finds them again. A folder that cannot be written to
/// stays as it is.
pub(super) fn withdraw(path: &Path, slots: &[u32]) {
    let nothing = PageKey { file: FileKey([0; 16]), page: 0 };
    let slot = encode_slot(&nothing, &PageSlot { slot: 0, at: HEAD as u32, len: 0, sum: 0 });
    let Ok(file) = File::options().read(true).write(true).open(path) else { return };
    // A file that was truncated further must not grow again.
    if file.metadata().is_ok_and(|metadata| metadata.len() >= HEAD as u64) {
        let at = |slot: &u32| (PREAMBLE + *slot as usize * SLOT) as u64;
        slots.iter().for_each(|number| _ = file.write_all_at(&slot, at(number)));
    }
}

/// Returns how many pages are in a file.
pub(crate) fn count(file: &File) -> Result<u64, Trouble> {
    Ok(list(file, 0)?.pages.len() as u64)
}

/// Reads every page of a file and checks it; returns how many there are.
pub(crate) fn check(file: &File) -> Result<u64, Trouble> {
    let listed = list(file, 0)?;
    if !listed.broken.is_empty() {
        return Err(Trouble::Broken("its record of a page differs from the written one".to_owned()));
    }
    let mut bytes = Vec::new();
    for (key, entry) in &listed.pages {
        bytes.resize(entry.len as usize, 0);
        read(file, key, entry, 0, &mut bytes)?;
    }
    Ok(listed.pages.len() as u64)
}

/// Returns the end of the pages of a file that was not truncated to them, or 0 without pages; `None` for a truncated
/// file.
pub(crate) fn unused_from(file: &File) -> Result<Option<u64>, Trouble> {
    if !FileHeader::read(file)?.is_growing(file)? {
        return Ok(None);
    }
    let listed = list(file, 0)?;
    Ok(Some(if listed.next == 0 { 0 } else { listed.end }))
}

/// A file to which this process appends pages.
#[derive(Debug)]
pub(super) struct GrowingFile {
    file: File,
    room: u64,
    end: u64,
    slots: u32,
}

impl GrowingFile {
    /// Returns the header of a new file.
    pub(super) fn header(source: PrefixKey, what: &str, room: u64) -> Vec<u8> {
        FileHeader { source, what: what.to_owned(), room }.encode()
    }

    /// Takes over a file of `room` bytes that begins with [`GrowingFile::header`].
    pub(super) fn new(file: File, room: u64) -> Self {
        Self { file, room, end: HEAD as u64, slots: 0 }
    }

    /// Says whether there is room for a page, and the file still exists.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        // A file that is exactly full would look as if it still grew.
        let fits = (self.slots as usize) < SLOTS && self.end + (stored_bytes(bytes) as u64) < self.room;
        fits && rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// Returns the bytes that it still accepts: pages, and their sums.
    pub(super) fn room_left(&self) -> u64 {
        if (self.slots as usize) < SLOTS { self.room.saturating_sub(self.end + 1) } else { 0 }
    }

    /// Adds a page.
    pub(super) fn add(&mut self, key: &PageKey, bytes: &[u8]) -> io::Result<PageSlot> {
        let (sums, sum) = sums(key, bytes);
        let entry = PageSlot { slot: self.slots, at: self.end as u32, len: bytes.len() as u32, sum };
        self.file.write_all_at(bytes, self.end)?;
        self.file.write_all_at(&sums, self.end + bytes.len() as u64)?;
        let slot = encode_slot(key, &entry);
        self.file.write_all_at(&slot, (PREAMBLE + self.slots as usize * SLOT) as u64)?;
        self.end += stored_bytes(bytes.len()) as u64;
        self.slots += 1;
        Ok(entry)
    }

    /// Truncates the file to its content; returns its length.
    pub(super) fn complete(self) -> io::Result<u64> {
        self.file.set_len(self.end)?;
        Ok(self.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOM: u64 = 1 << 20;

    fn key(page: u64) -> PageKey {
        PageKey { file: FileKey([7; 16]), page }
    }

    fn written(pages: &[Vec<u8>]) -> (tempfile::NamedTempFile, File, GrowingFile) {
        let named = tempfile::NamedTempFile::new().expect("a file");
        let file = named.reopen().expect("a handle");
        file.write_all_at(&GrowingFile::header(PrefixKey([3; 32]), "s3://bücket/", ROOM), 0).expect("written");
        file.set_len(ROOM).expect("long");
        let mut growing = GrowingFile::new(file.try_clone().expect("a handle"), ROOM);
        for (page, bytes) in (0..).zip(pages) {
            assert!(growing.takes(bytes.len()));
            growing.add(&key(page), bytes).expect("added");
        }
        (named, file, growing)
    }

    fn whole(file: &File, key: &PageKey, entry: &PageSlot) -> Result<Vec<u8>, Trouble> {
        let mut bytes = vec![0; entry.len as usize];
        read(file, key, entry, 0, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn what_is_added_is_listed_by_those_who_look_later_and_cut_to_its_length() {
        let pages: Vec<Vec<u8>> = (0..40).map(|n| vec![n as u8; 1 + 700 * n]).collect();
        let (named, file, mut growing) = written(&pages[..30]);
        let header = FileHeader::read(&file).expect("a head");
        assert_eq!((header.what.as_str(), header.is_growing(&file).expect("a size")), ("s3://bücket/", true));
        let first = list(&file, 0).expect("listed");
        (30..40).for_each(|n| _ = growing.add(&key(n as u64), &pages[n]).expect("added"));
        let later = list(&file, first.next).expect("listed");
        assert_eq!((first.pages.len(), later.pages.len(), later.next), (30, 10, 40));
        for (key, entry) in first.pages.iter().chain(&later.pages) {
            assert_eq!(whole(&file, key, entry).expect("right"), pages[key.page as usize]);
            let other = PageKey { page: key.page + 1, ..*key };
            assert!(matches!(whole(&file, &other, entry), Err(Trouble::Broken(_))), "another page's bytes");
        }
        withdraw(named.path(), &[first.pages[5].1.slot]);
        assert!(list(&file, 0).expect("listed").pages.iter().all(|(k, _)| *k != key(5)));
        let end = unused_from(&file).expect("a head");
        assert_eq!(growing.complete().ok(), end);
        assert_eq!((unused_from(&file).ok(), header.is_growing(&file).ok()), (Some(None), Some(false)));
        assert_eq!(list(&file, 0).expect("listed").pages.len(), 39);
        assert_eq!(unused_from(&written(&[]).1).ok(), Some(Some(0)), "nothing is in it");
    }

    #[test]
    fn a_file_takes_no_more_than_it_has_slots_and_room_for() {
        let (_named, file, mut growing) = written(&[]);
        assert!(!growing.takes(ROOM as usize - HEAD));
        (0..SLOTS as u64).for_each(|n| {
            assert!(growing.takes(1));
            growing.add(&key(n), &[1]).expect("added");
        });
        assert!(!growing.takes(1));
        let listed = list(&file, 0).expect("listed");
        assert_eq!((listed.pages.len(), listed.broken.len()), (SLOTS, 0));
        assert_eq!(list(&file, listed.next).expect("listed").pages.len(), 0);
    }

    proptest! {
        #[test]
        fn any_damage_is_noticed(
            damage in prop::collection::vec((0..ROOM as usize / 8, 1u8..), 1..40), cut in 0..ROOM,
        ) {
            let pages: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; 4096]).collect();
            let (_named, file, _growing) = written(&pages);
            for (at, flip) in damage {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at as u64).expect("there");
                file.write_all_at(&[byte[0] ^ flip], at as u64).expect("there");
            }
            file.set_len(cut.max(ROOM / 16)).expect("cut");
            let _ = FileHeader::read(&file);
            for (key, entry) in list(&file, 0).map(|l| l.pages).unwrap_or_default() {
                if let Ok(bytes) = whole(&file, &key, &entry) {
                    prop_assert_eq!(&bytes, &pages[key.page as usize]);
                }
            }
        }
    }
}

//! A range of a file: the pages on disk, the pages that others fetch, the pages that must be fetched, and the wait for
//! them.
//!
//! A request begins all fetches that it needs, up to [`AHEAD_PAGES_MAX`] pages of the process, so that several requests
//! of a caller before its wait are fetched in parallel. Invariant: a caller that waits for a page holds nothing that
//! others wait for.

#![expect(clippy::disallowed_methods, reason = "pages of another process are looked for within a bound")]

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_core::{Error, Result};

use crate::lock::{deadline, left, lock};
use crate::pages::checksums::stored_bytes;
use crate::pages::claim::{Claimed, PageClaim};
use crate::pages::fetch::{ExpectedPage, PendingFetch, UncachedFetch};
use crate::pages::format::{PageSlot, read, withdraw};
use crate::pages::in_flight::{InFlight, Outcome};
use crate::pages::index::PageFile;
use crate::pages::page::{PAGE_BYTES, PageKey};
use crate::pages::state::PageCacheState;
use crate::pages::writer::file_bytes;
use crate::pages::{AHEAD_PAGES_MAX, PagedFile, RUN_BYTES_MAX, WAIT_MAX, WAIT_STEP};
use crate::state::CacheState;
use crate::stats::add;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::disk::tier::DiskTier;

/// A requested range. When it is dropped, pages in flight are still kept.
#[derive(Debug)]
pub struct Request {
    file: PagedFile,
    parts: Vec<Part>,
}

/// A part of a range.
#[derive(Debug)]
enum Part {
    /// Some bytes of a page, and its fetch, if one has begun.
    Page { page: u64, within: Range<usize>, in_flight: Option<Arc<InFlight>> },
    /// Bytes that are not kept.
    UncachedFetch { bytes: usize, in_flight: Arc<InFlight> },
}

impl PagedFile {
    /// Requests a range, and begins to fetch the pages that are not here. A range beyond the file is empty.
    pub fn request(&self, range: Range<u64>) -> Request {
        let range = range.start.min(self.size)..range.end.min(self.size);
        if range.is_empty() {
            return Request { file: self.clone(), parts: Vec::new() };
        }
        self.note(range.end - range.start);
        let missing = self.missing(&range);
        let unrequested = self.not_under_way(&missing);
        let mut parts = Vec::new();
        if unrequested.is_empty() || self.are_worth_keeping(&unrequested) {
            let mut in_flight = self.start(&missing, false).into_iter().peekable();
            for page in pages(&range) {
                let in_flight = in_flight.next_if(|(of, _)| *of == page).and_then(|(_, in_flight)| in_flight);
                parts.push(Part::Page { page, within: within(&range, page), in_flight });
            }
        } else {
            let mut rest = pages(&range).peekable();
            while let Some(first) = rest.next() {
                if unrequested.binary_search(&first).is_err() {
                    parts.push(Part::Page { page: first, within: within(&range, first), in_flight: None });
                    continue;
                }
                let mut last = first;
                while rest.next_if(|page| unrequested.binary_search(page).is_ok()).is_some() {
                    last += 1;
                }
                let run = range.start.max(first * PAGE_BYTES)..range.end.min((last + 1) * PAGE_BYTES);
                let bytes = (run.end - run.start) as usize;
                parts.push(Part::UncachedFetch { bytes, in_flight: self.alone(run) });
            }
        }
        Request { file: self.clone(), parts }
    }

    /// Says whether all pages of a range are on disk, as far as this process knows. It does not look into the folder.
    pub fn holds(&self, range: Range<u64>) -> bool {
        let range = range.start.min(self.size)..range.end.min(self.size);
        range.is_empty() || pages(&range).all(|page| self.page_state().index.find(&self.key(page)).is_some())
    }

    fn cache(&self) -> &Arc<CacheState> {
        &self.source.cache
    }

    fn page_state(&self) -> &PageCacheState {
        self.source.cache.pages()
    }

    fn key(&self, page: u64) -> PageKey {
        PageKey { file: self.key, page }
    }

    fn page_len(&self, page: u64) -> usize {
        (self.size - page * PAGE_BYTES).min(PAGE_BYTES) as usize
    }

    /// Counts the requested bytes.
    fn note(&self, bytes: u64) {
        let state = &self.source.state;
        add(&state.counters.asked, bytes as usize);
        let of = state.bytes.load(Ordering::Relaxed);
        if of > 0 {
            self.cache().asked(state.key, bytes, of);
        }
    }

    /// Returns the pages of a range that are not on disk, ascending.
    fn missing(&self, range: &Range<u64>) -> Vec<u64> {
        let is_missing = |page: &u64| self.page_state().index.find(&self.key(*page)).is_none();
        let missing: Vec<u64> = pages(range).filter(is_missing).collect();
        if missing.is_empty() {
            return missing;
        }
        self.look_around();
        missing.into_iter().filter(is_missing).collect()
    }

    /// Returns the pages among `pages` that this process is not fetching.
    fn not_under_way(&self, pages: &[u64]) -> Vec<u64> {
        if pages.is_empty() {
            return Vec::new();
        }
        let in_flight = lock(&self.page_state().in_flight);
        pages.iter().copied().filter(|page| !in_flight.contains_key(&self.key(*page))).collect()
    }

    fn look_around(&self) {
        if let Some(disk) = self.cache().disk() {
            self.page_state().index.look_around(self.cache(), disk);
        }
    }

    /// Says whether pages would be kept. If not, only the requested range is fetched.
    fn are_worth_keeping(&self, missing: &[u64]) -> bool {
        let bytes = missing.iter().map(|page| stored_bytes(self.page_len(*page)) as u64).sum();
        let (state, uses) = (&self.source.state, self.cache().uses());
        let has_begun = bytes <= state.room_left.load(Ordering::Relaxed);
        let wants = |disk: &DiskTier| has_begun || disk.wants(state.key, file_bytes(disk), uses);
        self.page_state().queue.has_room(bytes)
            && self.cache().memory().has_index_room()
            && self.cache().disk().is_some_and(wants)
    }

    /// Begins to fetch the pages among `pages`, ascending, that are not in flight. Returns the fetch of each; `None`
    /// where too many pages are in flight and the caller does not need it now (`must`).
    fn start(&self, pages: &[u64], must: bool) -> Vec<(u64, Option<Arc<InFlight>>)> {
        let (mut held, mut new) = (Vec::with_capacity(pages.len()), Vec::new());
        {
            let mut all = lock(&self.page_state().in_flight);
            for &page in pages {
                let key = self.key(page);
                let mut in_flight = all.get(&key).cloned();
                if in_flight.is_none() && (must || all.len() < AHEAD_PAGES_MAX) {
                    let own = Arc::<InFlight>::default();
                    all.insert(key, own.clone());
                    new.push((page, own.clone()));
                    in_flight = Some(own);
                }
                held.push((page, in_flight));
            }
        }
        self.fetch(self.claim(new));
        held
    }

    /// Returns the new pages that no other process fetches, and that are not on disk by now; completes the others.
    fn claim(&self, new: Vec<(u64, Arc<InFlight>)>) -> Vec<(u64, ExpectedPage)> {
        if new.is_empty() {
            return Vec::new();
        }
        let again = |key: &PageKey, in_flight: &InFlight| {
            self.page_state().remove_in_flight(key);
            in_flight.complete(Outcome::LookAgain);
        };
        let folder = self.cache().disk().map(|disk| (disk.folder().claims(), disk.folder().modes()));
        let mut ours = Vec::with_capacity(new.len());
        for (page, in_flight) in new {
            let key = self.key(page);
            match folder.as_ref().map_or(Claimed::Ours(None), |(folder, modes)| PageClaim::take(folder, *modes, &key)) {
                Claimed::Theirs => again(&key, &in_flight),
                Claimed::Ours(claim) => {
                    ours.push((page, ExpectedPage { key, len: self.page_len(page), in_flight, claim }))
                }
            }
        }
        // The last owner of a claim may have written its page.
        self.look_around();
        ours.retain(|(_, expected)| {
            let is_missing = self.page_state().index.find(&expected.key).is_none();
            if !is_missing {
                again(&expected.key, &expected.in_flight);
            }
            is_missing
        });
        ours
    }

    /// Fetches pages, consecutive ones together.
    fn fetch(&self, pages: Vec<(u64, ExpectedPage)>) {
        let mut run: Vec<ExpectedPage> = Vec::new();
        let mut range = 0..0;
        for (page, expected) in pages {
            let (start, len) = (page * PAGE_BYTES, expected.len as u64);
            if start != range.end || start + len - range.start > RUN_BYTES_MAX {
                self.fetch_run(std::mem::take(&mut run), range);
                range = start..start;
            }
            range.end = start + len;
            run.push(expected);
        }
        self.fetch_run(run, range);
    }

    fn fetch_run(&self, run: Vec<ExpectedPage>, range: Range<u64>) {
        if !run.is_empty() {
            let pending = PendingFetch::new(self.cache(), &self.source.state, run);
            (self.fetch)(range, Box::new(move |bytes| pending.done(bytes)));
        }
    }

    /// Fetches a range that is not kept.
    fn alone(&self, range: Range<u64>) -> Arc<InFlight> {
        let in_flight = Arc::<InFlight>::default();
        let alone = UncachedFetch { state: self.source.state.clone(), in_flight: in_flight.clone() };
        (self.fetch)(range, Box::new(move |bytes| alone.done(bytes)));
        in_flight
    }

    /// Waits for a page, from disk or from the store, and fills `to` with its bytes from `start` on.
    fn page(&self, page: u64, start: usize, to: &mut [u8], mut in_flight: Option<Arc<InFlight>>) -> Result<()> {
        let until = deadline(WAIT_MAX);
        loop {
            let mut is_elsewhere = false;
            if let Some(in_flight) = in_flight.take() {
                match in_flight.wait(until) {
                    Some(Outcome::Page(bytes)) => return put(&bytes[start..], to),
                    Some(Outcome::Failed(e)) => return Err(e),
                    Some(Outcome::LookAgain) => is_elsewhere = true,
                    None => break,
                }
            }
            if self.find(page, start, to) {
                add(&self.source.state.counters.from_disk, to.len());
                return Ok(());
            }
            if left(until).is_zero() {
                break;
            }
            if is_elsewhere {
                std::thread::sleep(WAIT_STEP);
            }
            in_flight = self.start(&[page], true).pop().and_then(|(_, in_flight)| in_flight);
        }
        let from = page * PAGE_BYTES + start as u64;
        outcome(&self.alone(from..from + to.len() as u64), to)
    }

    /// Fills `to` from a page on disk, if the page is there and its sum is right.
    fn find(&self, page: u64, start: usize, to: &mut [u8]) -> bool {
        let key = self.key(page);
        let Some((file, slot)) = self.page_state().index.find(&key) else { return false };
        file.last_hit.set(self.cache().passes(file.block.prefix));
        let read = match File::open(&file.path) {
            Ok(_) if slot.len as usize != self.page_len(page) => {
                Err(Trouble::Broken("a page's length is wrong".to_owned()))
            }
            Ok(file) => read(&file, &key, &slot, start, to),
            Err(e) => Err(e.into()),
        };
        read.map_err(|trouble| self.drop_page(&key, &file, &slot, trouble)).is_ok()
    }

    /// Forgets a page that cannot be read. It is fetched, once, unless a later read may succeed.
    fn drop_page(&self, key: &PageKey, file: &PageFile, slot: &PageSlot, trouble: Trouble) {
        self.page_state().index.forget(key, file);
        match trouble {
            Trouble::Gone => {
                self.cache().forget_blocks(&[file.block]);
                self.cache().disk().into_iter().for_each(|disk| disk.drop_block(file.block, &Trouble::Gone));
            }
            Trouble::Later(_) | Trouble::OtherFormat(_) => {}
            Trouble::Broken(why) => {
                add(&self.source.state.counters.corrupt, 1);
                tracing::warn!(file = %file.path.display(), why, "a broken page of a remote file is fetched again");
                withdraw(&file.path, &[slot.slot]);
            }
        }
    }
}

impl Request {
    /// Returns the number of requested bytes that the file has.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Waits for the bytes, and puts them into `to`. Pages on disk are read into their place.
    ///
    /// # Errors
    /// The error of a fetch; Internal where `to` has another length than the request. Then the content of `to` is
    /// undefined.
    pub fn fill(self, mut to: &mut [u8]) -> Result<()> {
        let asked = self.bytes();
        if asked != to.len() {
            return Err(Error::internal(format!("{asked} bytes do not fill a place for {}", to.len())));
        }
        for part in self.parts {
            let (place, rest) = to.split_at_mut(part.bytes());
            match part {
                Part::Page { page, within, in_flight } => self.file.page(page, within.start, place, in_flight)?,
                Part::UncachedFetch { in_flight, .. } => outcome(&in_flight, place)?,
            }
            to = rest;
        }
        Ok(())
    }
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Page { within, .. } => within.len(),
            Self::UncachedFetch { bytes, .. } => *bytes,
        }
    }
}

/// Waits for a range that is not kept, until its read ends.
fn outcome(in_flight: &InFlight, to: &mut [u8]) -> Result<()> {
    loop {
        match in_flight.wait(deadline(WAIT_MAX)) {
            Some(Outcome::Page(bytes)) => return put(&bytes, to),
            Some(Outcome::Failed(e)) => return Err(e),
            Some(Outcome::LookAgain) => return Err(Error::internal("a range that is not kept is nowhere else")),
            None => {}
        }
    }
}

/// Fills `to` with the first of `bytes`.
fn put(bytes: &[u8], to: &mut [u8]) -> Result<()> {
    let short = || Error::internal(format!("{} bytes came where {} were asked for", bytes.len(), to.len()));
    to.copy_from_slice(bytes.get(..to.len()).ok_or_else(short)?);
    Ok(())
}

/// Returns the pages of a range that is not empty.
fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}

/// Returns the bytes of a page that are in a range.
fn within(range: &Range<u64>, page: u64) -> Range<usize> {
    let start = page * PAGE_BYTES;
    let (from, to) = (range.start.max(start), range.end.min(start + PAGE_BYTES));
    (from - start) as usize..(to - start) as usize
}

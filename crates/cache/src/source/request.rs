//! A range of a file: what of it is on disk, what others are at, what has to be fetched; and then waiting for it.
//!
//! Asking begins all that has to be fetched, up to [`AHEAD_PAGES_MAX`] pages of the process, so that whoever asks for several
//! ranges before it waits has them fetched at once. Invariant: whoever waits for a page holds nothing that others wait for.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use forebay_core::{Error, Result};

use super::blocks::stored_bytes;
use super::claim::{Claim, Claimed};
use super::flight::{Flight, Landed};
use super::landing::{Alone, Expected, Landing};
use super::pages::Segment;
use super::segment::{Spot, read, withdraw};
use super::writer::file_bytes;
use super::{AHEAD_PAGES_MAX, PAGE_BYTES, PageKey, RUN_BYTES_MAX, SourceFile, Sources, WAIT_MAX, WAIT_STEP};
use crate::disk::{Tier, Trouble};
use crate::lock::{deadline, lock};
use crate::shared::Shared;
use crate::stats::add;

/// A range that was asked for. Dropped, what is on its way is kept all the same.
#[derive(Debug)]
pub struct Request {
    file: SourceFile,
    parts: Vec<Part>,
}

/// A part of a range.
#[derive(Debug)]
enum Part {
    /// Some bytes of a page, and who brings that, if anybody does yet.
    Page { page: u64, within: Range<usize>, flight: Option<Arc<Flight>> },
    /// Bytes that are not kept.
    Alone { bytes: usize, flight: Arc<Flight> },
}

impl SourceFile {
    /// Asks for a range, and begins to fetch what is not here. One that the file does not have is empty.
    pub fn request(&self, range: Range<u64>) -> Request {
        let range = range.start.min(self.size)..range.end.min(self.size);
        if range.is_empty() {
            return Request { file: self.clone(), parts: Vec::new() };
        }
        self.note(range.end - range.start);
        let missing = self.missing(&range);
        let nobodys = self.not_under_way(&missing);
        let mut parts = Vec::new();
        if nobodys.is_empty() || self.are_worth_keeping(&nobodys) {
            let mut flights = self.start(&missing, false).into_iter().peekable();
            for page in pages(&range) {
                let flight = flights.next_if(|(of, _)| *of == page).and_then(|(_, flight)| flight);
                parts.push(Part::Page { page, within: within(&range, page), flight });
            }
        } else {
            let mut rest = pages(&range).peekable();
            while let Some(first) = rest.next() {
                if nobodys.binary_search(&first).is_err() {
                    parts.push(Part::Page { page: first, within: within(&range, first), flight: None });
                    continue;
                }
                let mut last = first;
                while rest.next_if(|page| nobodys.binary_search(page).is_ok()).is_some() {
                    last += 1;
                }
                let run = range.start.max(first * PAGE_BYTES)..range.end.min((last + 1) * PAGE_BYTES);
                let bytes = (run.end - run.start) as usize;
                parts.push(Part::Alone { bytes, flight: self.alone(run) });
            }
        }
        Request { file: self.clone(), parts }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.source.shared
    }

    fn sources(&self) -> &Sources {
        self.source.shared.sources()
    }

    fn key(&self, page: u64) -> PageKey {
        PageKey { file: self.key, page }
    }

    fn page_len(&self, page: u64) -> usize {
        (self.size - page * PAGE_BYTES).min(PAGE_BYTES) as usize
    }

    /// Counts what was asked for.
    fn note(&self, bytes: u64) {
        let cell = &self.source.cell;
        add(&cell.counters.asked, bytes as usize);
        let of = cell.bytes.load(Ordering::Relaxed);
        if of > 0 {
            self.shared().asked(cell.key, bytes, of);
        }
    }

    /// Returns the pages of a range that are nowhere here, ascending.
    fn missing(&self, range: &Range<u64>) -> Vec<u64> {
        let is_missing = |page: &u64| self.sources().pages.find(&self.key(*page)).is_none();
        let missing: Vec<u64> = pages(range).filter(is_missing).collect();
        if missing.is_empty() {
            return missing;
        }
        self.look_around();
        missing.into_iter().filter(is_missing).collect()
    }

    /// Returns those of `pages` that nobody here is at.
    fn not_under_way(&self, pages: &[u64]) -> Vec<u64> {
        if pages.is_empty() {
            return Vec::new();
        }
        let flights = lock(&self.sources().flights);
        pages.iter().copied().filter(|page| !flights.contains_key(&self.key(*page))).collect()
    }

    fn look_around(&self) {
        if let Some(tier) = self.shared().disk() {
            self.sources().pages.look_around(self.shared(), tier);
        }
    }

    /// Says whether pages would stay. Where they would not, nobody is to fetch more than is asked for.
    fn are_worth_keeping(&self, missing: &[u64]) -> bool {
        let bytes = missing.iter().map(|page| stored_bytes(self.page_len(*page)) as u64).sum();
        let (cell, uses) = (&self.source.cell, self.shared().uses());
        let has_begun = bytes <= cell.room_left.load(Ordering::Relaxed);
        let wants = |tier: &Tier| has_begun || tier.wants(cell.key, file_bytes(tier), uses);
        self.sources().queue.has_room(bytes)
            && self.shared().has_index_room()
            && self.shared().disk().is_some_and(wants)
    }

    /// Begins to fetch those of `pages`, ascending, that nobody is at. Returns who brings each; nobody yet, where there are too
    /// many on their way and nobody `must` have them now.
    fn start(&self, pages: &[u64], must: bool) -> Vec<(u64, Option<Arc<Flight>>)> {
        let (mut held, mut new) = (Vec::with_capacity(pages.len()), Vec::new());
        {
            let mut flights = lock(&self.sources().flights);
            for &page in pages {
                let key = self.key(page);
                let mut flight = flights.get(&key).cloned();
                if flight.is_none() && (must || flights.len() < AHEAD_PAGES_MAX) {
                    let own = Arc::<Flight>::default();
                    flights.insert(key, own.clone());
                    new.push((page, own.clone()));
                    flight = Some(own);
                }
                held.push((page, flight));
            }
        }
        self.fetch(self.claim(new));
        held
    }

    /// Returns those of new flights that no other process is at, and whose pages have not come since; ends the others.
    fn claim(&self, new: Vec<(u64, Arc<Flight>)>) -> Vec<(u64, Expected)> {
        if new.is_empty() {
            return Vec::new();
        }
        let again = |key: &PageKey, flight: &Flight| {
            self.sources().landed(key);
            flight.land(Landed::LookAgain);
        };
        let folder = self.shared().disk().map(|tier| (tier.folder().claims(), tier.folder().modes()));
        let mut ours = Vec::with_capacity(new.len());
        for (page, flight) in new {
            let key = self.key(page);
            match folder.as_ref().map_or(Claimed::Ours(None), |(folder, modes)| Claim::take(folder, *modes, &key)) {
                Claimed::Theirs => again(&key, &flight),
                Claimed::Ours(claim) => ours.push((page, Expected { key, len: self.page_len(page), flight, claim })),
            }
        }
        // Whoever had a claim before may have brought its page.
        self.look_around();
        ours.retain(|(_, expected)| {
            let is_missing = self.sources().pages.find(&expected.key).is_none();
            if !is_missing {
                again(&expected.key, &expected.flight);
            }
            is_missing
        });
        ours
    }

    /// Fetches pages, those together that follow each other.
    fn fetch(&self, pages: Vec<(u64, Expected)>) {
        let mut run: Vec<Expected> = Vec::new();
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

    fn fetch_run(&self, run: Vec<Expected>, range: Range<u64>) {
        if !run.is_empty() {
            let landing = Landing::new(self.shared(), &self.source.cell, run);
            (self.fetch)(range, Box::new(move |bytes| landing.done(bytes)));
        }
    }

    /// Fetches a range that is not kept.
    fn alone(&self, range: Range<u64>) -> Arc<Flight> {
        let flight = Arc::<Flight>::default();
        let alone = Alone { cell: self.source.cell.clone(), flight: flight.clone() };
        (self.fetch)(range, Box::new(move |bytes| alone.done(bytes)));
        flight
    }

    /// Waits for a page, wherever it comes from, and fills `to` with its bytes from `start` on.
    fn page(&self, page: u64, start: usize, to: &mut [u8], mut flight: Option<Arc<Flight>>) -> Result<()> {
        let until = deadline(WAIT_MAX);
        loop {
            let mut is_elsewhere = false;
            if let Some(flight) = flight.take() {
                match flight.wait(until) {
                    Some(Landed::Page(bytes)) => return put(&bytes[start..], to),
                    Some(Landed::Failed(e)) => return Err(e),
                    Some(Landed::LookAgain) => is_elsewhere = true,
                    None => break,
                }
            }
            if self.find(page, start, to) {
                add(&self.source.cell.counters.from_disk, to.len());
                return Ok(());
            }
            if Instant::now() >= until {
                break;
            }
            if is_elsewhere {
                std::thread::sleep(WAIT_STEP);
            }
            flight = self.start(&[page], true).pop().and_then(|(_, flight)| flight);
        }
        let from = page * PAGE_BYTES + start as u64;
        landed(&self.alone(from..from + to.len() as u64), to)
    }

    /// Fills `to` from a page on disk, if it is there and is what was written.
    fn find(&self, page: u64, start: usize, to: &mut [u8]) -> bool {
        let key = self.key(page);
        let Some((segment, spot)) = self.sources().pages.find(&key) else { return false };
        segment.last_hit.set(self.shared().passes(segment.block.prefix));
        let read = match File::open(&segment.path) {
            Ok(_) if spot.len as usize != self.page_len(page) => {
                Err(Trouble::Broken("a page's length is wrong".to_owned()))
            }
            Ok(file) => read(&file, &key, &spot, start, to),
            Err(e) => Err(e.into()),
        };
        read.map_err(|trouble| self.drop_page(&key, &segment, &spot, trouble)).is_ok()
    }

    /// Forgets what cannot be read, unless it may be another time: then it is fetched, once.
    fn drop_page(&self, key: &PageKey, segment: &Segment, spot: &Spot, trouble: Trouble) {
        self.sources().pages.forget(key, segment);
        match trouble {
            Trouble::Gone => {
                self.shared().forget_blocks(&[segment.block]);
                self.shared().disk().into_iter().for_each(|tier| tier.drop_block(segment.block, &Trouble::Gone));
            }
            Trouble::Later(_) | Trouble::OtherFormat(_) => {}
            Trouble::Broken(why) => {
                add(&self.source.cell.counters.corrupt, 1);
                tracing::warn!(file = %segment.path.display(), why, "a broken page of a remote file is fetched again");
                withdraw(&segment.path, &[spot.slot]);
            }
        }
    }
}

impl Request {
    /// Returns how many bytes were asked for, of those that the file has.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Waits for the bytes, and puts them where they are wanted: what is on disk is read into its place.
    ///
    /// # Errors
    /// What fetching gives; Internal where `to` is not as long as what was asked for. Then what is in `to` is nothing.
    pub fn fill(self, mut to: &mut [u8]) -> Result<()> {
        let asked = self.bytes();
        if asked != to.len() {
            return Err(Error::internal(format!("{asked} bytes do not fill a place for {}", to.len())));
        }
        for part in self.parts {
            let (place, rest) = to.split_at_mut(part.bytes());
            match part {
                Part::Page { page, within, flight } => self.file.page(page, within.start, place, flight)?,
                Part::Alone { flight, .. } => landed(&flight, place)?,
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
            Self::Alone { bytes, .. } => *bytes,
        }
    }
}

/// Waits for a range that is not kept: as long as the store's own patience lasts.
fn landed(flight: &Flight, to: &mut [u8]) -> Result<()> {
    loop {
        match flight.wait(deadline(WAIT_MAX)) {
            Some(Landed::Page(bytes)) => return put(&bytes, to),
            Some(Landed::Failed(e)) => return Err(e),
            Some(Landed::LookAgain) => return Err(Error::internal("a range that is not kept is nowhere else")),
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

/// Returns which bytes of a page a range has.
fn within(range: &Range<u64>, page: u64) -> Range<usize> {
    let start = page * PAGE_BYTES;
    let (from, to) = (range.start.max(start), range.end.min(start + PAGE_BYTES));
    (from - start) as usize..(to - start) as usize
}

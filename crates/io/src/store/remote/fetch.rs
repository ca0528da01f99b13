//! Requests to a store, each retried until it is done: a size, a range of bytes.
//!
//! A body that breaks in the middle is resumed at the byte where it broke. Invariants: bytes are only used from answers
//! about the pinned object; the result has exactly the requested length.

#![expect(clippy::disallowed_methods, reason = "requests are tried again within a bound")]

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::{Error, Result};
use futures::StreamExt;
use object_store::client::HttpError;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::time::{timeout, timeout_at};

use super::body::Feed;
use super::http::Wrong;
use super::refusal;
use super::retry::{Attempts, Budget, Failure, Policy};
use crate::fail;
use crate::store::pinned::{Mark, Stat};

/// The bytes that an attempt must receive to count as progress, unless it completes.
const PROGRESS_BYTES: usize = 64 << 10;

/// A store with its retry policy.
#[derive(Debug, Clone)]
pub(in crate::store) struct Store {
    pub(in crate::store) inner: Arc<dyn ObjectStore>,
    pub(in crate::store) policy: Policy,
    pub(in crate::store) budget: Arc<Budget>,
    /// Whether no credentials are set for it.
    pub(in crate::store) is_unsigned: bool,
    /// Writes large objects to it, block by block.
    pub(in crate::store) blocks: Option<Blocks>,
    /// How one folder of it is listed; `None` where it cannot list.
    pub(in crate::store) levels: Option<Levels>,
}

/// A store that accepts an object block by block.
#[derive(Clone)]
pub(in crate::store) struct Blocks(pub(in crate::store) Arc<dyn MultipartStore>);

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocks")
    }
}

/// A store that lists one folder, answer by answer.
#[derive(Clone)]
pub(in crate::store) struct Levels(pub(in crate::store) Arc<dyn PaginatedListStore>);

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Levels")
    }
}

/// A failed attempt.
pub(in crate::store) enum Failed {
    Finally(Error),
    ForNow(Failure),
}

impl Store {
    /// Waits for the next attempt, or returns the error when there is none.
    pub(in crate::store) async fn again(&self, uri: &str, attempts: &mut Attempts, failed: Failed) -> Result<()> {
        let failure = match failed {
            Failed::Finally(e) => return Err(e),
            Failed::ForNow(failure) => failure,
        };
        let now = Instant::now();
        match attempts.failed(&failure, now, random_part(), &self.policy, &self.budget) {
            Some(wait) => tokio::time::sleep(wait).await,
            // Without credentials, `object_store` first requests the machine's own, from an address that the user does
            // not know.
            None if self.is_unsigned && !self.budget.has_answered() => {
                return Err(refusal::no_credentials(uri, &attempts.blame(&failure, now)));
            }
            None => return Err(attempts.blame(&failure, now)),
        }
        Ok(())
    }

    pub(in crate::store) fn silent(&self) -> Failed {
        Failed::ForNow(Failure::new(format!("nothing came in {:?}", self.policy.stall)))
    }

    /// Reads a range of the pinned object.
    pub(in crate::store) async fn get(
        &self,
        path: &Path,
        uri: &str,
        pinned: &Stat,
        range: Range<u64>,
    ) -> Result<Bytes> {
        let mut attempts = Attempts::new(Instant::now());
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        loop {
            let before = bytes.len();
            let Err(failed) = self.part(path, uri, pinned, &range, &mut bytes).await else { return Ok(bytes.into()) };
            if bytes.len() - before >= PROGRESS_BYTES {
                attempts.progressed(Instant::now());
            }
            let named = |e: Error| e.with("file", uri).with("range", format!("bytes {}..{}", range.start, range.end));
            self.again(uri, &mut attempts, failed).await.map_err(named)?;
        }
    }

    /// Adds the missing bytes of the range to `bytes`.
    async fn part(
        &self,
        path: &Path,
        uri: &str,
        pinned: &Stat,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        let (before, len) = (bytes.len(), (range.end - range.start) as usize);
        let rest = GetRange::Bounded(range.start + before as u64..range.end);
        let options = GetOptions::new().with_range(Some(rest)).with_if_match(pinned.strong_tag());
        let answer = timeout(self.policy.stall, self.inner.get_opts(path, options)).await;
        let answer = answer.map_err(|_| self.silent())?.map_err(|e| why(uri, pinned, e))?;
        let now = identity(&answer.meta);
        if now != *pinned {
            return Err(Failed::Finally(fail::changed(uri, pinned, now)));
        }
        let mut body = answer.into_stream();
        let mut arrived = 0;
        let mut deadline = tokio::time::Instant::now() + self.policy.stall;
        while bytes.len() < len {
            match timeout_at(deadline, body.next()).await {
                Err(_) if arrived >= PROGRESS_BYTES => {
                    (arrived, deadline) = (0, deadline + self.policy.stall);
                }
                Err(_) => {
                    let seen = format!("only {arrived} bytes came in {:?}", self.policy.stall);
                    return Err(Failed::ForNow(Failure::new(seen)));
                }
                Ok(None) => {
                    let seen = format!("the answer ended {} bytes early", len - bytes.len());
                    return Err(Failed::ForNow(Failure::new(seen)));
                }
                Ok(Some(chunk)) => {
                    let chunk = chunk.map_err(|e| why(uri, pinned, e))?;
                    if chunk.len() > len - bytes.len() {
                        // The bytes of an answer that is too long may be at wrong offsets.
                        bytes.truncate(before);
                        return Err(Failed::ForNow(Failure::odd("the answer was longer than what was asked for")));
                    }
                    arrived += chunk.len();
                    bytes.extend_from_slice(&chunk);
                }
            }
        }
        Ok(())
    }

    /// Sends a range of the pinned object as it arrives, with one request unless an answer breaks. Returns when all of
    /// it was sent, after an error, or when the reader is gone.
    pub(in crate::store) async fn stream(
        &self,
        path: &Path,
        uri: &str,
        pinned: &Stat,
        mut range: Range<u64>,
        feed: &Feed,
    ) {
        let mut attempts = Attempts::new(Instant::now());
        while !range.is_empty() {
            let before = range.start;
            let Err(failed) = self.stream_part(path, uri, pinned, &mut range, feed).await else { return };
            if range.start - before >= PROGRESS_BYTES as u64 {
                attempts.progressed(Instant::now());
            }
            if let Err(e) = self.again(uri, &mut attempts, failed).await {
                let rest = format!("bytes {}..{}", range.start, range.end);
                return feed.fail(e.with("file", uri).with("range", rest));
            }
        }
    }

    /// Sends the bytes of one answer, and advances the start of the range past them.
    async fn stream_part(
        &self,
        path: &Path,
        uri: &str,
        pinned: &Stat,
        range: &mut Range<u64>,
        feed: &Feed,
    ) -> Result<(), Failed> {
        let rest = GetRange::Bounded(range.clone());
        let options = GetOptions::new().with_range(Some(rest)).with_if_match(pinned.strong_tag());
        let answer = timeout(self.policy.stall, self.inner.get_opts(path, options)).await;
        let answer = answer.map_err(|_| self.silent())?.map_err(|e| why(uri, pinned, e))?;
        let now = identity(&answer.meta);
        if now != *pinned {
            return Err(Failed::Finally(fail::changed(uri, pinned, now)));
        }
        let mut body = answer.into_stream();
        // Only the time spent waiting for the store counts, not the time spent waiting for the reader.
        let (mut arrived, mut waited) = (0, Duration::ZERO);
        while !range.is_empty() {
            let asked = Instant::now();
            let next = timeout(self.policy.stall.saturating_sub(waited), body.next()).await;
            waited += asked.elapsed();
            match next {
                Err(_) if arrived >= PROGRESS_BYTES => (arrived, waited) = (0, Duration::ZERO),
                Err(_) => {
                    let seen = format!("only {arrived} bytes came in {:?}", self.policy.stall);
                    return Err(Failed::ForNow(Failure::new(seen)));
                }
                Ok(None) => {
                    let seen = format!("the answer ended {} bytes early", range.end - range.start);
                    return Err(Failed::ForNow(Failure::new(seen)));
                }
                Ok(Some(chunk)) => {
                    let chunk = chunk.map_err(|e| why(uri, pinned, e))?;
                    let len = chunk.len() as u64;
                    if len > range.end - range.start {
                        return Err(Failed::ForNow(Failure::odd("the answer was longer than what was asked for")));
                    }
                    (arrived, range.start) = (arrived + chunk.len(), range.start + len);
                    if !feed.send(chunk).await {
                        range.start = range.end;
                    }
                }
            }
        }
        Ok(())
    }

    /// Requests an object's size and identity.
    pub(in crate::store) async fn stat(&self, path: &Path, uri: &str) -> Result<Stat> {
        self.tried(uri, || self.inner.head(path)).await.map(|meta| identity(&meta))
    }

    /// Makes a request with a short answer, with retries.
    pub(in crate::store) async fn tried<T, F>(&self, uri: &str, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut attempts = Attempts::new(Instant::now());
        loop {
            let failed = match timeout(self.policy.stall, request()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(e)) => why(uri, &NOTHING_PINNED, e),
                Err(_) => self.silent(),
            };
            self.again(uri, &mut attempts, failed).await.map_err(|e| e.with("file", uri))?;
        }
    }
}

pub(in crate::store) const NOTHING_PINNED: Stat = Stat { size: 0, mark: Mark::Mtime(0) };

impl Stat {
    /// Returns the etag, where the store can compare it: weak ones (`W/"…"`) never match.
    fn strong_tag(&self) -> Option<&str> {
        match &self.mark {
            Mark::Etag(tag) if !tag.starts_with("W/") => Some(tag),
            _ => None,
        }
    }
}

/// Returns the identity of an object's content.
pub(in crate::store) fn identity(meta: &ObjectMeta) -> Stat {
    let mark = match &meta.e_tag {
        Some(tag) => Mark::Etag(tag.as_str().into()),
        None => Mark::Mtime(meta.last_modified.timestamp_nanos_opt().unwrap_or(0)),
    };
    Stat { size: meta.size, mark }
}

/// Returns a random number from 0 to 1, for waiting only.
fn random_part() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

/// Classifies a store's error: another attempt may help, or the user gets an error with a hint.
pub(in crate::store) fn why(uri: &str, pinned: &Stat, e: object_store::Error) -> Failed {
    use object_store::Error as Store;
    Failed::Finally(match &e {
        Store::NotFound { .. } if *pinned == NOTHING_PINNED => fail::missing(uri),
        Store::NotFound { .. } => fail::gone(uri),
        Store::Precondition { .. } => fail::changed(uri, pinned, "another object"),
        _ => match (cause::<Wrong>(&e), cause::<HttpError>(&e)) {
            (Some(Wrong::Busy(failure) | Wrong::OtherRange(failure)), _) => return Failed::ForNow(failure.clone()),
            (Some(wrong @ (Wrong::Elsewhere(_) | Wrong::Own(_))), _) => fail::not_given(uri, &wrong.to_string()),
            (Some(Wrong::Shorter), _) => fail::changed(uri, pinned, "a shorter object"),
            (Some(Wrong::NoRanges), _) => Error::invalid(
                "this server cannot send a part of a file, which reading rows in any order needs",
            )
            .with("file", uri)
            .hint("serve the files with one that knows range requests, or from an object store, or copy them here"),
            (None, Some(http)) => return Failed::ForNow(Failure::new(innermost(http))),
            (None, None) => refusal::refused(uri, &e),
        },
    })
}

/// Returns the error of a type among an error and its causes.
pub(in crate::store) fn cause<E: std::error::Error + 'static>(e: &object_store::Error) -> Option<&E> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(e);
    while let Some(e) = next {
        if let Some(found) = e.downcast_ref() {
            return Some(found);
        }
        next = e.source();
    }
    None
}

/// Returns the cause that all others only wrap.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

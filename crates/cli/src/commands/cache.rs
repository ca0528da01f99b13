//! `forebay cache ls|stats|verify|evict|warm`: works on a folder of rows and of bytes of remote files, or on a store of
//! rows, also while a service uses it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_cache::{Cache, CacheLocation, PrefixKey, PrefixListing};
use forebay_core::{Error, ErrorKind, Result};
use forebay_server::CacheConfig;
use serde::Serialize;

use crate::Progress;
use crate::arguments::{Evict, KeptAction, KeptIn, KeptRows, Warm};
use crate::host::{Host, WarmOptions, Warmed};
use crate::output;

/// Displayed digits of a prefix.
const DIGITS: usize = 12;

/// The rows of one computation, or the pages of one source's files.
#[derive(Serialize)]
struct Prefix<'a> {
    /// `rows` or `source`.
    kind: &'static str,
    prefix: String,
    /// A description; empty if no block could be read.
    what: &'a str,
    rows: u64,
    /// Rows that a filter is known to remove.
    filtered: u64,
    /// Pages of remote files.
    pages: u64,
    bytes: u64,
    blocks: u64,
    unreadable_blocks: u64,
    /// Blocks of another version of Forebay, which stay as they are.
    other_version_blocks: u64,
    /// Whether a process uses it now; `null` if that is unknown.
    in_use: Option<bool>,
}

#[derive(Default, Serialize)]
struct Stats {
    prefixes: usize,
    /// The number of prefixes and sources that a process uses now.
    in_use: usize,
    rows: u64,
    filtered: u64,
    /// Sources of remote files, and their pages.
    sources: usize,
    pages: u64,
    bytes: u64,
    blocks: u64,
    unreadable_blocks: u64,
    other_version_blocks: u64,
}

#[derive(Serialize)]
struct Verified {
    blocks: u64,
    rows: u64,
    pages: u64,
    bad: Vec<Bad>,
}

#[derive(Serialize)]
struct Bad {
    block: String,
    why: String,
    /// Whether the content is corrupt; otherwise it only cannot be read here.
    broken: bool,
}

#[derive(Serialize)]
struct WarmedFiles {
    files: u64,
    bytes: u64,
    /// Bytes that came from the store.
    fetched: u64,
    /// Bytes that were cached already.
    found: u64,
    /// Pages that were fetched, but not cached for lack of room.
    pages_not_kept: u64,
}

#[derive(Serialize)]
struct Evicted {
    prefixes: Vec<String>,
    bytes: u64,
}

pub(crate) fn run(arguments: KeptRows, host: &dyn Host) -> Result<()> {
    match arguments.what {
        KeptAction::Ls(of) => list(&of),
        KeptAction::Stats(of) => stats(&of),
        KeptAction::Verify(of) => verify(&of),
        KeptAction::Evict(of) => evict(&of),
        KeptAction::Warm(of) => warm(of, host),
    }
}

fn warm(of: Warm, host: &dyn Host) -> Result<()> {
    let Warm { what, seed, threads, cache, json } = of;
    let cache = CacheConfig::try_from(cache)?;
    if cache.places.is_empty() {
        return Err(Error::invalid("a cache in memory ends with this command")
            .hint("name a folder or the url of a store: --cache FOLDER|URL, or FOREBAY_CACHE"));
    }
    let file = match what.as_slice() {
        [script] if !script.contains("://") => PathBuf::from(script),
        _ => return bring(&what, &cache, json),
    };
    drop(usable(&cache)?);
    let CacheConfig { places, memory, disk, store, .. } = cache;
    let options = WarmOptions { seed, threads, cache: places.to_string(), memory, disk, store };
    let warmed = host.warm(&options, &file)?;
    if json {
        return output::json(&warmed);
    }
    let row = |w: &Warmed| {
        let found = w.rows.saturating_sub(w.computed);
        let counts = [w.rows, w.computed, found, w.on_disk, w.in_store].map(|n| n.to_string());
        let [rows, computed, found, on_disk, in_store] = counts;
        [w.dataset.clone(), rows, computed, found, on_disk, in_store]
    };
    output::table(
        ["DATASET", "ROWS", "COMPUTED", "FOUND", "ON DISK", "IN STORE"],
        &warmed.iter().map(row).collect::<Vec<_>>(),
    )
}

/// Opens the cache; fails if a place cannot be used. Jobs run without such a place, but this command needs it.
fn usable(cache: &CacheConfig) -> Result<Arc<Cache>> {
    let told = RefCell::new(None);
    let opened = cache.open(&|error| _ = told.borrow_mut().replace(error.clone()))?;
    told.into_inner().map_or(Ok(opened), Err)
}

/// Fetches remote files into the cache.
fn bring(urls: &[String], cache: &CacheConfig, json: bool) -> Result<()> {
    let opened = usable(cache)?;
    let progress = Progress::new("fetching", "MiB");
    let show = |done: u64, all: u64| {
        progress.show(done >> 20, all >> 20);
        Ok(())
    };
    let found = forebay_exec::warm(urls, &opened, &show)?;
    drop(progress);
    let forebay_exec::WarmReport { files, bytes, fetched, found, pages_not_kept } = found;
    if json {
        output::json(&WarmedFiles { files, bytes, fetched, found, pages_not_kept })?;
    } else {
        let [bytes, fetched, found] = [bytes, fetched, found].map(output::bytes);
        output::line(&format!("{files} files of {bytes}: fetched {fetched}, found {found}"))?;
    }
    if pages_not_kept == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exhausted, format!("{pages_not_kept} pages were fetched and not kept"))
        .hint("give the folder more room: --cache-disk SIZE, or another disk"))
}

fn list(of: &KeptIn) -> Result<()> {
    let kept = of.place.kept()?;
    let listed = forebay_cache::list(&kept)?;
    let rows = |p: &PrefixListing| if p.is_source { "-".to_owned() } else { p.rows.to_string() };
    let prefix = |p: &PrefixListing| [short(p.key), rows(p), output::bytes(p.bytes), used(p).to_owned(), what(p)];
    if of.json {
        return output::json(&listed.iter().map(row).collect::<Vec<_>>());
    }
    if listed.is_empty() {
        eprintln!("nothing is kept in {kept}");
        return Ok(());
    }
    output::table(["PREFIX", "ROWS", "SIZE", "IN USE", "WHAT"], &listed.iter().map(prefix).collect::<Vec<_>>())
}

fn row(of: &PrefixListing) -> Prefix<'_> {
    Prefix {
        kind: if of.is_source { "source" } else { "rows" },
        prefix: of.key.to_string(),
        what: &of.what,
        rows: of.rows,
        filtered: of.filtered_out,
        pages: of.pages,
        bytes: of.bytes,
        blocks: of.blocks,
        unreadable_blocks: of.unreadable,
        other_version_blocks: of.others,
        in_use: of.in_use,
    }
}

fn short(key: PrefixKey) -> String {
    key.to_string().chars().take(DIGITS).collect()
}

fn used(of: &PrefixListing) -> &'static str {
    match of.in_use {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
}

/// Returns a description, and the unusable parts.
fn what(of: &PrefixListing) -> String {
    let blocks = |n: u64, which: &str| (n > 0).then(|| format!("{n} {which}"));
    let not_used = [blocks(of.others, "of another version"), blocks(of.unreadable, "unreadable")];
    let not_used: Vec<_> = not_used.into_iter().flatten().collect();
    match (of.what.as_str(), not_used.is_empty()) {
        (what, true) => what.to_owned(),
        ("", false) => format!("{} blocks: {}", of.blocks, not_used.join(", ")),
        (what, false) => format!("{what} ({} blocks: {})", of.blocks, not_used.join(", ")),
    }
}

fn stats(of: &KeptIn) -> Result<()> {
    let mut sum = Stats::default();
    for listed in &forebay_cache::list(&of.place.kept()?)? {
        sum.prefixes += usize::from(!listed.is_source);
        sum.sources += usize::from(listed.is_source);
        sum.pages += listed.pages;
        sum.in_use += usize::from(listed.in_use == Some(true));
        sum.rows += listed.rows;
        sum.filtered += listed.filtered_out;
        sum.bytes += listed.bytes;
        sum.blocks += listed.blocks;
        sum.unreadable_blocks += listed.unreadable;
        sum.other_version_blocks += listed.others;
    }
    if of.json {
        return output::json(&sum);
    }
    let Stats { prefixes, in_use, rows, filtered, sources, pages, .. } = sum;
    let Stats { bytes, blocks, unreadable_blocks, other_version_blocks, .. } = sum;
    output::line(&format!("prefixes   {prefixes}, and {sources} sources of remote files; {in_use} in use"))?;
    output::line(&format!("rows       {rows}, and {filtered} that filters remove"))?;
    output::line(&format!("pages      {pages}"))?;
    output::line(&format!("size       {} in {blocks} blocks", output::bytes(bytes)))?;
    output::line(&format!(
        "not used   {unreadable_blocks} blocks that cannot be read, {other_version_blocks} of another version"
    ))
}

fn verify(of: &KeptIn) -> Result<()> {
    let progress = Progress::new("verifying", "MiB");
    let kept = of.place.kept()?;
    let found = forebay_cache::verify(&kept, &mut |done, all| progress.show(done >> 20, all >> 20))?;
    drop(progress);
    let bad = found.bad.iter().map(|bad| Bad { block: bad.block.clone(), why: bad.why.clone(), broken: bad.broken });
    let found = Verified { blocks: found.blocks, rows: found.rows, pages: found.pages, bad: bad.collect() };
    if of.json {
        output::json(&found)?;
    } else {
        let (rows, pages) = (found.rows, found.pages);
        output::line(&format!("right: {rows} rows and {pages} pages in {} blocks", found.blocks))?;
        for bad in &found.bad {
            let what = if bad.broken { "broken" } else { "left alone" };
            output::line(&format!("{what}: {}: {}", bad.block, bad.why))?;
        }
    }
    let broken = found.bad.iter().filter(|bad| bad.broken).count();
    if broken == 0 {
        return Ok(());
    }
    let message = format!("{broken} blocks in {kept} are corrupt");
    Err(Error::new(ErrorKind::Data, message)
        .hint("corrupt rows are never used: the process that reads one removes it, and computes or fetches it again"))
}

fn evict(of: &Evict) -> Result<()> {
    let kept = of.kept.place.kept()?;
    let listed = forebay_cache::list(&kept)?;
    let keys: Vec<PrefixKey> = listed.iter().map(|listed| listed.key).collect();
    let chosen = match of.which.all {
        true => keys,
        false => of.which.prefix.iter().map(|digits| find(&keys, digits, &kept)).collect::<Result<_>>()?,
    };
    let mut evicted = Evicted { prefixes: chosen.iter().map(ToString::to_string).collect(), bytes: 0 };
    for key in chosen {
        evicted.bytes += forebay_cache::evict(&kept, Some(key))?;
    }
    if of.kept.json {
        return output::json(&evicted);
    }
    output::line(&format!("removed {} of {} prefixes", output::bytes(evicted.bytes), evicted.prefixes.len()))
}

/// Returns the only key that begins with some digits.
fn find(keys: &[PrefixKey], digits: &str, kept: &CacheLocation) -> Result<PrefixKey> {
    let mut found = keys.iter().filter(|key| !digits.is_empty() && key.to_string().starts_with(digits));
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(*key),
        (Some(_), Some(_)) => {
            Err(Error::invalid(format!("several prefixes begin with {digits:?}")).hint("give more of its digits"))
        }
        _ => Err(Error::new(ErrorKind::NotFound, format!("no prefix in {kept} begins with {digits:?}"))
            .hint("`forebay cache ls` lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_found_by_its_first_digits_and_never_guessed() {
        let keys = [PrefixKey([0x11; 32]), PrefixKey([0x12; 32])];
        let find = |digits: &str| find(&keys, digits, &CacheLocation::Folder("kept".into()));
        assert_eq!(find("12"), Ok(keys[1]));
        assert_eq!(find(&keys[0].to_string()), Ok(keys[0]));
        assert!(find("1").expect_err("two").message().contains("several"));
        for none in ["", "2", "1111x"] {
            assert_eq!(find(none).expect_err("none").kind(), ErrorKind::NotFound);
        }
    }
}

//! Makes an index: lists the files, reads the identity of each and, when rows are counted, the places of its rows.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use forebay_core::Result;
use forebay_plan::{Combination, Combined, Source, SourcePart, counts_rows};

use super::density;
use super::format::{FileAccess, FileRows, FileToScan, Listed};
use super::registry::format_of;
use crate::allowed::Allowed;
use crate::index::table::Counted;
use crate::index::{IndexPart, Inner, Layout, SourceIndex, cache};
use crate::parallel::{Progress, REMOTE_THREADS, check, for_each, side_by_side};
use crate::store::{Found, ReadThrough, Stat};

pub(crate) fn build(
    source: &Source,
    allowed: &Allowed,
    counted: bool,
    cache: Option<&Path>,
    near: Option<&dyn ReadThrough>,
    threads: usize,
    progress: Progress<'_>,
) -> Result<SourceIndex> {
    source.paths().iter().try_for_each(|path| allowed.check_pattern(path))?;
    if let Source::Combined(combined) = source {
        return joined(combined, allowed, counted, cache, near, threads, progress);
    }
    let (format, access) = (format_of(source), FileAccess { allowed, near });
    let Listed { found, labels, layout, tables, rows, check } = format.list(counted, access)?;
    found.iter().try_for_each(|found| allowed.check(&found.uri))?;
    let needs_tables = matches!(layout, Layout::PerFile { counted: true } | Layout::Groups) && tables.is_empty();
    let rows = rows.filter(|_| needs_tables);
    let one = |&(place, found): &(usize, &Found), stop: &AtomicBool| -> Result<(Stat, Option<Counted>)> {
        let stat = access.stat(found)?;
        let file = FileToScan { uri: &found.uri, stat: &stat, access };
        let rows = rows.as_ref().map(|rows| rows(place, &file)).transpose()?;
        let counted = rows.map(|rows| count(rows, &file, cache, stop)).transpose()?;
        Ok((stat, counted))
    };
    let numbered: Vec<_> = found.iter().enumerate().collect();
    let done = for_each(&numbered, side_by_side(&found, threads), progress, one)?;
    let mut inner = Inner::of(layout, labels, tables);
    for (place, (found, (stat, counted))) in found.into_iter().zip(done).enumerate() {
        if let Some((table, check)) = inner.tables.get(place).zip(check.as_ref()) {
            check(&found.uri, &stat, table)?;
        }
        inner.uris.push(found.uri.into());
        inner.stats.push(stat);
        if let Some(Counted { table, points }) = counted {
            inner.tables.push(table);
            inner.points.push(points);
        }
    }
    if inner.layout == (Layout::PerFile { counted: false }) {
        inner.density = density::of(&inner.uris, &inner.stats, access)?;
    }
    SourceIndex::new(inner)
}

/// Indexes datasets that are read as one, some of them in parallel.
fn joined(
    combined: &Combined,
    allowed: &Allowed,
    counted: bool,
    cache: Option<&Path>,
    near: Option<&dyn ReadThrough>,
    threads: usize,
    progress: Progress<'_>,
) -> Result<SourceIndex> {
    let one = |part: &SourcePart, stop: &AtomicBool| {
        let source = part.graph.source();
        let threads = threads.div_ceil(combined.parts.len());
        // A dataset of a streamed mix is counted only where its own ops need the count.
        let counted = counted && source.can_index() || combined.is_streamed() && counts_rows(&part.graph);
        let index = build(source, allowed, counted, cache, near, threads, &|_, _| check(stop));
        let index = index.map_err(|e| part.graph.blame_source(e).with("part", &part.name))?;
        Ok(IndexPart { name: part.name.as_str().into(), index })
    };
    let is_remote = combined.parts.iter().any(|part| part.graph.source().is_remote());
    let threads = if is_remote { threads.max(REMOTE_THREADS) } else { threads };
    let parts = for_each(&combined.parts, threads, progress, one)?;
    let is_counted = parts.iter().all(|part| part.index.rows().is_some());
    let zipped = match combined.is_by_number() && is_counted {
        true => Some(Combination::source_rows(combined, parts.iter().map(|part| part.index.extent()).collect())?),
        false => None,
    };
    SourceIndex::joined(parts, zipped)
}

/// Finds the rows of one file: already known, from the cache, or by reading it.
fn count(rows: FileRows<'_>, file: &FileToScan<'_>, cache: Option<&Path>, stop: &AtomicBool) -> Result<Counted> {
    let (key, scan) = match rows {
        FileRows::Known(counted) => return Ok(counted),
        FileRows::Scan { key, scan } => (key, scan),
    };
    if let Some(counted) = cache.and_then(|folder| cache::load(folder, file.uri, &key, file.stat)) {
        return Ok(counted);
    }
    let counted = scan(file, stop)?;
    if let Some(folder) = cache {
        cache::keep(folder, file.uri, &key, file.stat, &counted);
    }
    Ok(counted)
}

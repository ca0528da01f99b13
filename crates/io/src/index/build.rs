//! Makes an index: lists the files, asks each for its identity and, when rows are counted, reads what tells its rows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_plan::Source;

use super::filtered::Filtered;
use super::table::{Counted, Table};
use super::{Inner, Layout, SourceIndex, cache};
use crate::formats::{arrow, compressed, lines, litdata, mds, megatron, parquet, tar, tfrecord, tokens};
use crate::store::{self, Forward, Found, Object, Stat};
use crate::{Allowed, Progress, ReadThrough, partitions};

/// How often the caller hears of progress while nothing is done.
const TICK: Duration = Duration::from_millis(100);
/// The most files that are looked at together.
const THREADS_MAX: usize = 256;
/// Of files in a store, so many at least: who looks at one mostly waits for answers.
const REMOTE_THREADS: usize = 32;

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
    let Listed { found, labels, layout, tables } = list(source, counted, allowed, near)?;
    found.iter().try_for_each(|found| allowed.check(&found.uri))?;
    let needs_tables = matches!(layout, Layout::PerFile { counted: true } | Layout::Groups) && tables.is_empty();
    let format = format_of(source);
    let open = |uri: &str, stat: &Stat| Object::open(uri, stat, near, allowed).map(Arc::new);
    let open_found = |found: &Found| {
        let stat = found.stat.clone().map_or_else(|| store::stat(&found.uri, allowed), Ok)?;
        open(&found.uri, &stat)
    };
    let filtered = Filtered::of(source, &found, &labels, &open_found)?;
    let one = |&(place, found): &(usize, &Found), stop: &AtomicBool| -> Result<(Stat, Option<Counted>)> {
        let stat = found.stat.clone().map_or_else(|| store::stat(&found.uri, allowed), Ok)?;
        if !needs_tables {
            return Ok((stat, None));
        }
        let (teller, format) = match source {
            Source::Megatron { .. } => {
                let teller = beside(&found.uri, allowed)?;
                let format = format!("{format}:{}", teller.stat);
                (Some(teller), format)
            }
            _ => match &filtered {
                Some(filtered) if filtered.leaves_out(place) => {
                    return Ok((stat, Some(Filtered::nothing())));
                }
                Some(filtered) => (None, format!("{format}:{}", filtered.key(place))),
                None => (None, format.clone()),
            },
        };
        if let Some(counted) = cache.and_then(|folder| cache::load(folder, &found.uri, &format, &stat)) {
            return Ok((stat, Some(counted)));
        }
        let counted = match teller {
            Some(Teller { uri, stat: its }) => {
                let index = open(&uri, &its)?;
                let table = Table::Documents(megatron::documents(index, its.to_string(), stat.size, stop)?);
                Counted { table: table.into(), points: None }
            }
            None => match &filtered {
                Some(filtered) => filtered.scan(place, open(&found.uri, &stat)?)?,
                None => scan(source, open(&found.uri, &stat)?, stop)?,
            },
        };
        if let Some(folder) = cache {
            cache::keep(folder, &found.uri, &format, &stat, &counted);
        }
        Ok((stat, Some(counted)))
    };
    let numbered: Vec<_> = found.iter().enumerate().collect();
    let done = for_each(&numbered, side_by_side(&found, threads), progress, one)?;
    let mut inner = Inner { layout, labels, tables, ..Inner::default() };
    for (place, (found, (stat, counted))) in found.into_iter().zip(done).enumerate() {
        if let Some(Table::Shard { rows, bytes }) = inner.tables.get(place).map(|table| &**table) {
            match source {
                Source::Litdata { wrap, .. } => {
                    litdata::check_size(&found.uri, stat.size, *rows, *bytes, *wrap)?;
                }
                _ => mds::check_size(&found.uri, stat.size, *bytes)?,
            }
        }
        inner.uris.push(found.uri.into());
        inner.stats.push(stat);
        if let Some(Counted { table, points }) = counted {
            inner.tables.push(table);
            inner.points.push(points);
        }
    }
    SourceIndex::new(inner)
}

/// Returns how many of these files are looked at together, by a caller who has so many threads.
pub(crate) fn side_by_side(found: &[Found], threads: usize) -> usize {
    let is_remote = found.iter().any(|found| store::is_remote(&found.uri));
    if is_remote { threads.max(REMOTE_THREADS) } else { threads }
}

/// A file that tells where the rows of another are.
struct Teller {
    uri: String,
    stat: Stat,
}

/// Looks up the index of a file of Megatron.
fn beside(uri: &str, allowed: &Allowed) -> Result<Teller> {
    let uri = megatron::file(megatron::prefix(uri), "idx");
    allowed.check(&uri)?;
    let stat = store::stat(&uri, allowed)?;
    Ok(Teller { uri, stat })
}

/// The files of a source.
struct Listed {
    found: Vec<Found>,
    labels: Vec<u64>,
    /// How rows lie in blocks.
    layout: Layout,
    /// Where the rows of each file are, if the listing says it already.
    tables: Vec<Arc<Table>>,
}

impl Listed {
    fn of(found: Vec<Found>, layout: Layout) -> Self {
        Self { found, labels: Vec::new(), layout, tables: Vec::new() }
    }
}

/// Lists a source's files.
fn list(source: &Source, counted: bool, allowed: &Allowed, near: Option<&dyn ReadThrough>) -> Result<Listed> {
    if let Some(rows) = source.rows() {
        let row_bytes = source.schema()?.row_bytes(64) as u64;
        return Ok(Listed::of(Vec::new(), Layout::Computed { rows, row_bytes }));
    }
    let all = Layout::PerFile { counted: true };
    Ok(match source {
        Source::Files { paths } => Listed::of(store::list(paths)?, Layout::Files),
        Source::ImageFolder { root } => {
            let (found, labels) = crate::formats::image_folder::list(root)?;
            Listed { labels, ..Listed::of(found, Layout::Files) }
        }
        Source::Parquet { paths, .. } | Source::Arrow { paths, .. } => {
            let (found, begins) = partitions::list(paths)?;
            let uris: Vec<&str> = found.iter().map(|found| found.uri.as_str()).collect();
            let labels = if source.partitions().next().is_some() { begins } else { Vec::new() };
            source.partitions().try_for_each(|field| partitions::column(field, &uris, &labels).map(drop))?;
            Listed { labels, ..Listed::of(found, Layout::Groups) }
        }
        Source::Tokens { paths, .. } => Listed::of(store::list(paths)?, all),
        Source::Megatron { paths, .. } => Listed::of(list_megatron(paths)?, all),
        Source::Mds { paths, columns, .. } => {
            let read = |object: &Arc<Object>| {
                let index = mds::Index::read(object)?;
                let fits = index.shards.is_empty() || index.columns == *columns;
                Ok((index.shards, fits))
            };
            let (found, tables) = list_shards(paths, &read, allowed, near)?;
            Listed { tables, ..Listed::of(found, all) }
        }
        Source::Litdata { paths, columns, wrap, .. } => {
            let read = |object: &Arc<Object>| {
                let index = litdata::Index::read(object)?;
                let fits = index.chunks.is_empty() || (index.columns == *columns && index.wrap == *wrap);
                Ok((index.chunks, fits))
            };
            let (found, tables) = list_shards(paths, &read, allowed, near)?;
            Listed { tables, ..Listed::of(found, all) }
        }
        Source::Tar { paths, .. }
        | Source::Tfrecord { paths, .. }
        | Source::Text { paths }
        | Source::Jsonl { paths, .. } => Listed::of(store::list(paths)?, Layout::PerFile { counted }),
        Source::Generator { .. } if counted => {
            return Err(
                Error::invalid("a generator cannot be counted").hint("use from_map_dataset, or write it to files")
            );
        }
        _ => Listed::of(Vec::new(), Layout::Unknown),
    })
}

/// What an index has of a folder: its shards, and whether they are of the source's columns.
type ReadIndex<'r> = &'r dyn Fn(&Arc<Object>) -> Result<(Vec<mds::Shard>, bool)>;

/// Lists the shards of folders, and how many samples each has, by the index of each folder.
fn list_shards(
    folders: &[String],
    read: ReadIndex<'_>,
    allowed: &Allowed,
    near: Option<&dyn ReadThrough>,
) -> Result<(Vec<Found>, Vec<Arc<Table>>)> {
    let indexes: Vec<String> = folders.iter().map(|folder| mds::index_of(folder)).collect();
    let (mut found, mut tables) = (Vec::new(), Vec::new());
    for Found { uri, stat } in store::list(&indexes)? {
        allowed.check(&uri)?;
        let stat = stat.map_or_else(|| store::stat(&uri, allowed), Ok)?;
        let (shards, fits) = read(&Object::open(&uri, &stat, near, allowed)?.into())?;
        if !fits {
            return Err(Error::data("the samples of this folder have other columns, or are compressed otherwise, than those of the first one")
                .with("fault", "file")
                .with("file", uri)
                .hint("read folders whose samples are alike together, and others by themselves"));
        }
        for shard in shards {
            found.push(Found { uri: shard.uri, stat: None });
            tables.push(Arc::new(Table::Shard { rows: shard.rows, bytes: shard.bytes }));
        }
    }
    Ok((found, tables))
}

/// Lists the files of ids of Megatron's datasets. A pattern is compared with the names of their indexes: who copies a dataset copies
/// the small file last.
fn list_megatron(paths: &[String]) -> Result<Vec<Found>> {
    let indexes: Vec<String> = paths.iter().map(|path| megatron::file(path, "idx")).collect();
    let ids = |found: Found| Found { uri: megatron::file(megatron::prefix(&found.uri), "bin"), stat: None };
    Ok(store::list(&indexes)?.into_iter().map(ids).collect())
}

/// Names what a table depends on besides the file.
fn format_of(source: &Source) -> String {
    match source {
        Source::Tar { extensions, .. } => format!("tar:{}", extensions.join("\0")),
        Source::Tfrecord { verify, .. } => format!("tfrecord:{verify}"),
        Source::Parquet { .. } => "parquet".to_owned(),
        Source::Arrow { .. } => "arrow".to_owned(),
        Source::Jsonl { .. } => "jsonl".to_owned(),
        Source::Tokens { dtype, length, stride, .. } => format!("tokens:{dtype}:{length}:{stride}"),
        Source::Megatron { .. } => "megatron".to_owned(),
        _ => "lines".to_owned(),
    }
}

/// Finds the rows of one file. Long scans look at `stop` now and then.
fn scan(source: &Source, object: Arc<Object>, stop: &AtomicBool) -> Result<Counted> {
    let (table, forward) = match source {
        Source::Parquet { .. } => (Table::Groups(parquet::group_rows(object)?), None),
        Source::Arrow { .. } => (arrow::table(object, stop)?, None),
        Source::Tokens { dtype, length, stride, .. } => {
            let rows = tokens::Rows { dtype: *dtype, length: *length, stride: *stride };
            (Table::Even(tokens::rows(&object, rows)?), None)
        }
        Source::Tar { extensions, .. } => {
            let (table, forward) = tar::table(recording(compressed::skipping(object)?), extensions, stop)?;
            (Table::Tar(table), Some(forward))
        }
        Source::Tfrecord { verify, .. } => {
            let mut forward = recording(Forward::skipping(object).unpacked(tfrecord::codec)?);
            (Table::Frames(tfrecord::starts(&mut forward, *verify, stop)?), Some(forward))
        }
        _ => {
            let blank_end = !matches!(source, Source::Jsonl { .. });
            let mut forward = recording(compressed::reading(object)?);
            (Table::Frames(lines::starts(&mut forward, blank_end, stop)?), Some(forward))
        }
    };
    let mut forward = forward;
    let points = forward.as_mut().and_then(Forward::decoded).map(|decoded| decoded.finish()).transpose()?;
    Ok(Counted { table: table.into(), points })
}

/// Looks for access points, if the file is compressed.
fn recording(mut forward: Forward) -> Forward {
    if let Some(decoded) = forward.decoded() {
        decoded.record();
    }
    forward
}

/// Ends a scan that nobody waits for.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::internal("cancelled")) } else { Ok(()) }
}

/// Runs `work` on every item on `threads` threads, and returns the results in the items' order, or the first error in
/// that order among those that were met. The calling thread only reports.
pub(crate) fn for_each<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&I, &AtomicBool) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let total = items.len() as u64;
    let results: Mutex<Vec<Option<Result<O>>>> = Mutex::new(items.iter().map(|_| None).collect());
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (send, finished) = mpsc::channel::<()>();
    let cancelled = std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, THREADS_MAX).min(items.len()) {
            let send = send.clone();
            let (results, next, done, stop, work) = (&results, &next, &done, &stop, &work);
            scope.spawn(move || {
                let _send = send;
                while !stop.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let result = work(item, stop);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(result);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        drop(send);
        loop {
            let over = !matches!(finished.recv_timeout(TICK), Err(mpsc::RecvTimeoutError::Timeout));
            if let Err(e) = progress(done.load(Ordering::Relaxed), total) {
                stop.store(true, Ordering::Relaxed);
                return Err(e);
            }
            if over {
                return Ok(());
            }
        }
    });
    cancelled?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut outputs = Vec::with_capacity(items.len());
    let mut unfinished = None;
    for result in results {
        match result {
            Some(Ok(output)) => outputs.push(output),
            Some(Err(e)) if e.kind() == forebay_core::ErrorKind::Internal => unfinished = unfinished.or(Some(e)),
            Some(Err(e)) => return Err(e),
            None => {}
        }
    }
    if outputs.len() < items.len() {
        return Err(unfinished.unwrap_or_else(|| Error::internal("a file was not indexed")));
    }
    Ok(outputs)
}

//! Pages of remote files: reads return the bytes of the store, fetched once, with pages that are kept, damaged, shared,
//! or do not fit.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use crate::common::paged_store::{Fault, Store, truth};
use crate::common::{LIMIT, folder, list, location, verify};
use forebay_cache::{Cache, FileKey, PAGE_BYTES, PageCache, PagedFile, Request};
use forebay_core::Result;

const QUOTA: u64 = 1 << 30;
/// Files: small ones, one that ends with a page, one of several pages.
const SIZES: [u64; 5] = [10, 100_000, PAGE_BYTES, 3 * PAGE_BYTES + 17, 20 * PAGE_BYTES + 5];

fn open(folder: &Path, quota: u64) -> Arc<Cache> {
    crate::common::open(0, Some((folder, quota)))
}

fn source(cache: &Cache) -> Arc<PageCache> {
    cache.page_cache("s3://bucket/files/", SIZES.iter().sum()).expect("a folder")
}

fn file(source: &Arc<PageCache>, store: &Arc<Store>, n: usize) -> PagedFile {
    source.file(FileKey::of(&format!("s3://bucket/files/{n}"), SIZES[n], "etag"), SIZES[n], store.fetch(n))
}

fn wait(request: Request) -> Result<Vec<u8>> {
    let mut bytes = vec![0; request.bytes()];
    request.fill(&mut bytes).map(|()| bytes)
}

fn read(file: &PagedFile, range: Range<u64>) -> Result<Vec<u8>> {
    wait(file.request(range))
}

fn check(source: &Arc<PageCache>, store: &Arc<Store>, n: usize, range: Range<u64>) {
    let bytes = read(&file(source, store, n), range.clone()).expect("read");
    assert!(bytes == truth(n, range.clone()), "file {n}, {range:?}");
}

fn check_all(source: &Arc<PageCache>, store: &Arc<Store>) {
    (0..SIZES.len()).for_each(|n| check(source, store, n, 0..SIZES[n]));
}

/// Scattered ranges, deterministic.
fn ranges(seed: u64, count: usize) -> Vec<(usize, Range<u64>)> {
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    let mut range = |_| {
        let n = next(SIZES.len() as u64) as usize;
        let start = next(SIZES[n]);
        (n, start..start + next((SIZES[n] - start).min(3 * PAGE_BYTES)) + 1)
    };
    let fits = |(n, range): &mut (usize, Range<u64>)| range.end = range.end.min(SIZES[*n]);
    let mut ranges: Vec<_> = (0..count).map(&mut range).collect();
    ranges.iter_mut().for_each(fits);
    ranges
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let of = |entry: std::fs::DirEntry| std::fs::read_dir(entry.path()).into_iter().flatten().flatten();
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().flat_map(of).map(|file| file.path());
    let mut pages: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "pages")).collect();
    pages.sort();
    pages
}

#[test]
fn threads_of_several_processes_read_what_the_store_has_and_fetch_each_byte_once() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let caches = [0, 1, 2].map(|_| open(folder.path(), QUOTA));
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (cache, store, start) = (&caches[thread % 3], &store, &start);
            scope.spawn(move || {
                let source = source(cache);
                start.wait();
                for chunk in ranges(thread as u64, 120).chunks(8) {
                    // Several are requested before the first is awaited.
                    let asked: Vec<(usize, Range<u64>, Request)> = chunk
                        .iter()
                        .map(|(n, r)| (*n, r.clone(), file(&source, store, *n).request(r.clone())))
                        .collect();
                    for (n, range, request) in asked {
                        assert!(wait(request).expect("read") == truth(n, range.clone()), "file {n}, {range:?}");
                    }
                }
                check_all(&source, store);
            });
        }
    });
    assert_eq!(store.sent(), SIZES.iter().sum::<u64>(), "each byte once, for all");
    let stats: Vec<_> = caches.iter().map(|cache| cache.stats().sources[0].clone()).collect();
    assert_eq!(stats.iter().map(|s| s.counts.fetched).sum::<u64>(), store.sent());
    assert!(stats.iter().all(|s| s.counts.corrupt == 0 && s.counts.not_kept == 0), "{stats:?}");
    drop(caches);
    check_all(&source(&open(folder.path(), QUOTA)), &store);
    assert_eq!(store.sent(), SIZES.iter().sum::<u64>(), "nor by the next process");
    assert_eq!(std::fs::read_dir(folder.path().join("claims")).expect("there").count(), 0);
    let [one] = &list(&location(folder.path()))[..] else { panic!("one source") };
    assert_eq!((one.is_source, &*one.what, one.unreadable), (true, "s3://bucket/files/", 0));
    let verified = verify(&location(folder.path()));
    assert_eq!((verified.pages, verified.bad.len()), (one.pages, 0));
    assert_eq!(one.pages, SIZES.iter().map(|size| size.div_ceil(PAGE_BYTES)).sum::<u64>());
}

#[test]
fn another_content_at_the_same_place_is_another_file() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let cache = open(folder.path(), QUOTA);
    let source = source(&cache);
    let now = |etag: &str, n| source.file(FileKey::of("s3://bucket/x", 10, etag), 10, store.fetch(n));
    assert!(read(&now("a", 0), 0..10).expect("read") == truth(0, 0..10));
    assert!(read(&now("b", 1), 0..10).expect("read") == truth(1, 0..10));
    assert!(read(&now("a", 2), 2..9).expect("read") == truth(0, 2..9), "the first is kept");
    assert!(read(&now("a", 2), 9..9).expect("read").is_empty());
    assert!(read(&now("a", 2), 8..99).expect("read") == truth(0, 8..10), "no more than the file has");
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = std::fs::read(path).expect("read");
    let at = at(bytes.len());
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

/// The damage of a file; whether a process that knows its pages notices, and whether one that opens it later counts it.
type Harm = (&'static str, fn(&Path), bool, bool);

const HARM: [Harm; 6] = [
    ("a bit of a page", |path| flip(path, |len| len / 2), true, true),
    ("a bit of a slot", |path| flip(path, |_| 4096 + 3), false, false),
    ("a bit of the head", |path| flip(path, |_| 20), false, true),
    (
        "cut",
        |path| std::fs::File::options().write(true).open(path).expect("there").set_len(3 << 20).expect("cut"),
        true,
        true,
    ),
    ("empty", |path| std::fs::write(path, b"").expect("written"), true, true),
    ("gone", |path| std::fs::remove_file(path).expect("removed"), true, false),
];

#[test]
fn what_is_damaged_is_fetched_again_once_and_counted() {
    for (what, harm, is_noticed, is_counted) in HARM {
        let (folder, store) = (folder(), Arc::<Store>::default());
        let cache = open(folder.path(), QUOTA);
        let of_cache = source(&cache);
        check_all(&of_cache, &store);
        assert!(cache.flush(LIMIT));
        let all = store.sent();
        let good: Vec<_> = pages(folder.path()).into_iter().map(|path| (std::fs::read(&path), path)).collect();
        good.iter().for_each(|(_, path)| harm(path));
        check_all(&of_cache, &store);
        assert_eq!(store.sent() > all, is_noticed, "{what}, by the process that knows it");
        drop((of_cache, cache));
        pages(folder.path()).iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
        for (bytes, path) in &good {
            std::fs::write(path, bytes.as_ref().expect("read")).expect("written");
            harm(path);
        }

        let before = store.sent();
        let cache = open(folder.path(), QUOTA);
        let of_cache = source(&cache);
        check_all(&of_cache, &store);
        let again = store.sent();
        assert!(again > before, "{what}");
        assert!(cache.flush(LIMIT));
        check_all(&of_cache, &store);
        assert_eq!(store.sent(), again, "{what}: kept again");
        let stats = cache.stats();
        let counted = stats.sources[0].counts.corrupt + stats.disk.expect("a disk").corrupt_blocks;
        assert_eq!(counted > 0, is_counted, "{what}");
        drop((of_cache, cache));
        check_all(&source(&open(folder.path(), QUOTA)), &store);
        assert_eq!(store.sent(), again, "{what}: what was wrong is not found again");
        let verified = verify(&location(folder.path()));
        assert!(verified.bad.is_empty(), "{what}: {verified:?}");
    }
}

#[test]
fn a_quota_that_is_too_small_keeps_what_fits_and_fetches_no_more_than_is_asked_for() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let quota = 12 << 20;
    let cache = open(folder.path(), quota);
    let source = source(&cache);
    let asked = ranges(7, 2000);
    for (n, range) in &asked {
        check(&source, &store, *n, range.clone());
    }
    assert!(cache.flush(LIMIT));
    let taken: u64 = pages(folder.path()).iter().map(|path| path.metadata().expect("there").len()).sum();
    assert!(taken <= quota && taken > quota / 2, "{taken}");
    let kept = cache.stats().sources[0].pages;
    assert!(kept >= 5, "{kept}");
    let (before, of_asked) = (store.sent(), asked.iter().map(|(_, r)| r.end - r.start).sum::<u64>());
    for (n, range) in &asked {
        check(&source, &store, *n, range.clone());
    }
    assert!(store.sent() - before < of_asked, "what is kept is found");
    assert_eq!(cache.stats().sources[0].pages, kept, "and stays");
    let (before, counts) = (store.sent(), cache.stats().sources[0].counts);
    check(&source, &store, 4, 19 * PAGE_BYTES + 3..19 * PAGE_BYTES + 10);
    assert!(store.sent() - before <= 7, "no page around it");
    assert_eq!(counts.corrupt, 0);
}

#[test]
fn a_folder_that_breaks_stops_keeping_and_no_reader() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let cache = open(folder.path(), QUOTA);
    let source = source(&cache);
    let of_source = folder.path().join(source.stats().key.to_string());
    std::fs::remove_dir_all(&of_source).expect("removed");
    std::fs::write(&of_source, b"in its place").expect("written");
    check_all(&source, &store);
    assert!(cache.flush(LIMIT));
    assert!(cache.stats().disk.expect("a disk").stopped.is_some());
    let before = store.sent();
    check(&source, &store, 3, 5..50);
    assert_eq!(store.sent() - before, 45, "as if there were no cache");
}

#[test]
fn a_read_that_fails_fails_for_all_who_wait_and_not_for_ever() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let cache = open(folder.path(), QUOTA);
    let source = source(&cache);
    for (fault, says) in [(Fault::Error, "is away"), (Fault::Dropped, "was dropped"), (Fault::Short, "were asked for")]
    {
        store.faults.lock().expect("a lock").push(fault);
        *store.held.lock().expect("a lock") = Some(Vec::new());
        let asked: Vec<Request> = (0..4).map(|n| file(&source, &store, 3).request(n..n + 100)).collect();
        store.let_go();
        for request in asked {
            let error = wait(request).expect_err("it failed");
            assert!(error.message().contains(says), "{error}");
        }
    }
    check(&source, &store, 3, 0..100);
    assert_eq!(store.sent(), PAGE_BYTES, "the first page once");
    assert!(cache.flush(LIMIT));
    assert_eq!(std::fs::read_dir(folder.path().join("claims")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_read_that_waits_for_another_process_has_the_page_when_that_has_it_or_lets_go() {
    for is_answered in [true, false] {
        let (folder, store) = (folder(), Arc::<Store>::default());
        let [first, second] = [0, 1].map(|_| open(folder.path(), QUOTA));
        let (of_first, of_second) = (source(&first), source(&second));
        *store.held.lock().expect("a lock") = Some(Vec::new());
        if !is_answered {
            store.faults.lock().expect("a lock").push(Fault::Error);
        }
        let asked = file(&of_first, &store, 3).request(0..100);
        let waiting = {
            let store = store.clone();
            std::thread::spawn(move || check(&of_second, &store, 3, 50..120))
        };
        store.let_go();
        assert_eq!(wait(asked).is_ok(), is_answered);
        waiting.join().expect("read");
        assert_eq!(store.sent(), PAGE_BYTES, "by one of them");
    }
}

#[test]
fn rows_and_bytes_share_one_quota_by_what_they_are_worth() {
    let (folder, store) = (folder(), Arc::<Store>::default());
    let quota = 40 << 20;
    let cache = open(folder.path(), quota);
    {
        let source = source(&cache);
        (0..2).for_each(|_| check_all(&source, &store));
        assert!(cache.flush(LIMIT));
    }
    let taken = || pages(folder.path()).iter().map(|path| path.metadata().expect("there").len()).sum::<u64>();
    assert!(taken() > 24 << 20, "{}", taken());
    // Costly rows that are used repeatedly; the files are no longer read.
    let schema = Arc::new(
        forebay_data::Schema::new(vec![forebay_data::Field::new("x", forebay_data::Kind::Bytes)]).expect("valid"),
    );
    let rows: Vec<forebay_cache::RowKey> =
        (0..300).map(|row| forebay_cache::RowKey { file: FileKey::of("rows", 1, "etag"), row }).collect();
    let prefix = cache.prefix(crate::common::prefix_key(1), &schema, 300, "rows");
    let memory = forebay_data::Memory::default();
    for _ in 0..12 {
        for rows in rows.chunks(30) {
            let look = prefix.look(rows, &memory);
            let missing = look.claim.rows().to_vec();
            let mut column = arrow_array::builder::LargeBinaryBuilder::new();
            missing.iter().for_each(|row| column.append_value(vec![*row as u8; 100_000]));
            let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(column.finish())];
            let nanos = 1_000_000_000 * missing.len() as u64;
            let computed = forebay_cache::Computed { rows: &missing, columns: &columns, filtered_out: &[], nanos };
            assert!(look.claim.fulfil(&computed).is_empty());
        }
        assert!(cache.flush(LIMIT));
    }
    assert!(taken() < 16 << 20, "made room: {}", taken());
    let listed = list(&location(folder.path()));
    assert!(listed.iter().map(|l| l.bytes).sum::<u64>() <= quota, "{listed:?}");
    check_all(&source(&cache), &store);
}

/// Reads new files until it is killed; run by the test below.
#[test]
#[ignore = "it never ends by itself"]
fn reads_until_killed() {
    let Some(folder) = std::env::var_os("FOREBAY_TEST_FOLDER") else { return };
    let store = Arc::<Store>::default();
    let cache = open(Path::new(&folder), QUOTA);
    let source = source(&cache);
    for n in 0u64.. {
        let key = FileKey::of(&format!("{n}-{}", std::process::id()), 200_000, "etag");
        read(&source.file(key, 200_000, store.fetch(n as usize % 7)), 0..200_000).expect("read");
    }
}

#[test]
fn a_reader_that_is_killed_leaves_nothing_half() {
    let folder = folder();
    let until = Instant::now() + LIMIT;
    let mut was_long = false;
    for round in 1..6u64 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "pages::reads_until_killed", "--ignored"])
            .env("FOREBAY_TEST_FOLDER", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let written =
            || forebay_cache::list(&location(folder.path())).map_or(0, |listed| listed.iter().map(|l| l.pages).sum());
        while written() < 30 * round && Instant::now() < until {
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let lengths = || pages(folder.path()).into_iter().map(|path| path.metadata().expect("there").len());
        was_long |= lengths().any(|len| len == 32 << 20);
        let (cache, store) = (open(folder.path(), QUOTA), Arc::<Store>::default());
        let verified = verify(&location(folder.path()));
        assert!(verified.bad.is_empty() && verified.pages >= 30 * round, "{verified:?}");
        assert!(lengths().all(|len| len < 32 << 20), "cut to what is in it");
        assert_eq!(std::fs::read_dir(folder.path().join("claims")).expect("there").count(), 0);
        check(&source(&cache), &store, 1, 0..SIZES[1]);
    }
    assert!(was_long, "it was killed while it wrote");
}

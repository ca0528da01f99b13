//! The folder on disk: kept across restarts, shared by processes, damaged, full, and left behind by killed processes.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use forebay_cache::{Cache, Prefix, PrefixKey};

const ROWS: u64 = 300;

fn prefix(cache: &Cache, n: u8) -> Arc<Prefix> {
    cache.prefix(prefix_key(n), &schema(), ROWS, "test of the folder")
}

fn all() -> Vec<u64> {
    (0..ROWS).collect()
}

fn written(folder: &Path) -> Arc<Cache> {
    let cache = open(0, Some((folder, 1 << 30)));
    assert_eq!(ask(&prefix(&cache, 1), &all()), all());
    assert!(cache.flush(LIMIT));
    cache
}

#[test]
fn what_is_kept_is_found_by_the_next_process_and_by_another_at_once() {
    let folder = folder();
    let first = written(folder.path());
    assert_eq!(ask(&prefix(&first, 1), &all()), [0; 0], "from disk, without memory");
    let second = open(1 << 20, Some((folder.path(), 1 << 30)));
    let rows: Vec<u64> = all().into_iter().rev().collect();
    assert_eq!(ask(&prefix(&second, 1), &rows), [0; 0]);
    assert_eq!(ask(&prefix(&second, 1), &rows), [0; 0]);
    let counts = second.stats().prefixes[0].counts;
    assert!(counts.disk_hits > 0 && counts.memory_hits == counts.disk_hits, "read once, then in memory: {counts:?}");
    assert_eq!(ask(&prefix(&second, 2), &[1, 2]), [1, 2], "another prefix");
    drop((first, second));
    let third = open(0, Some((folder.path(), 1 << 30)));
    assert_eq!(ask(&prefix(&third, 2), &[1, 2]), [0; 0], "written when it was dropped");
}

#[test]
fn rows_that_no_other_can_follow_are_written_at_once() {
    let folder = folder();
    let cache = open(0, Some((folder.path(), 1 << 30)));
    ask(&prefix(&cache, 1), &all()[1..]);
    ask(&prefix(&cache, 1), &[0]);
    // Much earlier than rows that wait for others.
    let until = Instant::now() + Duration::from_secs(8);
    let filtered = all().into_iter().filter(|row| is_without(*row)).count() as u64;
    while cache.stats().prefixes[0].disk_rows < ROWS - filtered {
        assert!(Instant::now() < until, "{:?}", cache.stats().prefixes[0]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_processes_keep_one_quota_and_leave_each_other_what_they_use() {
    let folder = folder();
    let quota = 40_000;
    let [a, b] = [0, 1].map(|_| open(0, Some((folder.path(), quota))));
    let (of_a, of_b) = (prefix(&a, 1), prefix(&b, 2));
    for _ in 0..3 {
        ask(&of_a, &all()[..60]);
        assert!(a.flush(LIMIT));
    }
    let kept = a.stats().prefixes[0].disk_rows;
    assert!(kept > 0);
    for _ in 0..6 {
        ask(&of_b, &all());
        assert!(b.flush(LIMIT));
        assert!(blocks(folder.path()).iter().map(|(_, bytes)| bytes).sum::<u64>() <= quota);
    }
    assert!(b.stats().prefixes[0].disk_rows > 0);
    assert_eq!(ask(&of_a, &all()[..60]).len() as u64, 0, "no process took a prefix in use");
    // When a process ends, others may evict its blocks.
    drop((of_a, a));
    let of_a = folder.path().join(prefix_key(1).to_string());
    unlocked(|| {
        ask(&of_b, &all());
        assert!(b.flush(LIMIT));
        !blocks(folder.path()).iter().any(|(path, _)| path.starts_with(&of_a))
    });
}

/// Waits for an effect of a released lock. A process that another test starts inherits the lock until it runs its
/// program.
fn unlocked(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "the lock is still held");
    }
}

fn damage(way: usize, bytes: &mut Vec<u8>) {
    match way {
        0 => bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 4),
        1 => bytes.truncate(bytes.len() / 2),
        2 => bytes.clear(),
        _ => bytes.fill(0),
    }
}

#[test]
fn broken_blocks_are_computed_again_and_removed_and_those_of_another_version_stay() {
    let folder = folder();
    drop(written(folder.path()));
    let (path, _) = blocks(folder.path()).into_iter().max_by_key(|(_, bytes)| *bytes).expect("a block");
    let good = std::fs::read(&path).expect("a block");
    for way in 0..4 {
        for before in [true, false] {
            let mut bytes = good.clone();
            std::fs::write(&path, &bytes).expect("written");
            damage(way, &mut bytes);
            if before {
                std::fs::write(&path, &bytes).expect("written");
            }
            let cache = open(0, Some((folder.path(), 1 << 30)));
            let prefix = prefix(&cache, 1);
            if !before {
                std::fs::write(&path, &bytes).expect("written");
            }
            assert!(!ask(&prefix, &all()).is_empty());
            assert_eq!(cache.stats().disk.expect("a disk").corrupt_blocks, 1);
            assert!(!path.exists());
            assert!(cache.flush(LIMIT));
            assert_eq!(ask(&prefix, &all()), [0; 0], "and kept again");
            drop((prefix, cache));
            blocks(folder.path()).iter().for_each(|(path, _)| std::fs::remove_file(path).expect("removed"));
        }
    }
    // The only text "1" is its format.
    let mut other = good.clone();
    let text = [1, 0, 0, 0, b'1', 0, 0, 0];
    let places: Vec<usize> = (0..other.len() - 8).filter(|&at| other[at..at + 8] == text).collect();
    places.iter().for_each(|at| other[at + 4] = b'9');
    std::fs::write(&path, &other).expect("written");
    let cache = open(0, Some((folder.path(), 1 << 30)));
    prefix(&cache, 1);
    let stats = cache.stats().disk.expect("a disk");
    assert_eq!((stats.corrupt_blocks, stats.other_blocks), (0, 1));
    assert!(path.exists());
}

#[test]
fn format_one_is_read_for_ever() {
    let folder = folder();
    let of_prefix = folder.path().join(prefix_key(1).to_string());
    std::fs::create_dir(&of_prefix).expect("made");
    for name in ["computed-1.arrow", "without-1.arrow"] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        std::fs::copy(golden, of_prefix.join(name)).expect("copied");
    }
    let cache = open(0, Some((folder.path(), 1 << 30)));
    assert_eq!(ask(&prefix(&cache, 1), &all()[..14]), [12, 13]);
}

#[test]
fn a_folder_that_breaks_stops_keeping_and_no_job() {
    let folder = folder();
    let cache = written(folder.path());
    let other = prefix(&cache, 2);
    std::fs::remove_dir_all(folder.path().join(prefix_key(2).to_string())).expect("removed");
    std::fs::write(folder.path().join(prefix_key(2).to_string()), b"in its place").expect("written");
    assert_eq!(ask(&other, &all()), all());
    assert!(cache.flush(LIMIT));
    let stats = cache.stats().disk.expect("a disk");
    assert!(stats.stopped.is_some(), "{stats:?}");
    assert_eq!(ask(&prefix(&cache, 1), &all()), [0; 0], "what is there is read all the same");
    assert_eq!(ask(&other, &[0, 1, 2, 3]), [0, 1, 2, 3]);

    let file = folder.path().join("file");
    std::fs::write(&file, b"not a folder").expect("written");
    let options = forebay_cache::Options {
        memory: 0,
        disk: Some(forebay_cache::Disk { folder: file.clone(), bytes: 1 << 20, sources: false }),
        store: None,
    };
    let error = Cache::open(&options).expect_err("it is no folder");
    assert!(error.message().contains("file") && error.get("hint").is_some(), "{error}");
}

#[test]
fn rows_that_two_wrote_are_counted_once_and_blocks_stay_large() {
    let folder = folder();
    let caches = [0, 1].map(|_| open(0, Some((folder.path(), 1 << 30))));
    let prefixes = caches.each_ref().map(|cache| prefix(cache, 1));
    // In parallel: neither knows the other's writes.
    let all = all();
    let (first, rest) = all.split_at(200);
    prefixes.iter().for_each(|prefix| assert_eq!(ask(prefix, first), first));
    caches.iter().for_each(|cache| assert!(cache.flush(LIMIT)));
    drop((prefixes, caches));
    let before = blocks(folder.path()).len();
    let cache = open(0, Some((folder.path(), 1 << 30)));
    let prefix = prefix(&cache, 1);
    assert_eq!(ask(&prefix, first), [0; 0]);
    let there = first.iter().filter(|&&row| !is_without(row)).count() as u64;
    assert_eq!(cache.stats().prefixes[0].disk_rows, there, "not twice");
    rest.chunks(5).for_each(|rows| assert_eq!(ask(&prefix, rows), rows));
    assert!(cache.flush(LIMIT));
    let more = blocks(folder.path()).len() - before;
    // One block of rows and one of filtered-out rows, and again when the ten seconds pass on a busy machine.
    assert!(more <= 6, "{more} blocks for {} rows", rest.len());
}

#[test]
fn where_its_disk_is_not_there_any_more_nothing_is_put_in_its_place() {
    let (disk, system) = (folder(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"));
    let device = |path: &Path| std::fs::metadata(path).expect("there").dev();
    if device(disk.path()) == device(system.path()) {
        // Without a second file system, `mount_guard`'s own tests cover this.
        let is_known = std::env::var_os("FOREBAY_TEST_ONE_DISK").is_some() || !cfg!(target_os = "linux");
        assert!(is_known, "/dev/shm and target/ are one file system: FOREBAY_TEST_ONE_DISK=1 leaves this test out");
        return;
    }
    let parent = folder();
    // A stand-in for a mount point, without a mount: a link to a folder on one disk or on another.
    let mounted = |at: &Path| {
        let _ = std::fs::remove_file(parent.path().join("mnt"));
        std::os::unix::fs::symlink(at, parent.path().join("mnt")).expect("linked");
    };
    for below in ["mnt/cache", "mnt"] {
        mounted(disk.path());
        let cache = written(&parent.path().join(below));
        let stopped = || cache.stats().disk.expect("a disk").stopped;
        assert!(stopped().is_none());
        mounted(system.path());
        ask(&prefix(&cache, 2), &all());
        assert!(cache.flush(LIMIT));
        assert!(stopped().is_some_and(|why| why.contains("is gone: another disk")), "{:?}", stopped());
        assert_eq!(std::fs::read_dir(system.path()).expect("there").count(), 0, "{below}");
    }
    // It is mounted again, with another device number.
    let cache = written(&parent.path().join("mnt/cache"));
    assert_eq!(std::fs::read_dir(system.path()).expect("there").count(), 1, "the process that is told to writes there");
    mounted(disk.path());
    assert_eq!(ask(&prefix(&cache, 1), &all()), [0; 0]);
    assert!(cache.stats().disk.expect("a disk").stopped.is_none());
}

#[test]
fn a_folder_that_was_removed_is_made_again_and_one_without_a_place_is_said_to_be_gone() {
    let parent = folder();
    let root = parent.path().join("cache");
    let cache = written(&root);
    std::fs::remove_dir_all(&root).expect("removed");
    let other = prefix(&cache, 2);
    assert_eq!(ask(&other, &all()), all());
    assert!(cache.flush(LIMIT));
    let stopped = || cache.stats().disk.expect("a disk").stopped;
    assert!(stopped().is_none() && !blocks(&root).is_empty(), "{:?}", stopped());
    // As when its disk is gone.
    std::fs::remove_dir_all(&root).expect("removed");
    std::fs::rename(parent.path(), parent.path().with_extension("away")).expect("renamed");
    ask(&prefix(&cache, 3), &all());
    assert!(cache.flush(LIMIT));
    std::fs::rename(parent.path().with_extension("away"), parent.path()).expect("renamed");
    assert!(stopped().is_some_and(|why| why.contains("is gone")), "{:?}", stopped());
}

#[test]
fn what_the_dead_leave_is_removed_and_what_the_living_write_is_not() {
    let folder = folder();
    let dead = folder.path().join("0123.500.tmp");
    let living = folder.path().join("4567.800.tmp");
    let foreign = folder.path().join("notes.txt");
    for path in [&dead, &living, &foreign] {
        std::fs::write(path, b"half a block").expect("written");
    }
    let held = std::fs::File::open(&living).expect("there");
    rustix::fs::flock(held.as_fd(), rustix::fs::FlockOperation::LockExclusive).expect("locked");
    // The bytes that the living process is writing are reserved.
    let cache = open(0, Some((folder.path(), 900)));
    assert_eq!([&dead, &living, &foreign].map(|path| path.exists()), [false, true, true]);
    ask(&prefix(&cache, 1), &all()[..2]);
    assert!(cache.flush(LIMIT));
    assert!(blocks(folder.path()).is_empty() && cache.stats().disk.expect("a disk").stopped.is_none());
    drop(held);
    unlocked(|| {
        drop(open(0, Some((folder.path(), 900))));
        !living.exists()
    });
}

#[test]
fn a_smaller_quota_drops_the_oldest() {
    let folder = folder();
    drop(written(folder.path()));
    let bytes: u64 = blocks(folder.path()).iter().map(|(_, bytes)| bytes).sum();
    let cache = open(0, Some((folder.path(), bytes - 1)));
    assert!(blocks(folder.path()).iter().map(|(_, bytes)| bytes).sum::<u64>() < bytes);
    assert!(!ask(&prefix(&cache, 1), &all()).is_empty());
}

#[test]
fn the_command_line_sees_what_is_there() {
    let folder = folder();
    let cache = written(folder.path());
    let used = prefix(&cache, 1);
    let in_use = || list(&location(folder.path()))[0].in_use;
    assert_eq!(in_use(), Some(true));
    drop((used, cache));
    assert_eq!(in_use(), Some(false));
    let listed = list(&location(folder.path()));
    let [one] = &listed[..] else { panic!("{listed:?}") };
    let without = all().into_iter().filter(|&row| is_without(row)).count() as u64;
    assert_eq!(
        (one.key, &*one.what, one.rows, one.filtered_out),
        (prefix_key(1), "test of the folder", ROWS - without, without)
    );
    let verified = verify(&location(folder.path()));
    assert_eq!((verified.blocks, verified.rows, &verified.bad[..]), (one.blocks, ROWS, &[][..]));

    let (path, _) = blocks(folder.path()).into_iter().max_by_key(|(_, bytes)| *bytes).expect("a block");
    let mut bytes = std::fs::read(&path).expect("a block");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let verified = verify(&location(folder.path()));
    assert_eq!(
        verified.bad.iter().map(|bad| (&bad.block, bad.broken)).collect::<Vec<_>>(),
        [(&path.display().to_string(), true)]
    );
    assert!(path.exists(), "it only looks");

    assert_eq!(forebay_cache::evict(&location(folder.path()), Some(prefix_key(2))).expect("evicted"), 0);
    assert_eq!(forebay_cache::evict(&location(folder.path()), Some(PrefixKey([1; 32]))).expect("evicted"), one.bytes);
    assert!(list(&location(folder.path())).is_empty());
    assert!(forebay_cache::list(&location(&folder.path().join("none"))).is_err());
    let own = tempfile::tempdir().expect("a folder");
    std::fs::write(own.path().join("thesis.arrow"), b"none of ours").expect("written");
    let error = forebay_cache::evict(&location(own.path()), None).expect_err("no cache");
    assert!(error.message().contains("no cache") && own.path().join("thesis.arrow").exists(), "{error}");
}

/// Writes until it is killed; run by the test below.
#[test]
#[ignore = "it never ends by itself"]
fn writes_until_killed() {
    let Some(folder) = std::env::var_os("FOREBAY_TEST_FOLDER") else { return };
    let cache = open(0, Some((Path::new(&folder), 1 << 30)));
    for n in 0.. {
        ask(&prefix(&cache, n % 200), &all()[..40]);
        cache.flush(LIMIT);
    }
}

#[test]
fn a_writer_that_is_killed_leaves_nothing_half() {
    let folder = folder();
    let until = Instant::now() + LIMIT;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "folder::writes_until_killed", "--ignored"])
            .env("FOREBAY_TEST_FOLDER", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let before = blocks(folder.path()).len();
        while blocks(folder.path()).len() < before + 3 + round && Instant::now() < until {
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let cache = open(0, Some((folder.path(), 1 << 30)));
        let verified = verify(&location(folder.path()));
        assert!(verified.bad.is_empty() && verified.blocks > 0, "{verified:?}");
        let rubbish = std::fs::read_dir(folder.path()).expect("there").flatten();
        assert_eq!(rubbish.filter(|e| e.path().extension().is_some_and(|e| e == "tmp")).count(), 0);
        ask(&prefix(&cache, 0), &all()[..40]);
    }
}

//! The contract of stores of sources: [`check_store`] runs the same checks on files of this machine, HTTP and S3.
//!
//! A new store adds a function that makes a [`Rig`] of it, and one test that calls [`check_store`].

#![expect(clippy::disallowed_methods, reason = "a test polls a file, and reads what it was started with")]

mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::{ErrorKind, Result};

use super::{Found, Object, Stat, list, stat, walk};
use crate::Allowed;

/// How long a test overwrites a local file at most until its modification time changes.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Puts bytes under a name.
type Put = Box<dyn Fn(&str, &[u8])>;

/// A store, and how its objects are changed.
struct Rig {
    /// The beginning of every name, without a slash at its end.
    root: String,
    put: Put,
    remove: Box<dyn Fn(&str)>,
    /// Whether it can list its objects.
    lists: bool,
}

impl Rig {
    fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Puts an object, and returns its name and its pinned identity.
    fn put(&self, name: &str, bytes: &[u8]) -> (String, Stat) {
        (self.put)(name, bytes);
        let uri = self.uri(name);
        let pinned = pin(&uri).unwrap_or_else(|e| panic!("{uri}: {e}"));
        (uri, pinned)
    }
}

fn pin(uri: &str) -> Result<Stat> {
    stat(uri, &Allowed::everything())
}

fn opened(uri: &str, pinned: &Stat) -> Result<Object> {
    Object::open(uri, pinned, None, &Allowed::everything())
}

fn read(uri: &str, pinned: &Stat, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    opened(uri, pinned)?.read_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// Runs all checks on a store.
fn check_store(rig: &Rig) {
    ranges_are_those_of_the_object(rig);
    names_may_have_spaces_and_other_letters(rig);
    what_is_missing_or_goes_is_named(rig);
    another_object_is_refused(rig);
    what_is_not_allowed_is_not_opened(rig);
    if rig.lists {
        a_list_has_what_matches_and_nothing_else(rig);
    } else {
        a_pattern_is_refused(rig);
    }
}

fn ranges_are_those_of_the_object(rig: &Rig) {
    for size in [0_usize, 1, 2, 1000, 300_000] {
        let object: Vec<u8> = (0..size).map(|n| (n * 7 + n / 256) as u8).collect();
        let (uri, pinned) = rig.put("ranges.bin", &object);
        assert_eq!(pinned.size, size as u64, "{uri}");
        let whole = opened(&uri, &pinned).expect("opens");
        assert_eq!((whole.size(), whole.uri()), (size as u64, &*uri));
        let ends = [0, 1, size / 2, size.saturating_sub(1), size].map(|end| end.min(size));
        for (from, to) in ends.iter().flat_map(|&from| ends.iter().map(move |&to| (from, to))).filter(|(a, b)| a <= b) {
            assert_eq!(read(&uri, &pinned, from as u64, to - from).as_deref(), Ok(&object[from..to]), "{uri}");
            if let Some(pending) = (from < to).then(|| whole.request(from as u64, to - from)).flatten() {
                let mut bytes = vec![0; to - from];
                pending.fill(&mut bytes).expect("arrives");
                assert_eq!(bytes, object[from..to], "{uri}: asked for ahead of time");
            }
            if let Some(mut body) = whole.stream(from as u64..to as u64, 1 << 16).expect("a request") {
                let mut bytes = Vec::new();
                while body.at() < body.end() {
                    bytes.extend_from_slice(&body.next(7000).expect("arrives"));
                }
                assert_eq!(bytes, object[from..to], "{uri}: streamed");
            }
        }
        for (offset, len) in [(size as u64, 1), (size as u64 + 1, 0), (0, size + 1), (u64::MAX, 1)] {
            let e = read(&uri, &pinned, offset, len).expect_err("it ends before");
            assert_eq!((e.kind(), e.get("file")), (ErrorKind::Data, Some(&*uri)), "{offset} {len}");
        }
    }
}

fn names_may_have_spaces_and_other_letters(rig: &Rig) {
    for name in ["a b.txt", "ü/é (1).txt", "plus+and&eq=.txt", "quote'd.txt", "日本/~.txt"] {
        let (uri, pinned) = rig.put(name, name.as_bytes());
        assert_eq!(read(&uri, &pinned, 0, name.len()).as_deref(), Ok(name.as_bytes()), "{uri}");
    }
}

fn what_is_missing_or_goes_is_named(rig: &Rig) {
    let missing = rig.uri("no such/ö.txt");
    let e = pin(&missing).expect_err("nothing is there");
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::NotFound, Some(&*missing)), "{e}");
    let (uri, pinned) = rig.put("goes.txt", b"still here");
    (rig.remove)("goes.txt");
    let e = read(&uri, &pinned, 0, 5).expect_err("it is gone");
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::NotFound, Some(&*uri)), "{e}");
}

fn another_object_is_refused(rig: &Rig) {
    let (uri, pinned) = rig.put("changes.txt", b"before");
    let open_before = opened(&uri, &pinned).expect("opens");
    let (_, now) = rig.put("changes.txt", b"after!");
    assert_ne!(pinned, now, "{uri}: an object of the same size is another one");
    let mut bytes = [0; 6];
    for e in [read(&uri, &pinned, 0, 6).expect_err("changed"), open_before.read_at(0, &mut bytes).expect_err("changed")]
    {
        assert_eq!((e.kind(), e.get("file")), (ErrorKind::Data, Some(&*uri)), "{e}");
        assert_eq!(e.message(), "this file changed since it was indexed");
    }
    assert_eq!(read(&uri, &now, 0, 6).as_deref(), Ok(&b"after!"[..]));
}

fn what_is_not_allowed_is_not_opened(rig: &Rig) {
    let (inside, pinned) = rig.put("given/a.txt", b"a");
    let (outside, other) = rig.put("given-not/a.txt", b"b");
    let rule = rig.uri("given/");
    let allowed = Allowed::of(&[&[rule]], false).expect("a rule");
    let open = |uri: &str, pinned| Object::open(uri, pinned, None, &allowed);
    open(&inside, &pinned).expect("it is allowed");
    let e = open(&outside, &other).expect_err("it is not");
    assert_eq!(e.kind(), ErrorKind::PermissionDenied, "{e}");
}

fn a_list_has_what_matches_and_nothing_else(rig: &Rig) {
    // More names than a page of a list has, and two folders of which one name is the beginning of the other.
    let names = ["part/a.txt", "part/b c.txt", "part/é 100%.txt", "part/deep/d.txt", "part/.hidden.txt", "part/e.bin"];
    for name in names.iter().chain(&["part2/a.txt", "partly.txt"]) {
        (rig.put)(name, name.as_bytes());
    }
    let content = |found: &Found| {
        let pinned = pin(&found.uri).expect("it is there");
        assert!(found.stat.as_ref().is_none_or(|told| *told == pinned), "{}: not what the list says", found.uri);
        String::from_utf8(read(&found.uri, &pinned, 0, pinned.size as usize).expect("reads")).expect("its name")
    };
    let contents = |found: Vec<Found>| found.iter().map(content).collect::<Vec<_>>();
    let listed = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|pattern| rig.uri(pattern)).collect();
        contents(list(&patterns).expect("lists"))
    };
    assert_eq!(listed(&["part/*.txt"]), ["part/a.txt", "part/b c.txt", "part/é 100%.txt"]);
    assert_eq!(listed(&["part/**/d*"]), ["part/deep/d.txt"]);
    assert_eq!(listed(&["part*/a.txt"]), ["part/a.txt", "part2/a.txt"]);
    assert_eq!(listed(&["part2/*", "part/?.txt"]), ["part2/a.txt", "part/a.txt"], "patterns keep their order");
    assert_eq!(listed(&["part/{b c,a}.txt"]), ["part/b c.txt", "part/a.txt"]);
    let none = rig.uri("part/*.jpg");
    let e = list(std::slice::from_ref(&none)).expect_err("nothing matches");
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::NotFound, Some(&*none)), "{e}");
    let (folders, found) = walk(&rig.uri("part"), &|name| name.ends_with(".txt")).expect("walks");
    assert_eq!(folders, ["deep"]);
    assert_eq!(contents(found), ["part/a.txt", "part/b c.txt", "part/deep/d.txt", "part/é 100%.txt"]);
}

fn a_pattern_is_refused(rig: &Rig) {
    let pattern = rig.uri("part/*.txt");
    let e = list(std::slice::from_ref(&pattern)).expect_err("it cannot list");
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::Invalid, Some(&*pattern)), "{e}");
    assert!(walk(&rig.uri("part"), &|_| true).is_err_and(|e| e.kind() == ErrorKind::Invalid));
}

/// Overwrites a file until its modification time changes.
fn write_here(path: &Path, bytes: &[u8]) {
    let modified = || std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let (before, start) = (modified(), Instant::now());
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    loop {
        std::fs::write(path, bytes).expect("written");
        if modified() != before {
            return;
        }
        assert!(start.elapsed() < WAIT_MAX, "the time of a file does not move");
    }
}

fn local(folder: PathBuf) -> Rig {
    let root = folder.display().to_string();
    let to_remove = folder.clone();
    Rig {
        root,
        put: Box::new(move |name, bytes| write_here(&folder.join(name), bytes)),
        remove: Box::new(move |name| std::fs::remove_file(to_remove.join(name)).expect("removed")),
        lists: true,
    }
}

/// Objects below a folder of a server.
fn served(server: SocketAddr, root: String, folder: &'static str, lists: bool) -> Rig {
    Rig {
        root,
        put: Box::new(move |name, bytes| server::ask(server, "PUT", &format!("{folder}/{name}"), bytes)),
        remove: Box::new(move |name| server::ask(server, "DELETE", &format!("{folder}/{name}"), b"")),
        lists,
    }
}

#[test]
fn files_of_this_machine_are_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    check_store(&local(folder.path().join("plain")));
    check_store(&local(folder.path().join("ein Ördner")));
}

#[test]
fn an_http_server_is_a_store() {
    let server = server::start();
    check_store(&served(server, format!("http://{server}/data"), "/data", false));
}

/// The settings of S3 come from the environment, which the tests of a process share.
#[test]
fn s3_is_a_store() {
    let server = server::start();
    let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "store::tests::s3_in_a_process_of_its_own", "--ignored"]);
    child.env("AWS_ENDPOINT", format!("http://{server}")).env("AWS_REGION", "us-east-1");
    child.env("AWS_ACCESS_KEY_ID", "a key").env("AWS_SECRET_ACCESS_KEY", "a secret");
    let done = child.output().expect("runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
#[ignore = "s3_is_a_store runs it, with settings of S3"]
fn s3_in_a_process_of_its_own() {
    let endpoint = std::env::var("AWS_ENDPOINT").expect("s3_is_a_store sets it");
    let server = endpoint.trim_start_matches("http://").parse().expect("an address");
    check_store(&served(server, "s3://bucket/data".to_owned(), "/bucket/data", true));
}

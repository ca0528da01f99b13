//! Files behind an HTTP server yield the same rows as local files.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{index, open, places, rows, stream_all, tar_of, write};
use forebay_core::{Epoch, ErrorKind};
use forebay_io::{Draft, Features, Reader, SourceIndex, Together, infer};
use forebay_plan::{EpochLanes, LaneLayout, LaneWindow, Source};

/// Serves a folder with ranges and etags; `generation` is part of every etag, `sent` are the bytes that were sent.
#[derive(Clone, Default)]
struct Server {
    address: String,
    generation: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
}

fn serve(root: PathBuf) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let server = Server { address, ..Server::default() };
    let counts = server.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (root, server) = (root.clone(), counts.clone());
            std::thread::spawn(move || while answer(&stream, &root, &server).is_some() {});
        }
    });
    server
}

fn answer(stream: &TcpStream, root: &std::path::Path, server: &Server) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut range = None;
    for line in lines.by_ref().map_while(Result::ok).take_while(|l| !l.is_empty()) {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            let (a, b) = bytes.split_once('-')?;
            range = Some(a.parse::<usize>().ok()?..b.parse::<usize>().ok()? + 1);
        }
    }
    server.requests.fetch_add(1, Ordering::Relaxed);
    let mut words = first.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let Ok(bytes) = std::fs::read(root.join(path.trim_start_matches('/'))) else {
        return (&*stream).write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let total = bytes.len();
    let (status, part) = match range {
        Some(r) if r.end <= total => {
            (format!("206 Partial Content\r\nContent-Range: bytes {}-{}/{total}", r.start, r.end - 1), &bytes[r])
        }
        Some(_) => return None,
        None => ("200 OK".to_owned(), &bytes[..]),
    };
    let etag = server.generation.load(Ordering::Relaxed);
    let head = format!(
        "HTTP/1.1 {status}\r\nETag: \"{etag}\"\r\nLast-Modified: Tue, 01 Oct 2024 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
        part.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        for some in part.chunks(16 << 10) {
            stream.write_all(some).ok()?;
            server.sent.fetch_add(some.len() as u64, Ordering::Relaxed);
        }
    }
    stream.flush().ok()
}

#[test]
fn remote_rows_are_the_local_rows() {
    let server = serve(crate::support::golden("").into());
    let url = |name: &str| vec![format!("{}/{name}", server.address)];
    let here = |name: &str| vec![crate::support::golden(name)];
    // Except lists, some of which are missing in that file, which is an error of those rows (`golden.rs`).
    let columns = ["id", "x", "flag", "name", "raw", "bits", "image", "user.age", "user.at.lat"].map(str::to_owned);
    let drafts = |paths: &dyn Fn(&str) -> Vec<String>| {
        [
            Draft::Tar { paths: paths("{webdataset,webdataset}.tar"), extensions: None },
            Draft::Tfrecord { paths: paths("tensorflow.tfrecord"), features: Features::Infer, verify: true },
            Draft::Parquet {
                paths: paths("pyarrow.parquet"),
                columns: Some(columns.to_vec()),
                nullable: None,
                together: Together::default(),
            },
            Draft::Jsonl { paths: paths("python.jsonl"), fields: None },
            Draft::Text { paths: paths("python.jsonl") },
        ]
    };
    for (remote, local) in drafts(&url).into_iter().zip(drafts(&here)) {
        let (remote, local) = (infer(remote, None).expect("infers"), infer(local, None).expect("infers"));
        assert_eq!(remote.schema().expect("valid"), local.schema().expect("valid"));
        let (far, near) = (index(&remote, true).expect("indexes"), index(&local, true).expect("indexes"));
        assert_eq!((far.rows(), far.blocks(), far.bytes()), (near.rows(), near.blocks(), near.bytes()));
        let order: Vec<u64> = (0..far.rows().expect("counted")).rev().collect();
        let (far, near) = (open(&remote, &far).expect("opens"), open(&local, &near).expect("opens"));
        let gather = |r: &dyn forebay_io::Reader| rows(&[r.gather(&places(order.iter().copied())).expect("reads")]);
        assert_eq!(gather(&*far), gather(&*near));
        let listed = index(&remote, false).expect("lists");
        let streamed = open(&remote, &listed).expect("opens");
        let mut streamed = rows(&stream_all(&*streamed, listed.blocks(), 3).expect("streams"));
        streamed.reverse();
        assert_eq!(streamed, gather(&*near));
    }
}

#[test]
fn many_small_remote_members_take_few_requests() {
    let dir = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..400).map(|i| format!("{i:04}.cls")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), &b"x"[..])).collect();
    write(dir.path(), "t.tar", &tar_of(&members));
    let server = serve(dir.path().to_path_buf());
    let source =
        infer(Draft::Tar { paths: vec![format!("{}/t.tar", server.address)], extensions: None }, None).expect("infers");
    let index = index(&source, true).expect("indexes");
    let reader = open(&source, &index).expect("opens");
    let before = server.requests.load(Ordering::Relaxed);
    assert_eq!(reader.gather(&places((0..400).rev())).expect("reads").num_rows(), 400);
    assert_eq!(server.requests.load(Ordering::Relaxed) - before, 1);
}

/// Twelve files of lines in a store, and their windows.
struct Lines {
    server: Server,
    source: Source,
    index: SourceIndex,
    layout: LaneLayout,
    /// The lanes of two epochs.
    lanes: [Arc<EpochLanes>; 2],
    _dir: tempfile::TempDir,
}

impl Lines {
    const ROWS: usize = 12 * 500;

    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let line = format!("{}\n", "x".repeat(4 << 10));
        let names: Vec<String> = (0..12).map(|i| format!("{i:02}.txt")).collect();
        names.iter().for_each(|name| drop(write(dir.path(), name, line.repeat(500).as_bytes())));
        let server = serve(dir.path().to_path_buf());
        let paths = names.iter().map(|name| format!("{}/{name}", server.address)).collect();
        let source = infer(Draft::Text { paths }, None).expect("infers");
        let index = index(&source, false).expect("lists");
        let sizes: Vec<u64> = index.files().map(|file| file.size).collect();
        let layout = LaneLayout::new(index.blocks(), index.bytes(), 1 << 20, true);
        let lanes = [7, 8].map(|key| Arc::new(EpochLanes::new(layout, &sizes, key)));
        assert!(layout.windows() > 20, "{}", layout.windows());
        server.sent.store(0, Ordering::Relaxed);
        Self { server, source, index, layout, lanes, _dir: dir }
    }

    fn window(&self, epoch: usize, number: u64) -> LaneWindow {
        LaneWindow { lanes: self.lanes[epoch].clone(), number, epoch: Epoch(epoch as u64) }
    }

    /// Reads a window, and returns its number of rows.
    fn read(&self, reader: &dyn Reader, epoch: usize, number: u64) -> usize {
        let chunks = reader.window(&self.window(epoch, number), 64, 0).expect("reads");
        chunks.map(|chunk| chunk.expect("reads").num_rows()).sum()
    }

    /// Checks that the store sent at most this percentage of the files' bytes.
    fn check_sent(&self, percent: u64) {
        let (sent, bytes) = (self.server.sent.load(Ordering::Relaxed), self.index.bytes());
        assert!(sent * 100 < bytes * percent, "{sent} bytes of {bytes} were sent");
    }
}

/// Reads neighbouring windows by two threads, the later one first.
#[test]
fn windows_that_threads_begin_in_another_order_are_sent_once() {
    let lines = Lines::new();
    let reader = open(&lines.source, &lines.index).expect("opens");
    let numbers: Vec<u64> = (0..lines.layout.windows()).collect();
    let rows: usize = numbers
        .chunks(2)
        .map(|pair| {
            let announced: Vec<_> = pair.iter().map(|&n| reader.announce_window(&lines.window(0, n))).collect();
            std::thread::scope(|scope| {
                let (begins, begun) = std::sync::mpsc::channel();
                let later = pair.get(1).map(|&number| {
                    let (lines, reader) = (&lines, &*reader);
                    scope.spawn(move || {
                        begins.send(()).expect("it waits");
                        lines.read(reader, 0, number)
                    })
                });
                begun.recv().ok();
                let rows = lines.read(&*reader, 0, pair[0]) + later.map_or(0, |later| later.join().expect("reads"));
                drop(announced);
                rows
            })
        })
        .sum();
    assert_eq!(rows, Lines::ROWS);
    lines.check_sent(110);
}

/// Two workers that share a group of lanes read runs of windows in turns. They know that from the first epoch.
#[test]
fn runs_of_windows_that_two_processes_read_are_seldom_sent_twice() {
    let lines = Lines::new();
    let readers = [0, 1].map(|_| open(&lines.source, &lines.index).expect("opens"));
    for (reader, number) in [(&readers[0], 0), (&readers[1], 8), (&readers[0], 16)] {
        lines.read(&**reader, 0, number);
    }
    lines.server.sent.store(0, Ordering::Relaxed);
    let numbers: Vec<u64> = (0..lines.layout.windows()).collect();
    let rows: usize = numbers
        .chunks(8)
        .zip(readers.iter().cycle())
        .map(|(run, reader)| {
            let announced: Vec<_> = run.iter().map(|&n| reader.announce_window(&lines.window(1, n))).collect();
            let rows = run.iter().map(|&number| lines.read(&**reader, 1, number)).sum::<usize>();
            drop(announced);
            rows
        })
        .sum();
    assert_eq!(rows, Lines::ROWS);
    lines.check_sent(125);
}

#[test]
fn a_remote_file_that_changed_is_refused_and_a_missing_one_named() {
    let server = serve(crate::support::golden("").into());
    let path = format!("{}/python.jsonl", server.address);
    let source = infer(Draft::Text { paths: vec![path.clone()] }, None).expect("infers");
    let reader = open(&source, &index(&source, true).expect("indexes")).expect("opens");
    reader.gather(&places([1])).expect("reads");
    server.generation.store(7, Ordering::Relaxed);
    let e = reader.gather(&places([1])).expect_err("changed");
    assert_eq!((e.kind(), e.message()), (ErrorKind::Data, "this file changed since it was indexed"));
    assert_eq!((e.get("file"), e.get("is")), (Some(path.as_str()), Some("1307 bytes, etag \"7\"")));
    let missing = format!("{}/no.tar", server.address);
    let e = infer(Draft::Tar { paths: vec![missing.clone()], extensions: None }, None).expect_err("missing");
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::NotFound, Some(missing.as_str())));
    let e = infer(Draft::Tar { paths: vec![format!("{}/*.tar", server.address)], extensions: None }, None)
        .expect_err("no listing");
    assert_eq!((e.kind(), e.get("hint")), (ErrorKind::Invalid, Some("use braces, for example {0000..0099}")));
    let e = infer(Draft::Tar { paths: vec!["ftp://x/y".into()], extensions: None }, None).expect_err("no such store");
    assert_eq!(e.kind(), ErrorKind::Invalid);
}

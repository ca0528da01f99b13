//! A server of objects in memory, for HTTP and for the S3 requests of these tests: ranges, etags, lists in pages, puts,
//! deletes.

#![expect(clippy::disallowed_methods, reason = "a server has threads")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The objects of a page of a list.
const PAGE: usize = 2;

/// Objects by their paths, which begin with a slash.
type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Starts a server, which ends with the process.
pub(super) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let objects = Objects::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let objects = objects.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                while let Some(request) = Request::read(&mut reader) {
                    if (&stream).write_all(&request.answer(&objects)).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// Puts an object on a server, or deletes it.
pub(super) fn ask(server: SocketAddr, method: &str, path: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(server).expect("the server is there");
    let path: String = path.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>().replace("%2F", "/");
    let head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).expect("asked");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 200", "{method} {path}");
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<&TcpStream>) -> Option<Self> {
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
            Some(line.trim_end().to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (decoded(name), decoded(value)));
        let query = query.split('&').filter_map(pair).collect();
        Some(Self { method, path: decoded(path), query, headers, body })
    }

    fn answer(self, objects: &Objects) -> Vec<u8> {
        let mut objects = objects.lock().expect("not poisoned");
        match (self.method.as_str(), self.query.contains_key("list-type")) {
            ("PUT", _) => {
                objects.insert(self.path, self.body);
                answer("200 OK", "", b"")
            }
            ("DELETE", _) => {
                objects.remove(&self.path);
                answer("200 OK", "", b"")
            }
            ("GET", true) => answer("200 OK", "", self.list(&objects).as_bytes()),
            ("GET" | "HEAD", _) => objects.get(&self.path).map_or_else(not_found, |object| self.object(object)),
            _ => answer("405 Method Not Allowed", "", b""),
        }
    }

    fn object(&self, object: &[u8]) -> Vec<u8> {
        let etag = etag(object);
        let told = format!("ETag: {etag}\r\nLast-Modified: Tue, 01 Oct 2024 00:00:00 GMT\r\n");
        if self.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
            return answer("412 Precondition Failed", "", b"");
        }
        let range = self.headers.get("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some(first.parse::<usize>().ok()?..last.parse::<usize>().ok()? + 1)
        });
        let (status, told, part) = match range {
            None => ("200 OK", told, object),
            Some(range) if range.start >= object.len() => ("416 Range Not Satisfiable", told, &[][..]),
            Some(range) => {
                let range = range.start..range.end.min(object.len());
                let of = format!("Content-Range: bytes {}-{}/{}\r\n", range.start, range.end - 1, object.len());
                ("206 Partial Content", told + &of, &object[range])
            }
        };
        let mut answer = answer(status, &told, part);
        if self.method == "HEAD" {
            answer.truncate(answer.len() - part.len());
        }
        answer
    }

    /// The path is that of the bucket.
    fn list(&self, objects: &BTreeMap<String, Vec<u8>>) -> String {
        let bucket = format!("{}/", self.path.trim_end_matches('/'));
        let prefix = self.query.get("prefix").map_or("", String::as_str);
        let after = self.query.get("continuation-token").map_or("", String::as_str);
        let keys = objects.iter().filter_map(|(path, object)| Some((path.strip_prefix(&bucket)?, object)));
        let mut found = keys.filter(|(key, _)| key.starts_with(prefix) && *key > after);
        let entry = |(key, object): &(&str, &Vec<u8>)| {
            let key = key.replace('&', "&amp;").replace('<', "&lt;");
            let (size, etag) = (object.len(), etag(object).replace('"', "&quot;"));
            format!(
                "<Contents><Key>{key}</Key><LastModified>2024-10-01T00:00:00.000Z</LastModified><ETag>{etag}</ETag><Size>{size}</Size></Contents>"
            )
        };
        let page: Vec<_> = found.by_ref().take(PAGE).collect();
        let next = found.next().and(page.last()).map_or(String::new(), |(key, _)| {
            format!("<NextContinuationToken>{}</NextContinuationToken>", key.replace('&', "&amp;"))
        });
        let entries: String = page.iter().map(entry).collect();
        format!("<ListBucketResult><IsTruncated>{}</IsTruncated>{next}{entries}</ListBucketResult>", !next.is_empty())
    }
}

fn not_found() -> Vec<u8> {
    answer("404 Not Found", "", b"<Error><Code>NoSuchKey</Code></Error>")
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn etag(object: &[u8]) -> String {
    format!("\"{}\"", blake3::hash(object).to_hex())
}

/// Decodes percent-encoded characters (`%20`).
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        let hex = (*first == b'%').then(|| std::str::from_utf8(more.get(..2)?).ok()).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &more[2..]).1,
            None => (bytes.push(*first), rest = more).1,
        }
    }
    String::from_utf8(bytes).expect("utf-8")
}

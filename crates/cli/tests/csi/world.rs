//! A node of a cluster as far as the CSI driver sees it: kubelet's calls over the socket, folders of pods, and a store.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_csi::v1::node_client::NodeClient;
use forebay_csi::v1::volume_capability::access_mode::Mode;
use forebay_csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use forebay_csi::v1::{
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeUnpublishVolumeRequest,
    VolumeCapability,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// No step takes longer unless it is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// Why no driver can run here.
pub(crate) fn cannot_mount() -> Option<String> {
    if let Err(e) = File::options().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse cannot be opened: {e}"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default().trim();
    // Root of a container may lack the capability to mount (CAP_SYS_ADMIN, number 21).
    let may = u64::from_str_radix(rights, 16).is_ok_and(|rights| rights >> 21 & 1 == 1);
    (!may).then(|| "this process may not mount".to_owned())
}

/// Says whether the system hands reads of a dead process on to the next one.
pub(crate) fn hands_reads_on() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("there");
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(9))
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// Runs `act`, and fails the test if it does not end in time: with a broken driver it may wait for ever.
pub(crate) fn in_time<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    std::thread::spawn(move || drop(send.send(act())));
    receive.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{what} takes too long"))
}

/// Bytes that are different in each place.
pub(crate) fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) type Sources<'a> = &'a [(&'a str, &'a str)];

fn json(sources: Sources<'_>) -> String {
    let source = |(name, location): &(&str, &str)| match name.is_empty() {
        true => format!(r#"{{"location":"{location}"}}"#),
        false => format!(r#"{{"location":"{location}","subDirName":"{name}"}}"#),
    };
    format!("[{}]", sources.iter().map(source).collect::<Vec<_>>().join(","))
}

pub(crate) fn capability(mode: Mode) -> VolumeCapability {
    let access_type = Some(AccessType::Mount(MountVolume::default()));
    VolumeCapability { access_mode: Some(AccessMode { mode: mode as i32 }), access_type }
}

/// See the module's documentation.
pub(crate) struct Node {
    folder: TempDir,
    driver: Option<Child>,
    runtime: Runtime,
    extra: Vec<String>,
}

impl Node {
    /// Starts a driver that may show the files in `data`.
    pub(crate) fn new(extra: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("forebay-csi-").tempdir().expect("a folder");
        for name in ["data", "pods", "ssd"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let extra = extra.iter().map(|argument| (*argument).to_owned()).collect();
        let mut node = Self { folder, driver: None, runtime: runtime.expect("a runtime"), extra };
        node.start();
        node
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.at("csi.sock").display())
    }

    /// Starts the driver, or the next one.
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(FOREBAY);
        command.args(["csi", "--node", "one", "--endpoint", &self.endpoint()]);
        command.arg("--state").arg(self.at("state")).arg("--local").arg(self.at("data"));
        command.arg("--tier").arg(self.at("ssd")).args(&self.extra);
        command.envs([("FOREBAY_STORE_TIMEOUT", "2"), ("FOREBAY_STORE_PATIENCE", "2"), ("FOREBAY_LOG", "warn")]);
        let log = File::options().create(true).append(true).open(self.at("log")).expect("a log");
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut driver = spawned.expect("it starts");
        let mut line = String::new();
        BufReader::new(driver.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, format!("serving {} as node one\n", self.endpoint()), "{}", self.log());
        self.driver = Some(driver);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    /// Ends the driver with SIGKILL.
    pub(crate) fn kill_driver(&mut self) {
        let mut driver = self.driver.take().expect("it runs");
        driver.kill().expect("killed");
        driver.wait().expect("waited for");
    }

    /// Ends the processes of this node whose command line contains `word` with SIGKILL, and waits until they are gone.
    /// Returns how many.
    pub(crate) fn kill(&self, word: &str) -> usize {
        let found = self.processes().into_iter().filter(|(_, line)| line.contains(word));
        let numbers: Vec<_> = found.map(|(number, _)| number).collect();
        for number in &numbers {
            let killed = Command::new("kill").args(["-9", &number.to_string()]).status();
            assert!(killed.expect("it starts").success() || !Path::new(&format!("/proc/{number}")).exists());
        }
        wait_until("killed processes are gone", || {
            self.processes().iter().all(|(number, _)| !numbers.contains(number))
        });
        numbers.len()
    }

    /// The processes of this node besides the driver: their numbers and command lines.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let own = self.driver.as_ref().map(Child::id);
        let text = self.folder.path().to_string_lossy().into_owned();
        let found = std::fs::read_dir("/proc").expect("there").flatten().filter_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(&text) && Some(number) != own).then_some((number, line))
        });
        found.collect()
    }

    /// The mounts of this node: their folders.
    pub(crate) fn mounts(&self) -> Vec<String> {
        let text = self.folder.path().to_string_lossy().into_owned();
        let all = std::fs::read_to_string("/proc/self/mountinfo").expect("there");
        let folders = all.lines().filter_map(|line| line.split(' ').nth(4)).filter(|folder| folder.contains(&text));
        folders.map(str::to_owned).collect()
    }

    fn client(&self) -> NodeClient<Channel> {
        let endpoint = Endpoint::try_from(self.endpoint()).expect("an endpoint");
        NodeClient::new(self.runtime.block_on(endpoint.connect()).expect("it answers"))
    }

    pub(crate) fn request(&self, id: &str, pod: &str, sources: Sources<'_>) -> NodePublishVolumeRequest {
        let target =
            if pod.is_empty() { String::new() } else { self.at("pods").join(pod).to_string_lossy().into_owned() };
        NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target,
            volume_capability: Some(capability(Mode::MultiNodeReaderOnly)),
            readonly: true,
            secrets: HashMap::new(),
            volume_context: HashMap::from([("sources".to_owned(), json(sources))]),
        }
    }

    pub(crate) fn call(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.runtime.block_on(self.client().node_publish_volume(request)).map(|_| ())
    }

    pub(crate) fn publish(&self, id: &str, pod: &str, sources: Sources<'_>) -> Result<(), Status> {
        self.call(self.request(id, pod, sources))
    }

    /// Publishes as a kubelet does: tries again while the driver changes the volume itself.
    pub(crate) fn publish_in_the_end(&self, id: &str, pod: &str, sources: Sources<'_>) -> Result<(), Status> {
        let mut published = self.publish(id, pod, sources);
        wait_until("the volume is free", || match &published {
            Err(e) if e.code() == Code::Aborted => {
                published = self.publish(id, pod, sources);
                false
            }
            _ => true,
        });
        published
    }

    pub(crate) fn unpublish(&self, id: &str, pod: &str) -> Result<(), Status> {
        let target_path = self.request(id, pod, &[]).target_path;
        let request = NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path };
        self.runtime.block_on(self.client().node_unpublish_volume(request)).map(|_| ())
    }

    pub(crate) fn stats(&self, id: &str, pod: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let volume_path = self.request(id, pod, &[]).target_path;
        let request = NodeGetVolumeStatsRequest { volume_id: id.to_owned(), volume_path };
        self.runtime.block_on(self.client().node_get_volume_stats(request)).map(tonic::Response::into_inner)
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Reads a file of a pod as a whole.
    pub(crate) fn read(&self, pod: &str, name: &str) -> Vec<u8> {
        let path = self.at("pods").join(pod).join(name);
        let aborted = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionAborted && !hands_reads_on();
        let read = in_time(&format!("reading {}", path.display()), move || {
            loop {
                match std::fs::read(&path) {
                    Err(e) if aborted(&e) => {}
                    read => return read,
                }
            }
        });
        read.unwrap_or_else(|e| panic!("{pod}/{name}: {e}; {}", self.log()))
    }

    /// Checks that no mount, process or folder of any volume is left.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.mounts(), [""; 0]);
        wait_until("the holder ends", || self.processes().is_empty());
        let left = std::fs::read_dir(self.at("state/volumes")).expect("there").count();
        assert_eq!((left, std::fs::read_dir(self.at("pods")).expect("there").count()), (0, 0), "{}", self.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.driver.is_some() {
            self.kill_driver();
        }
        self.kill("");
        for folder in self.mounts().into_iter().rev() {
            let _ = Command::new("umount").args(["-l", &folder]).stderr(Stdio::null()).status();
        }
    }
}

/// Expects a refusal with a code and a text.
pub(crate) fn refused(done: Result<(), Status>, code: Code, text: &str) {
    let status = done.expect_err(text);
    assert_eq!((status.code(), status.message().contains(text)), (code, true), "{status:?}");
    assert!(!status.message().contains('\n'), "an event has one line: {status:?}");
}

/// Reads a range of an open file.
pub(crate) fn read_at(file: &File, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let file = file.try_clone()?;
    in_time("reading an open file", move || {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).map(|()| bytes)
    })
}

/// A web server with one file, which answers requests for ranges from [`GATED`] on only once its gate is open. One without a
/// file takes requests and answers none.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) is_open: Arc<AtomicBool>,
    /// Requests that wait at the gate, or did.
    pub(crate) waited: Arc<AtomicUsize>,
}

/// See [`Web`].
pub(crate) const GATED: usize = 1 << 20;

impl Web {
    pub(crate) fn new(file: Option<Vec<u8>>, is_open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/file.bin", listener.local_addr().expect("bound"));
        let web = Self { url, is_open: Arc::new(AtomicBool::new(is_open)), waited: Arc::default() };
        let (is_open, waited) = (web.is_open.clone(), web.waited.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (file, is_open, waited) = (file.clone(), is_open.clone(), waited.clone());
                std::thread::spawn(move || match file {
                    Some(file) => answer(stream, &file, &is_open, &waited),
                    // Until the caller gives up.
                    None => std::io::copy(&mut &stream, &mut std::io::sink()).map(|_| ()),
                });
            }
        });
        web
    }
}

fn answer(stream: TcpStream, file: &[u8], is_open: &AtomicBool, waited: &AtomicUsize) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut head = String::new();
    for line in lines.by_ref() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        head += &format!("{line}\n");
    }
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")?.split_once('-'));
    let last = file.len() - 1;
    let number = |text: &str, default: usize| text.parse().unwrap_or(default).min(last);
    let (code, first, end) = match range {
        Some((first, end)) => ("206 Partial Content", number(first, 0), number(end, last)),
        None => ("200 OK", 0, last),
    };
    if first >= GATED && !is_open.load(Ordering::Relaxed) {
        waited.fetch_add(1, Ordering::Relaxed);
        wait_until("the gate opens", || is_open.load(Ordering::Relaxed));
    }
    let body = if head.starts_with("head") { &[][..] } else { &file[first..=end] };
    let (length, whole) = (end + 1 - first, file.len());
    let said = format!(
        "HTTP/1.1 {code}\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{end}/{whole}\r\nETag: \"one\"\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n"
    );
    (&stream).write_all(said.as_bytes())?;
    (&stream).write_all(body)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    std::io::copy(&mut (&stream).take(1), &mut std::io::sink()).map(|_| ())
}

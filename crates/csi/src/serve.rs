//! The driver as a process: its socket, its state folder, and the watch thread.

use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use forebay_core::{Error, ErrorKind, Result};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::driver::Driver;
use crate::holder::alone;
use crate::holding::Holding;
use crate::places::Places;
use crate::service::Calls;
use crate::v1::identity_server::IdentityServer;
use crate::v1::node_server::NodeServer;
use crate::volume::Node;

/// Longest message of a call.
const MESSAGE_MAX: usize = 1 << 20;

/// Options of the driver.
#[derive(Debug)]
pub struct CsiOptions {
    /// The socket: `unix:///csi/csi.sock`, or its path.
    pub endpoint: String,
    /// The node's name.
    pub node: String,
    /// The state folder: mounts and records.
    pub state: PathBuf,
    /// The folders of the node that volumes may use.
    pub places: Places,
    /// The command line that starts `forebay`.
    pub command: Vec<String>,
    /// Whether another container runs the holder of devices.
    pub has_holder: bool,
}

/// A running driver.
#[derive(Debug)]
pub struct Serving {
    runtime: Option<Runtime>,
    serve: tokio::task::JoinHandle<std::result::Result<(), tonic::transport::Error>>,
    watch: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    socket: PathBuf,
    _lock: std::fs::File,
}

impl Serving {
    /// Restores the volumes of an earlier driver, and starts to serve.
    ///
    /// # Errors
    /// Invalid for an endpoint that is no Unix socket; Conflict for a state folder with a driver; errors of the holder
    /// and of the system.
    pub fn start(options: CsiOptions) -> Result<Self> {
        let socket = socket(&options.endpoint)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&options.state)?;
        let state = std::fs::canonicalize(&options.state)?;
        let lock = alone(&state.join("driver.lock"), "this state folder has a driver")?;
        let starts = (!options.has_holder).then(|| options.command.clone());
        let holding = Holding::new(&state, starts);
        let (places, volumes) = (options.places, state.join("volumes"));
        let driver = Arc::new(Driver::new(Node { places, command: options.command, holding, volumes })?);
        free(&socket)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(&socket).map_err(|e| Error::from(e).with("endpoint", socket.display()))?
        };
        let calls = Calls::new(driver.clone(), options.node);
        let server = Server::builder()
            .add_service(IdentityServer::new(calls.clone()).max_decoding_message_size(MESSAGE_MAX))
            .add_service(NodeServer::new(calls).max_decoding_message_size(MESSAGE_MAX));
        let serve = runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let watch = std::thread::Builder::new().name("forebay-watch".to_owned());
        let watch = Some(watch.spawn(move || driver.watch(|| seen.load(Ordering::Relaxed)))?);
        Ok(Self { runtime: Some(runtime), serve, watch, is_over, socket, _lock: lock })
    }

    /// Checks that the server and the watch thread run.
    ///
    /// # Errors
    /// Internal when one of them has stopped.
    pub fn check(&self) -> Result<()> {
        let watches = self.watch.as_ref().is_some_and(|watch| !watch.is_finished());
        if self.serve.is_finished() || !watches { Err(Error::internal("the driver has stopped")) } else { Ok(()) }
    }

    /// Stops the server. Mounts stay, and the next driver restores them.
    pub fn end(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_file(&self.socket);
        if let Some(runtime) = self.runtime.take() {
            // A running call ends with the process. The next driver finds its record.
            runtime.shutdown_background();
        }
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

fn socket(endpoint: &str) -> Result<PathBuf> {
    let path = endpoint.strip_prefix("unix://").or(endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if !path.starts_with('/') || path.contains("://") {
        return Err(Error::invalid(format!("{endpoint:?} is no socket of this machine"))
            .hint("name an absolute path: unix:///csi/csi.sock"));
    }
    Ok(path.into())
}

/// Removes the socket of a driver that was killed.
fn free(socket: &Path) -> Result<()> {
    match std::fs::symlink_metadata(socket) {
        Ok(of) if of.file_type().is_socket() => Ok(std::fs::remove_file(socket)?),
        Ok(_) => {
            let message = "a file that is no socket is at the endpoint";
            Err(Error::new(ErrorKind::Conflict, message).with("endpoint", socket.display()))
        }
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_path() {
        for endpoint in ["unix:///csi/csi.sock", "unix:/csi/csi.sock", "/csi/csi.sock"] {
            assert_eq!(socket(endpoint).as_deref(), Ok(Path::new("/csi/csi.sock")));
        }
        for endpoint in ["tcp://0.0.0.0:1", "csi.sock", ""] {
            assert_eq!(socket(endpoint).expect_err(endpoint).kind(), ErrorKind::Invalid);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("s");
        free(&at).expect("nothing is there");
        drop(std::os::unix::net::UnixListener::bind(&at).expect("bound"));
        free(&at).expect("a dead socket");
        assert!(!at.exists());
        std::fs::write(&at, "").expect("written");
        assert_eq!(free(&at).expect_err("a file").kind(), ErrorKind::Conflict);
    }
}

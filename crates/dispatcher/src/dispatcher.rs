//! The dispatcher as a component: options in, an address out, and a future that serves until it is told to stop.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Error, ErrorKind, Result, SystemClock};
use forebay_proto::{Incoming, ServerTls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codegen::InterceptedService;

use crate::access::{Access, Guard};
use crate::actor::{Actor, Handle};
use crate::indexer::{FileIndexer, Indexer};
use crate::jobs::{Opener, splits};
use crate::options::Options;
use crate::service::Service;
use crate::state::State;
use crate::store::{BlobStore, Committer, LedgerStore};

/// How long open requests may take to end after the sessions were ended.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A dispatcher that listens and has its state, ready to run.
pub struct Dispatcher {
    listener: TcpListener,
    tls: Option<ServerTls>,
    access: Arc<Access>,
    actor: Actor,
    service: Service,
}

impl Dispatcher {
    /// Loads the state, opens the port, and returns where it listens. Must be called within a runtime.
    ///
    /// # Errors
    /// Conflict when the port or the state folder is in use; Version or Data when the state cannot be read; what the
    /// disk says.
    pub async fn bind(options: Options) -> Result<(SocketAddr, Self)> {
        let indexer = FileIndexer { cache: options.state_dir.join("index-cache"), threads: options.index_threads };
        Self::bind_with(options, Arc::new(indexer), Arc::new(SystemClock::default())).await
    }

    /// Like [`Dispatcher::bind`], with other components.
    ///
    /// # Errors
    /// As [`Dispatcher::bind`].
    pub async fn bind_with(
        options: Options,
        indexer: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
    ) -> Result<(SocketAddr, Self)> {
        let dir = options.state_dir.clone();
        // Pickles and keys are kept there: nobody else's business.
        let make = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        make.map_err(|e| Error::from(e).with("file", dir.display()))?;
        let access = Arc::new(Access::open(options.tokens.as_deref(), clock.clone())?);
        let listener = TcpListener::bind(options.listen).await.map_err(|e| cannot_listen(options.listen, e))?;
        let address = listener.local_addr().map_err(|e| cannot_listen(options.listen, e))?;
        let store = LedgerStore::open(&dir)?;
        let blobs = BlobStore::open(&dir, options.blob_bytes_max)?;
        let ledger = store.load()?;
        let mut recovered = Vec::new();
        let mut state = State::recover(options.timing, clock.now(), &ledger, splits, &mut recovered)?;
        state.set_scaling(options.scaling);
        tracing::info!(%address, state = %dir.display(), jobs = ledger.jobs.len(), leases = ledger.grants.len(), "dispatcher");
        let (handle, inbox) = Handle::new();
        let actor = Actor::new(state, recovered, clock, inbox, Committer::start(dir, store)?);
        let opener = Opener::new(handle.clone(), blobs.clone(), indexer, access.asks());
        let service = Service::new(handle, blobs, opener);
        Ok((address, Self { listener, tls: options.tls, access, actor, service }))
    }

    /// Serves until `shutdown` is cancelled; then ends the sessions, writes what is left, and returns. Dropping the
    /// future instead is what a crash is: nothing that was promised is lost.
    ///
    /// # Errors
    /// Unavailable when the listener fails; Internal when the ledger's thread died.
    pub async fn run(self, shutdown: CancellationToken) -> Result<()> {
        let guarded = InterceptedService::new(forebay_proto::service(self.service), Guard(self.access.clone()));
        let server = forebay_proto::server().add_service(guarded);
        let incoming = Incoming::new(self.listener, self.tls.as_ref(), None);
        let serve = server.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
        tokio::pin!(serve);
        let mut actor = std::pin::pin!(self.actor.run(shutdown.clone()));
        let failed = |e: tonic::transport::Error| Error::unavailable(format!("the dispatcher's listener failed: {e}"));
        tokio::select! {
            done = &mut actor => {
                done?;
                // Requests that take long, such as indexing, do not keep the process.
                tokio::time::timeout(DRAIN_MAX, serve).await.unwrap_or(Ok(())).map_err(failed)
            }
            done = &mut serve => {
                done.map_err(failed)?;
                actor.await
            }
            never = self.access.watch() => match never {},
        }
    }
}

fn cannot_listen(at: SocketAddr, e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::AddrInUse => Error::new(ErrorKind::Conflict, format!("something else listens on {at}"))
            .hint("end it, or use another port"),
        _ => {
            let message = format!("cannot listen on {at}: {e}");
            Error::new(Error::from(e).kind(), message)
        }
    }
}

//! The async runtime behind the synchronous API: one for the process, made at first use, and made anew after a fork.
//!
//! Threads do not survive a fork, so a child that used its parent's runtime would wait for ever. The parent's is left
//! alone there (it cannot even be dropped: its threads are not there to be joined); what was opened in the parent says
//! so instead of hanging.

use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc;

use forebay_core::{Error, Result};
use tokio::runtime::Runtime;

use crate::lock::lock;
use crate::options::POLL;

/// Threads that drive connections; decoding large chunks has threads of its own.
const THREADS: usize = 2;
/// Threads that decode large chunks together.
const DECODE_THREADS_MAX: usize = 16;

static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Returns the runtime of this process.
///
/// # Errors
/// Exhausted when no thread can be started.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    let mut current = lock(&RUNTIME);
    if let Some((pid, runtime)) = *current
        && pid == std::process::id()
    {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(DECODE_THREADS_MAX)
        .thread_name("forebay-client")
        .enable_all()
        .build()?;
    // Lives as long as the process: one for each process that forks and uses it again.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *current = Some((std::process::id(), runtime));
    Ok(runtime)
}

/// Which process something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_here(self) -> bool {
        self == Self::this()
    }

    /// Refuses to be used in a forked child.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::invalid(
            "this stream was opened before the process forked, and its connections stayed in the parent",
        )
        .hint("open the stream in the child, or start children with the spawn method"))
    }
}

/// Waits for a future on the runtime, calling `poll` about every 50 ms; an error of `poll` gives the future up.
///
/// # Errors
/// What the future or `poll` gives.
pub(crate) fn wait<T: Send + 'static>(
    future: impl Future<Output = Result<T>> + Send + 'static,
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<T> {
    let (done, result) = mpsc::sync_channel(1);
    let task = runtime()?.spawn(async move {
        let _ = done.send(future.await);
    });
    loop {
        match result.recv_timeout(POLL) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Error::internal("a task of the client failed")),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Err(error) = poll() {
                    task.abort();
                    return Err(error);
                }
            }
        }
    }
}

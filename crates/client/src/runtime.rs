//! The async runtime behind the synchronous API: one for each process, created at first use, and again after a fork.
//!
//! Threads do not survive a fork, so a child that used its parent's runtime would wait for ever. The child does not
//! touch that runtime: it cannot drop it either, as there are no threads to join. A stream that was opened in the
//! parent returns an error in the child instead of hanging.

use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc;

use forebay_core::{Error, Result};
use tokio::runtime::Runtime;

use crate::lock::lock;
use crate::options::POLL;

/// Threads that drive connections. Large chunks are decoded on other threads.
const THREADS: usize = 2;
/// Threads that decode large chunks.
const DECODE_THREADS_MAX: usize = 16;

static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Returns the runtime of this process.
///
/// # Errors
/// Exhausted if no thread can be started.
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
    // Leaked on purpose: it lives as long as the process. A forked child leaks one more.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *current = Some((std::process::id(), runtime));
    Ok(runtime)
}

/// The process that owns a connection or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_here(self) -> bool {
        self == Self::this()
    }

    /// Refuses use in a forked child.
    ///
    /// # Errors
    /// Invalid in a process other than the owner.
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

/// Waits for a future on the runtime, calling `poll` about every 50 ms; an error of `poll` aborts the future.
///
/// # Errors
/// The error of the future or of `poll`.
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

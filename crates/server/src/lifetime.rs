//! The end of a process: at a signal, in order; at a second signal, or with its parent, at once.

#![expect(clippy::disallowed_methods, reason = "a thread ends the process when its parent is gone")]

use std::io::Read;

use forebay_core::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code that a shell reports for an interrupted process.
const INTERRUPTED: i32 = 130;
/// How often a process that waits for a signal calls `tick`.
const TICK: std::time::Duration = std::time::Duration::from_millis(200);

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Must be called within a runtime.
    fn new() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Returns a token that the first SIGINT or SIGTERM cancels; the second ends the process at once. Must be called
/// within a runtime.
///
/// # Errors
/// Errors of the system.
pub(crate) fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut signals, token) = (Signals::new()?, stop.clone());
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping; send the signal again to stop at once");
        token.cancel();
        signals.next().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(stop)
}

/// SIGINT and SIGTERM, handled from its creation on: a signal before the wait is not lost.
pub struct StopSignal {
    runtime: tokio::runtime::Runtime,
    signals: Signals,
}

impl StopSignal {
    /// Installs the handlers.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        Ok(Self { runtime, signals })
    }

    /// Waits for a signal, calling `tick` every 200 ms.
    ///
    /// # Errors
    /// The error of `tick`, at once.
    pub fn wait(mut self, mut tick: impl FnMut() -> Result<()>) -> Result<()> {
        self.runtime.block_on(async {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    () = self.signals.next() => return Ok(()),
                    _ = ticks.tick() => tick()?,
                }
            }
        })
    }
}

/// Ends this process when its stdin has input or ends: the parent holds the other side, and the system closes it when
/// the parent ends for any reason. Calls `leave` before, which must be brief.
///
/// # Errors
/// Exhausted when no thread can be started.
pub fn exit_with_parent(leave: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name("forebay-parent".to_owned()).spawn(|| {
        let mut byte = [0];
        let _ = std::io::stdin().read(&mut byte);
        leave();
        std::process::exit(0);
    })?;
    Ok(())
}

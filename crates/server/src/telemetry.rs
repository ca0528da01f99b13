//! Logs: to stderr, filtered by `FOREBAY_LOG`, coloured only for a terminal that wants it.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging, once; `default` is the filter where `FOREBAY_LOG` is not set ("info", "forebay_worker=debug", …).
/// A host that logs already is left alone.
pub fn init_logs(default: &str) {
    let filter = EnvFilter::try_from_env("FOREBAY_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour);
    // The only failure is that someone was first.
    let _ = logs.try_init();
}

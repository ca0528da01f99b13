//! Logs: to stderr, filtered by `FOREBAY_LOG`, coloured only for a terminal that wants it.

#![expect(clippy::disallowed_methods, reason = "the environment sets the level of the log")]

use std::io::IsTerminal;

use forebay_core::{Error, Result};
use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "FOREBAY_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts logging, once; `default` is the filter if `FOREBAY_LOG` is not set ("info", "forebay_worker=debug", …). A
/// host program with its own logging keeps it.
///
/// # Errors
/// Invalid when the variable is no filter: a mistake in it must not silence all logs.
pub fn init_logs(default: &str) -> Result<()> {
    let set = std::env::var_os(VARIABLE).filter(|set| !set.is_empty());
    let filter = filter(set.as_ref().map_or(default.into(), |set| set.to_string_lossy()).as_ref())?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour);
    // The only failure is an earlier initialisation.
    let _ = logs.try_init();
    Ok(())
}

fn filter(text: &str) -> Result<EnvFilter> {
    let wrong = || {
        Error::invalid(format!("{VARIABLE}={text:?} is no filter of logs"))
            .hint("use a level (off, error, warn, info, debug, trace), or levels of parts: info,forebay_worker=debug")
    };
    // A single word must be a level or a crate of ours: any other would silently match nothing.
    let is_known = |part: &str| {
        LEVELS.contains(&part.to_ascii_lowercase().as_str()) || part.starts_with("forebay") || part.contains(['=', '['])
    };
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    if parts().next().is_none() || !parts().all(is_known) {
        return Err(wrong());
    }
    EnvFilter::builder().parse(text).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["debug", "WARN", "info,forebay_worker=debug", "forebay_dispatcher", "h2=trace, warn"] {
            assert!(filter(text).is_ok(), "{text}");
        }
        for text in ["nonsense", "debugg", "info,verbose", "forebay_worker=loud", ",", "info,h2"] {
            let error = filter(text).map(drop).expect_err(text);
            assert!(error.message().contains(text) && error.get("hint").is_some(), "{error}");
        }
    }
}

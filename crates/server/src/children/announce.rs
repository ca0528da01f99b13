//! The announcement of a child to its parent: one line of JSON with its address on stdout, once it listens.

use std::io::Write;

use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The address at which a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// `host:port`.
    pub address: String,
    /// The process id.
    pub pid: u32,
    /// `host:port` of the dashboard in this process, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
}

impl Announcement {
    /// Announces this process.
    ///
    /// # Errors
    /// Those of writing to stdout.
    pub fn print(address: &str, http: Option<String>) -> Result<()> {
        let this = Self { address: address.to_owned(), pid: std::process::id(), http };
        let line = serde_json::to_string(&this).map_err(|e| Error::internal(e.to_string()))?;
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{line}")?;
        Ok(stdout.flush()?)
    }

    /// Reads an announcement.
    ///
    /// # Errors
    /// Data when the line is no announcement.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|_| Error::data(format!("not an announcement: {:?}", line.trim_end())))
    }
}

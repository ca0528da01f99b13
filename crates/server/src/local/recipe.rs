//! The command of a local worker: a `forebay worker` for one consumer, with that consumer's credentials for the
//! service.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use forebay_client::JobKey;
use forebay_client::TlsFiles;
use forebay_core::Result;

use crate::children::child::Child;

/// The memory of a local worker's cache: it is the trainer's machine.
const CACHE_MEMORY: &str = "256MiB";

/// The variable with a local worker's key.
const LOCAL_KEY: &str = "FOREBAY_LOCAL_KEY";

/// The settings of a local worker at its start.
#[derive(Debug, Clone)]
pub struct LocalRecipe {
    /// The beginning of every command: `forebay`, or `python -m forebay`.
    pub command: Vec<String>,
    /// The dispatchers, in the consumer's notation.
    pub service: String,
    /// The consumer's certificates.
    pub tls: TlsFiles,
    /// The consumer's token, or the file that holds it.
    pub token: Option<String>,
    /// See `token`.
    pub token_file: Option<PathBuf>,
    /// The job, by its number at the dispatcher, and the consumer's index.
    pub reader: (u64, u32),
    /// The key that proves that this consumer started it.
    pub key: JobKey,
}

/// Returns a random key.
///
/// # Errors
/// Errors of the system.
pub fn local_key() -> Result<JobKey> {
    let mut key = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(JobKey::from_bytes(&key))
}

impl LocalRecipe {
    /// Starts it; it has no threads yet.
    pub(super) fn start(&self) -> Result<Child> {
        let reader = format!("{}:{}", self.reader.0, self.reader.1);
        let own = ["worker", "--dispatcher", &self.service, "--listen", "127.0.0.1:0", "--local", &reader];
        let more = ["--cache-memory", CACHE_MEMORY, "--announce"];
        let arguments = own.iter().chain(&more).map(|a| (*a).to_owned());
        let command: Vec<_> = self.command.iter().cloned().chain(arguments).collect();
        Child::start("the local worker".to_owned(), &command, &self.shown())
    }

    /// Credentials go through the environment, because other users see command lines.
    fn shown(&self) -> Vec<(&'static str, OsString)> {
        let TlsFiles { ca, cert, key, name, .. } = self.tls.clone();
        let path = |path: Option<PathBuf>| path.map(PathBuf::into_os_string);
        let shown = [
            ("FOREBAY_TLS_CA", path(ca)),
            ("FOREBAY_TLS_CERT", path(cert)),
            ("FOREBAY_TLS_KEY", path(key)),
            ("FOREBAY_TLS_NAME", name.map(OsString::from)),
            ("FOREBAY_TOKEN", self.token.clone().map(OsString::from)),
            ("FOREBAY_TOKEN_FILE", path(self.token_file.clone())),
        ];
        let key = (LOCAL_KEY, String::from(self.key).into());
        shown.into_iter().filter_map(|(name, value)| Some((name, value?))).chain([key]).collect()
    }
}

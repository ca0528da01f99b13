//! The file of tokens: who may call the dispatcher, with which role, and the quota of each tenant.
//!
//! ```json
//! {
//!   "tokens": [{"sha256": "…", "role": "client", "tenant": "vision"}],
//!   "tenants": {"vision": {"jobs": 8, "consumers": 64, "workers": 16, "calls_per_second": 100}}
//! }
//! ```
//!
//! Invariant: the file has only the SHA-256 hash of each token, so its readers cannot call the dispatcher with it.

#![expect(clippy::disallowed_methods, reason = "the name of a temporary file")]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use forebay_core::{Error, Result};
use forebay_io::Allowed;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::tenant::{Quota, check_name};

/// Random bytes of a token: beyond guessing.
const TOKEN_BYTES: usize = 32;
/// The prefix of tokens, by which scanners for leaked secrets find them.
const TOKEN_BEGINS: &str = "fbt_";
const DIGEST_BYTES: usize = 32;

/// The permissions of a token's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Open, read, list and cancel the jobs of its tenant.
    Client,
    /// Compute: for its tenant, or for all tenants if it has none.
    Worker,
    /// Do all that the others may; list and cancel the jobs of every tenant.
    Admin,
}

/// The SHA-256 of a token. In JSON, 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Digest(pub(super) [u8; DIGEST_BYTES]);

impl Digest {
    pub(super) fn of(token: &str) -> Self {
        let mut bytes = [0; DIGEST_BYTES];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        hexadecimal(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut bytes = [0; DIGEST_BYTES];
        if text.len() != 2 * DIGEST_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("a SHA-256 has {} hexadecimal digits, not {text:?}", 2 * DIGEST_BYTES));
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|e| e.to_string())?;
        }
        Ok(Self(bytes))
    }
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) sha256: Digest,
    pub(super) role: Role,
    /// Its tenant; empty for a worker of all tenants, or an administrator without own jobs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) tenant: String,
}

/// The file as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenFile {
    #[serde(default)]
    pub(super) tokens: Vec<Entry>,
    #[serde(default)]
    pub(super) tenants: BTreeMap<String, Quota>,
}

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Errors of the system; Invalid, with the line, when the file is no file of tokens.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let at = |e: Error| e.with("file", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| at(e.into()).hint("`forebay token new --tokens FILE` makes one"))?;
        Self::parse(&text).map_err(at)
    }

    fn parse(text: &str) -> Result<Self> {
        let file: Self =
            serde_json::from_str(text).map_err(|e| Error::invalid(format!("this is no token file: {e}")))?;
        for (tenant, quota) in &file.tenants {
            check_name(tenant)?;
            let at = |e: Error| e.with("tenant", tenant);
            match quota.sources.as_deref() {
                Some([]) => {
                    return Err(at(Error::invalid("a list of sources names none").hint("leave it out, or name some")));
                }
                Some(sources) => _ = Allowed::of(&[sources], true).map_err(at)?,
                None => {}
            }
        }
        let mut seen = std::collections::HashSet::new();
        for (number, entry) in file.tokens.iter().enumerate() {
            let at = |e: Error| e.with("token", format!("number {number} of the file, from 0"));
            entry.check().map_err(at)?;
            if !seen.insert(entry.sha256) {
                return Err(at(Error::invalid("the same token is there twice")));
            }
        }
        Ok(file)
    }

    /// Writes the file as a whole, or not at all.
    fn write(&self, path: &Path) -> Result<()> {
        let at = |e: std::io::Error| Error::from(e).with("file", path.display());
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let part = folder.join(format!(".{}.part", uuid::Uuid::new_v4()));
        let json = serde_json::to_string_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        let write = || {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
            // Owner and mode stay as the administrator set them, as far as this user may set them.
            if let Ok(old) = std::fs::metadata(path) {
                let _ = std::os::unix::fs::fchown(&file, None, Some(old.gid()));
                let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), None);
                file.set_permissions(old.permissions())?;
            }
            writeln!(file, "{json}")?;
            file.sync_all()?;
            std::fs::rename(&part, path)
        };
        write().map_err(|e| {
            let _ = std::fs::remove_file(&part);
            at(e)
        })
    }
}

impl Entry {
    fn check(&self) -> Result<()> {
        match (self.role, self.tenant.as_str()) {
            (Role::Client, "") => Err(Error::invalid("a client's token must name a tenant").hint("give --tenant")),
            (_, "") => Ok(()),
            (_, tenant) => check_name(tenant),
        }
    }
}

/// A new token.
#[derive(Debug, Clone, Serialize)]
pub struct NewToken {
    /// The token itself; it is stored nowhere.
    pub token: String,
    /// The entry for the dispatcher's file, under `tokens`.
    pub entry: serde_json::Value,
}

/// Makes a token, and adds its entry to a file if one is named. A dispatcher that runs with the file applies it within
/// a second.
///
/// # Errors
/// Invalid when the tenant has no name, or the file is no file of tokens; errors of the system.
pub fn new_token(file: Option<&Path>, role: Role, tenant: &str) -> Result<NewToken> {
    let mut secret = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| Error::internal("the system gives no random numbers"))?;
    let token = format!("{TOKEN_BEGINS}{}", hexadecimal(&secret));
    let entry = Entry { sha256: Digest::of(&token), role, tenant: tenant.to_owned() };
    entry.check()?;
    let json = serde_json::to_value(&entry).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(path) = file {
        let mut all = if path.exists() { TokenFile::read(path)? } else { TokenFile::default() };
        all.tokens.push(entry);
        all.write(path)?;
    }
    Ok(NewToken { token, entry: json })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_added_by_its_hash_and_nothing_else_of_the_file_changes() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("tokens.json");
        let first = new_token(Some(&path), Role::Client, "vision")?;
        let second = new_token(Some(&path), Role::Worker, "")?;
        let file = TokenFile::read(&path)?;
        assert!(first.token.starts_with("fbt_") && first.token != second.token);
        let known: Vec<_> = file.tokens.iter().map(|e| (e.sha256, e.role, &e.tenant[..])).collect();
        let (a, b) = (Digest::of(&first.token), Digest::of(&second.token));
        assert_eq!(known, [(a, Role::Client, "vision"), (b, Role::Worker, "")]);
        let text = std::fs::read_to_string(&path)?;
        assert!(!text.contains(&first.token) && !text.contains(&first.token[4..]));
        assert!(new_token(Some(&path), Role::Client, "").is_err() && new_token(None, Role::Client, "../x").is_err());
        assert_eq!(TokenFile::read(&path)?, file);
        Ok(())
    }

    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(String::from(Digest::of("abc")), abc);
        assert_eq!(Digest::try_from(abc.to_owned()), Ok(Digest::of("abc")));
        assert!(Digest::try_from("é".repeat(32)).is_err());
    }

    #[test]
    fn what_is_no_file_of_tokens_says_where() {
        let token = format!("{{\"sha256\": \"{}\", \"role\": \"worker\"}}", "0".repeat(64));
        for (text, says) in [
            ("{\n\"tokens\": [,]}".to_owned(), "line 2"),
            ("{\"token\": []}".to_owned(), "unknown field"),
            ("{\"tokens\": [{\"sha256\": \"00\", \"role\": \"worker\"}]}".to_owned(), "64 hexadecimal"),
            (format!("{{\"tokens\": [{}]}}", token.replace("worker", "king")), "king"),
            (format!("{{\"tokens\": [{}]}}", token.replace("worker", "client")), "must name a tenant"),
            (format!("{{\"tokens\": [{token}, {token}]}}"), "twice"),
            ("{\"tenants\": {\"..\": {}}}".to_owned(), "name of a tenant"),
            ("{\"tenants\": {\"a\": {\"job\": 1}}}".to_owned(), "unknown field"),
            ("{\"tenants\": {\"a\": {\"sources\": []}}}".to_owned(), "names none"),
            ("{\"tenants\": {\"a\": {\"sources\": [\"data\"]}}}".to_owned(), "names no sources"),
        ] {
            let error = TokenFile::parse(&text).expect_err(says);
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}

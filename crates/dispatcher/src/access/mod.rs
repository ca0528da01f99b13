//! Authenticates callers: finds the token of a call before reading a byte of its message, and refuses calls without a
//! known token.
//!
//! Without a file of tokens every caller may do everything. The file is checked once a second. When it has changed, the
//! new tokens apply, and the sessions of removed tokens end. A file that cannot be read changes nothing.
//! Invariants: tokens are compared by their hash in constant time; nothing of a token is logged.

#![expect(clippy::disallowed_methods, reason = "the file of tokens is read again every second")]

mod bucket;
mod file;

use std::collections::HashMap;
use std::convert::Infallible;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use forebay_core::{Clock, Error, ErrorKind, Result};
use forebay_proto::{TOO_FAST, bearer, to_status};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};

pub use file::{NewToken, Role, new_token};

use crate::tenant::Tenant;
use bucket::Bucket;
use file::{Digest, Entry, TokenFile};

/// How often the file is checked.
const LOOK: Duration = Duration::from_secs(1);

/// A caller.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    pub(crate) tenant: Tenant,
    role: Role,
    /// Cancelled when the caller's token is no longer valid.
    pub(crate) revoked: CancellationToken,
}

impl Principal {
    pub(crate) fn administrator() -> Self {
        Self { tenant: Tenant::default(), role: Role::Admin, revoked: CancellationToken::new() }
    }

    /// Checks that the caller has the permissions of this role.
    ///
    /// # Errors
    /// PermissionDenied.
    pub(crate) fn must_be(&self, role: Role) -> Result<()> {
        if self.role == role || self.is_admin() {
            return Ok(());
        }
        let of = |role| match name(role) {
            "admin" => "an admin".to_owned(),
            other => format!("a {other}"),
        };
        let message =
            format!("this call requires the token of {}, and this is the token of {}", of(role), of(self.role));
        Err(Error::new(ErrorKind::PermissionDenied, message).hint("make another with `forebay token new --role`"))
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Returns the tenant whose jobs the caller may see; `None` for all tenants.
    pub(crate) fn sees(&self) -> Option<Arc<str>> {
        (!self.is_admin()).then(|| self.tenant.name.clone())
    }

    /// Returns the tenant that the caller computes for; `None` for all tenants.
    pub(crate) fn serves(&self) -> Option<Arc<str>> {
        Some(self.tenant.name.clone()).filter(|name| !self.is_admin() && !name.is_empty())
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Worker => "worker",
        Role::Admin => "admin",
    }
}

/// Authenticates callers, and bounds their rate.
pub(crate) struct Access {
    /// `None`: every caller may do everything.
    tokens: Option<Tokens>,
    clock: Arc<dyn Clock>,
}

struct Tokens {
    path: PathBuf,
    /// The stamp of the file when it was first read.
    first: Stamp,
    known: RwLock<HashMap<Entry, Arc<Principal>>>,
    /// The token bucket of each tenant.
    calls: Mutex<HashMap<Arc<str>, Bucket>>,
    /// Calls that were refused since the start.
    refused: AtomicU64,
}

/// The parts of a file's metadata that change with its contents.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Access {
    /// Reads the file of tokens, if there is one.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub(crate) fn open(path: Option<&Path>, clock: Arc<dyn Clock>) -> Result<Self> {
        let tokens = |path: &Path| {
            let (known, calls, refused) = (RwLock::default(), Mutex::default(), AtomicU64::new(0));
            // The stamp is taken before the file is read, so that a change in between is noticed.
            let tokens = Tokens { path: path.to_owned(), first: stamp(path), known, calls, refused };
            tokens.take_up(TokenFile::read(path)?);
            Ok::<_, Error>(tokens)
        };
        Ok(Self { tokens: path.map(tokens).transpose()?, clock })
    }

    /// Returns whether callers need a token.
    pub(crate) fn asks(&self) -> bool {
        self.tokens.is_some()
    }

    /// Returns how many calls had no known token since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.tokens.as_ref().map_or(0, |tokens| tokens.refused.load(Relaxed))
    }

    /// Authenticates a caller, and counts the call.
    ///
    /// # Errors
    /// PermissionDenied when there is no token, or no known one; Exhausted, with the context [`TOO_FAST`], when its
    /// tenant calls too often.
    pub(crate) fn admit(&self, call: &MetadataMap) -> Result<Arc<Principal>> {
        let Some(tokens) = &self.tokens else { return Ok(Arc::new(Principal::administrator())) };
        let found = match bearer(call) {
            None => {
                Err(Error::new(ErrorKind::PermissionDenied, "the dispatcher asks for a token, and the call has none")
                    .hint("set FOREBAY_TOKEN or FOREBAY_TOKEN_FILE, or give token=; `forebay token new` makes one"))
            }
            Some(token) => tokens.find(&Digest::of(token)).ok_or_else(|| {
                Error::new(
                    ErrorKind::PermissionDenied,
                    "the dispatcher does not know this token; it may have been revoked",
                )
                .hint("ask for a new one: `forebay token new --tokens FILE` makes it")
            }),
        };
        let found = found.inspect_err(|_| {
            tokens.refused.fetch_add(1, Relaxed);
        })?;
        tokens.count(&found.tenant, self.clock.now())?;
        Ok(found)
    }

    /// Watches the file for ever.
    pub(crate) async fn watch(&self) -> Infallible {
        let Some(tokens) = &self.tokens else { return std::future::pending().await };
        let (mut seen, mut told) = (tokens.first, 0);
        loop {
            tokio::time::sleep(LOOK).await;
            let refused = tokens.refused.load(Relaxed);
            if refused > told {
                tracing::warn!(refused = refused - told, "calls without a valid token were refused");
                told = refused;
            }
            let now = stamp(&tokens.path);
            if now == seen {
                continue;
            }
            seen = now;
            match TokenFile::read(&tokens.path) {
                Ok(file) => {
                    tracing::info!(tokens = file.tokens.len(), "the token file has changed and was read again");
                    tokens.take_up(file);
                }
                Err(error) => {
                    tracing::error!(%error, "the token file has changed and cannot be used; the earlier tokens stay valid")
                }
            }
        }
    }
}

impl Tokens {
    /// Compares with all tokens, so that the time does not depend on which one is similar.
    fn find(&self, digest: &Digest) -> Option<Arc<Principal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for (entry, principal) in &*known {
            if bool::from(entry.sha256.0[..].ct_eq(&digest.0)) {
                found = Some(principal.clone());
            }
        }
        found
    }

    fn count(&self, tenant: &Tenant, now: forebay_core::Ticks) -> Result<()> {
        let Some(rate) = tenant.quota.calls_per_second else { return Ok(()) };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = calls.entry(tenant.name.clone()).or_insert_with(|| Bucket::new(now));
        if bucket.take(now, rate) {
            return Ok(());
        }
        let message =
            format!("tenant {:?} calls the dispatcher more than {rate} times a second, its quota", tenant.name);
        Err(Error::new(ErrorKind::Exhausted, message)
            .with(TOO_FAST, rate)
            .hint("open fewer jobs and consumers at once, or ask for a larger quota"))
    }

    /// Applies a file. Unchanged tokens keep their sessions; their quotas change at once.
    fn take_up(&self, file: TokenFile) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *known);
        for entry in file.tokens {
            let quota = file.tenants.get(&entry.tenant).cloned().unwrap_or_default();
            let tenant = Tenant { name: entry.tenant.as_str().into(), quota };
            let revoked = old.remove(&entry).map(|p| p.revoked.clone()).unwrap_or_default();
            let principal = Arc::new(Principal { tenant, role: entry.role, revoked });
            known.insert(entry, principal);
        }
        old.into_values().for_each(|gone| gone.revoked.cancel());
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}

/// Lets calls with a token in, and attaches the caller for the service (see [`caller`]).
#[derive(Clone)]
pub(crate) struct Guard(pub(crate) Arc<Access>);

impl Interceptor for Guard {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let principal = self.0.admit(request.metadata()).map_err(|e| to_status(&e))?;
        request.extensions_mut().insert(principal);
        Ok(request)
    }
}

/// Returns the caller, if it has the permissions of this role.
///
/// # Errors
/// PermissionDenied.
pub(crate) fn caller<T>(request: &Request<T>, role: Role) -> Result<Arc<Principal>, Status> {
    caller_of(request, &[role])
}

/// Returns the caller, if it has the permissions of one of these roles.
///
/// # Errors
/// PermissionDenied, as for the first role.
pub(crate) fn caller_of<T>(request: &Request<T>, roles: &[Role]) -> Result<Arc<Principal>, Status> {
    let principal = request.extensions().get::<Arc<Principal>>();
    let principal = principal.ok_or_else(|| to_status(&Error::internal("a call came past the guard")))?;
    let is_one = roles.iter().any(|role| principal.must_be(*role).is_ok());
    for role in roles.iter().filter(|_| !is_one) {
        principal.must_be(*role).map_err(|e| to_status(&e))?;
    }
    Ok(principal.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::Quota;
    use forebay_core::SystemClock;

    fn call(token: Option<&str>) -> MetadataMap {
        let mut call = MetadataMap::new();
        if let Some(token) = token {
            call.insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        }
        call
    }

    fn file(tokens: &[(&str, Role, &str)], quota: Quota) -> TokenFile {
        let entry = |(token, role, tenant): &(&str, Role, &str)| Entry {
            sha256: Digest::of(token),
            role: *role,
            tenant: (*tenant).to_owned(),
        };
        let tenants = [("a".to_owned(), quota)].into();
        TokenFile { tokens: tokens.iter().map(entry).collect(), tenants }
    }

    fn access(file: TokenFile) -> Access {
        let tokens = Tokens {
            path: PathBuf::new(),
            first: None,
            known: RwLock::default(),
            calls: Mutex::default(),
            refused: AtomicU64::new(0),
        };
        tokens.take_up(file);
        Access { tokens: Some(tokens), clock: Arc::new(SystemClock::default()) }
    }

    fn kind(result: Result<Arc<Principal>>) -> Option<ErrorKind> {
        result.err().map(|e| e.kind())
    }

    #[test]
    fn a_token_says_who_calls_and_no_other_word_does() -> Result<()> {
        let tokens = [("one", Role::Client, "a"), ("two", Role::Worker, ""), ("three", Role::Admin, "")];
        let access = access(file(&tokens, Quota::default()));
        let of = |token| access.admit(&call(Some(token)));
        assert_eq!((&*of("one")?.tenant.name, of("one")?.sees().as_deref()), ("a", Some("a")));
        assert_eq!((of("two")?.serves(), of("three")?.sees()), (None, None));
        for (token, may) in [("one", [true, false, false]), ("two", [false, true, false]), ("three", [true; 3])] {
            let roles = [Role::Client, Role::Worker, Role::Admin];
            assert_eq!(roles.map(|role| of(token).is_ok_and(|p| p.must_be(role).is_ok())), may, "{token}");
        }
        for wrong in [None, Some(""), Some("on"), Some("onee"), Some("One")] {
            assert_eq!(kind(access.admit(&call(wrong))), Some(ErrorKind::PermissionDenied), "{wrong:?}");
        }
        let open = Access { tokens: None, clock: access.clock.clone() };
        assert!(open.admit(&call(None))?.is_admin() && open.admit(&call(Some("any")))?.is_admin());
        Ok(())
    }

    #[test]
    fn a_token_that_is_gone_ends_its_sessions_and_no_others() -> Result<()> {
        let both = [("one", Role::Client, "a"), ("two", Role::Client, "a")];
        let access = access(file(&both, Quota::default()));
        let [one, two] = ["one", "two"].map(|t| access.admit(&call(Some(t))));
        let quota = Quota { jobs: Some(3), ..Quota::default() };
        let Some(tokens) = &access.tokens else { panic!("it has some") };
        tokens.take_up(file(&both[1..], quota.clone()));
        assert!(one?.revoked.is_cancelled() && !two?.revoked.is_cancelled());
        assert_eq!(kind(access.admit(&call(Some("one")))), Some(ErrorKind::PermissionDenied));
        assert_eq!(access.admit(&call(Some("two")))?.tenant.quota, quota);
        Ok(())
    }

    #[test]
    fn a_tenant_that_calls_too_often_is_told_its_quota() {
        let quota = Quota { calls_per_second: Some(2), ..Quota::default() };
        let access = access(file(&[("one", Role::Client, "a"), ("two", Role::Client, "b")], quota));
        let mut calls = (0..100).map(|_| access.admit(&call(Some("one"))));
        let error = calls.find_map(Result::err).expect("too many");
        assert_eq!((error.kind(), error.get(TOO_FAST)), (ErrorKind::Exhausted, Some("2")));
        assert!((0..100).all(|_| access.admit(&call(Some("two"))).is_ok()), "others do not notice");
    }
}

//! The calls to etcd, each with a time limit: to the member that answered last, and to the others if it does not
//! answer.
//!
//! A call without an answer may have been executed, now or later. So every write must be safe to execute twice, or
//! compare the old value (see `ledger`).

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::innermost;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::generated::compare::{CompareResult, CompareTarget, TargetUnion};
use super::generated::kv_client::KvClient;
use super::generated::lease_client::LeaseClient;
use super::generated::request_op::Request as Op;
use super::generated::{
    CompactionRequest, Compare, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::keys::behind;
use super::url::EtcdUrl;

/// How long one member may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(700);
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// The longest answer: a page of values (`PAGE`), each no longer than a request may be.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Values in one request.
const PAGE: i64 = 16;
/// Keys in one request without values.
const PAGE_OF_NAMES: i64 = 10_000;
/// The most bytes of a value. By default etcd accepts requests of 1.5 MiB.
pub(super) const VALUE_BYTES_MAX: usize = 512 << 10;

/// An etcd cluster. Connects at the first call.
pub(crate) struct Etcd {
    members: Vec<(String, Channel)>,
    /// The member that answered last.
    current: AtomicUsize,
}

impl Etcd {
    /// Must be called within a runtime.
    ///
    /// # Errors
    /// Invalid when a member's address is none.
    pub(crate) fn new(url: &EtcdUrl) -> Result<Self> {
        let member = |address: &forebay_proto::Address| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))
                .map_err(|e| Error::invalid(format!("{address} is no address: {e}")))?;
            let endpoint = endpoint.connect_timeout(CONNECT_MAX).tcp_nodelay(true);
            Ok((address.to_string(), endpoint.connect_lazy()))
        };
        Ok(Self { members: url.members.iter().map(member).collect::<Result<_>>()?, current: AtomicUsize::new(0) })
    }

    /// Calls one member after another, until one answers.
    async fn call<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut silent = Vec::new();
        for _ in 0..self.members.len() {
            let current = self.current.load(Ordering::Relaxed);
            let (address, channel) = &self.members[current];
            let why = match tokio::time::timeout(ANSWER_MAX, call(channel.clone())).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) if is_lost(&status) => cause(&status),
                Ok(Err(status)) => return Err(refused(address, &status)),
                Err(_) => format!("no answer within {} ms", ANSWER_MAX.as_millis()),
            };
            silent.push(format!("{address}: {why}"));
            // Other calls may have moved on to the next member meanwhile.
            let next = (current + 1) % self.members.len();
            let _ = self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(Error::unavailable("etcd does not answer").with("members", silent.join("; ")))
    }

    fn kv(channel: Channel) -> KvClient<Channel> {
        KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Executes a transaction as a whole, or not at all.
    ///
    /// # Errors
    /// Unavailable when no member answered: it may have been executed. Exhausted when etcd has no room.
    pub(crate) async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse> {
        self.call(|channel| {
            let txn = txn.clone();
            async move { Self::kv(channel).txn(txn).await }
        })
        .await
    }

    /// Returns the value of a key, if there is one.
    ///
    /// # Errors
    /// Unavailable when no member answered.
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>> {
        let range = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        Ok(self.range(range).await?.0.pop())
    }

    /// Returns the values of all keys with a prefix, in the order of the keys.
    ///
    /// # Errors
    /// Unavailable when no member answered.
    pub(crate) async fn all(&self, prefix: &[u8]) -> Result<Vec<KeyValue>> {
        self.pages(prefix, RangeRequest { limit: PAGE, ..RangeRequest::default() }).await
    }

    /// Returns all keys with a prefix, in order.
    ///
    /// # Errors
    /// Unavailable when no member answered.
    pub(crate) async fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
        let range = RangeRequest { limit: PAGE_OF_NAMES, keys_only: true, ..RangeRequest::default() };
        Ok(self.pages(prefix, range).await?.into_iter().map(|kv| kv.key).collect())
    }

    async fn pages(&self, prefix: &[u8], like: RangeRequest) -> Result<Vec<KeyValue>> {
        let (mut key, end) = (prefix.to_vec(), behind(prefix));
        let mut found = Vec::new();
        loop {
            let range = RangeRequest { key, range_end: end.clone(), ..like.clone() };
            let (page, more) = self.range(range).await?;
            let last = page.last().map(|kv| kv.key.clone());
            found.extend(page);
            match last {
                // The smallest key after the last one.
                Some(last) if more => key = [&last[..], &[0]].concat(),
                _ => return Ok(found),
            }
        }
    }

    async fn range(&self, range: RangeRequest) -> Result<(Vec<KeyValue>, bool)> {
        let answer = self.call(|channel| {
            let range = range.clone();
            async move { Self::kv(channel).range(range).await }
        });
        let answer = answer.await?;
        Ok((answer.kvs, answer.more))
    }

    /// Lets etcd drop the history before a revision.
    ///
    /// # Errors
    /// Unavailable when no member answered; Invalid when it was dropped already.
    pub(crate) async fn compact(&self, revision: i64) -> Result<()> {
        let done = self.call(|channel| async move { Self::kv(channel).compact(CompactionRequest { revision }).await });
        done.await.map(drop)
    }

    /// Returns a new lease, and how long it lasts.
    ///
    /// # Errors
    /// Unavailable when no member answered: there may be a lease without a renewal.
    pub(crate) async fn grant_lease(&self, ttl: Duration) -> Result<(i64, Duration)> {
        let ttl = ttl.as_secs() as i64;
        let granted = self.call(|channel| async move {
            LeaseClient::new(channel).lease_grant(LeaseGrantRequest { ttl, id: 0 }).await
        });
        let granted = granted.await?;
        Ok((granted.id, Duration::from_secs(granted.ttl.max(0) as u64)))
    }

    /// Renews a lease; returns how long it lasts from when etcd received the call, or `None` when it is over.
    ///
    /// # Errors
    /// Unavailable when no member answered.
    pub(crate) async fn keep_alive(&self, id: i64) -> Result<Option<Duration>> {
        let answer = self.call(|channel| async move {
            let beat = tokio_stream::once(LeaseKeepAliveRequest { id });
            let mut answers = LeaseClient::new(channel).lease_keep_alive(beat).await?.into_inner();
            let answer = answers.message().await?;
            answer.map(Response::new).ok_or_else(|| Status::unavailable("etcd ended the stream"))
        });
        let ttl = answer.await?.ttl;
        Ok((ttl > 0).then(|| Duration::from_secs(ttl as u64)))
    }

    /// Revokes a lease, with the keys that depend on it.
    ///
    /// # Errors
    /// Unavailable when no member answered; NotFound when it is over already.
    pub(crate) async fn revoke_lease(&self, id: i64) -> Result<()> {
        let done =
            self.call(|channel| async move { LeaseClient::new(channel).lease_revoke(LeaseRevokeRequest { id }).await });
        done.await.map(drop)
    }
}

/// Returns whether another member may answer a call that failed with this status.
fn is_lost(status: &Status) -> bool {
    let local = std::error::Error::source(status).is_some();
    local || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}

fn cause(status: &Status) -> String {
    std::error::Error::source(status).map_or_else(|| status.message().to_owned(), innermost)
}

fn refused(address: &str, status: &Status) -> Error {
    let kind = match status.code() {
        Code::ResourceExhausted => ErrorKind::Exhausted,
        Code::NotFound => ErrorKind::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::PermissionDenied,
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => ErrorKind::Invalid,
        _ => ErrorKind::Internal,
    };
    let error = Error::new(kind, format!("etcd at {address} answered: {}", status.message()));
    match kind {
        ErrorKind::Exhausted => error.hint(
            "give etcd more room (--quota-backend-bytes), or free some (etcdctl compact, defrag); then disarm its alarm \
             (etcdctl alarm disarm)",
        ),
        ErrorKind::PermissionDenied => error.hint("forebay supports only an etcd without users and passwords"),
        _ => error,
    }
}

/// Holds if a key was created at a revision; 0 means that it does not exist.
pub(crate) fn made_at(key: &[u8], revision: i64) -> Compare {
    let union = TargetUnion::CreateRevision(revision);
    compare(key, CompareTarget::Create, union)
}

/// Holds if a key was last changed at a revision; 0 means that it does not exist.
pub(super) fn changed_at(key: &[u8], revision: i64) -> Compare {
    compare(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

fn compare(key: &[u8], target: CompareTarget, union: TargetUnion) -> Compare {
    Compare { result: CompareResult::Equal.into(), target: target.into(), key: key.to_vec(), target_union: Some(union) }
}

/// Sets a key; with a lease, until that ends.
pub(crate) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> RequestOp {
    RequestOp { request: Some(Op::RequestPut(PutRequest { key, value, lease })) }
}

/// Removes a range of keys.
pub(super) fn delete(key: Vec<u8>, range_end: Vec<u8>) -> RequestOp {
    RequestOp { request: Some(Op::RequestDeleteRange(DeleteRangeRequest { key, range_end })) }
}

/// Reads a key.
pub(super) fn get(key: Vec<u8>) -> RequestOp {
    RequestOp { request: Some(Op::RequestRange(RangeRequest { key, ..RangeRequest::default() })) }
}

/// Executes all of `success` if all of `compare` holds.
pub(crate) fn request(compare: Vec<Compare>, success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare, success, failure: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_member_is_asked_each_time() -> Result<()> {
        // No process listens there.
        let members = [1, 2, 3].map(|port| format!("127.0.0.1:{port}"));
        let etcd = Etcd::new(&format!("etcd://{}", members.join(",")).parse()?)?;
        for time in 0..4 {
            let error = etcd.get(b"any").await.expect_err("there is none");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let asked = error.get("members").unwrap_or_default();
            assert!(members.iter().all(|member| asked.contains(member)), "{time}: {asked}");
        }
        Ok(())
    }
}

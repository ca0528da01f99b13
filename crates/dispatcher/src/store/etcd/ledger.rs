//! The ledger in etcd: a log of batches, and now and then the whole state, after which the log begins anew.
//!
//! ```text
//! leader                  the leader, while its lease lasts
//! service                 the id of the service (see `store::service`), once it was needed
//! meta                    {"format":2,"seq":n,"state":m}: all batches up to n are there, and the state after batch m
//! log/<seq>/<part>        the rows of a batch (see `rows`), in parts of half a megabyte
//! state/<seq>/<part>      the rows of a whole ledger, after that batch
//! ```
//!
//! A batch of any size is atomic: its parts are written first, where no reader of the ledger looks yet; then one
//! transaction writes the last part and moves `meta`, which makes the batch visible. So etcd's limit of 128 operations
//! in a transaction is never near, and one batch costs one round trip.
//!
//! The fence: every transaction compares the revision at which `leader` was made. Once another dispatcher leads, that
//! revision differs, and etcd refuses all our transactions, however late they arrive. And every transaction that moves
//! `meta` compares the revision at which it was last moved, so a transaction without an answer that was sent again, and
//! arrives twice, is executed once.

use std::sync::Arc;

use forebay_core::{Error, Result};

use super::client::{Etcd, VALUE_BYTES_MAX, changed_at, delete, get, made_at, put};
use super::generated::response_op::Response as Answer;
use super::generated::{Compare, KeyValue, RequestOp, TxnRequest, TxnResponse};
use super::keys::{Keys, behind, part_of};
use super::replay::{FORMAT, Meta, check_format, read_meta, replay};
use crate::leader::term::Term;
use crate::records::{Batch, Ledger};
use crate::store::rows;

/// The state is written anew after this many batches, or when the log is larger than the state and than
/// `LOG_BYTES_MIN`.
const LOG_BATCHES_MAX: u64 = 1000;
const LOG_BYTES_MIN: usize = 1 << 20;

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// This process no longer leads: the batch will never be written.
    Deposed(String),
    /// The batch may be tried again.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The ledger, with the state that its only writer knows.
pub(crate) struct EtcdLedger {
    etcd: Arc<Etcd>,
    keys: Keys,
    term: Arc<Term>,
    meta: Meta,
    /// When `meta` was last moved.
    moved: i64,
    /// The written ledger, from which a state is written.
    ledger: Ledger,
    log_bytes: usize,
    state_bytes: usize,
    /// The history before this revision is not needed any more, once the next state is there.
    passed: Option<i64>,
    /// Whether the write of a state had no answer: it may be there or not.
    unsure: bool,
}

impl EtcdLedger {
    /// Reads everything, and makes a ledger when there is none. The term excludes all other writers.
    ///
    /// # Errors
    /// Version when a later forebay wrote it; Data, with the key, when it cannot be read; Unavailable when etcd does
    /// not answer, or this process does not lead any more.
    pub(crate) async fn open(etcd: Arc<Etcd>, keys: Keys, term: Arc<Term>) -> Result<Self> {
        let (meta, moved) = match etcd.get(&keys.meta()).await? {
            Some(kv) => (read_meta(&kv)?, kv.mod_revision),
            None => (Meta { format: FORMAT, seq: 0, state: 0 }, 0),
        };
        check_format(meta.format, &keys)?;
        let state = match meta.state {
            0 => Vec::new(),
            seq => etcd.all(&keys.state(seq)).await?,
        };
        let log = etcd.all(&keys.logs()).await?;
        let ledger = replay(&meta, &keys, &state, &log)?;
        let bytes = |kvs: &[KeyValue]| kvs.iter().map(|kv| kv.value.len()).sum();
        let (log_bytes, state_bytes) = (bytes(&log), bytes(&state));
        let meta = Meta { format: FORMAT, ..meta };
        let mut this =
            Self { etcd, keys, term, meta, moved, ledger, log_bytes, state_bytes, passed: None, unsure: false };
        this.clear().await.map_err(|refusal| match refusal {
            Refusal::Deposed(why) => Error::unavailable(why),
            Refusal::Failed(error) => error,
        })?;
        Ok(this)
    }

    /// Returns the written ledger.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Removes the parts that a leader left when it ended in the middle of a batch.
    async fn clear(&mut self) -> Result<(), Refusal> {
        let (keys, meta) = (self.keys.clone(), self.meta.clone());
        let (states, logs) = (keys.states(), keys.logs());
        let mut clear = vec![delete(keys.log(meta.seq + 1), behind(&logs)), delete(logs, keys.log(meta.state + 1))];
        match meta.state {
            0 => clear.push(delete(states.clone(), behind(&states))),
            seq => {
                clear.push(delete(states.clone(), keys.state(seq)));
                clear.push(delete(behind(&keys.state(seq)), behind(&states)));
            }
        }
        self.go_to(meta, clear).await
    }

    /// Writes a batch; it is durable when this returns. After [`Refusal::Failed`] the same batch must be passed again.
    pub(crate) async fn commit(&mut self, batch: &Batch) -> Result<(), Refusal> {
        if self.unsure {
            self.look().await?;
        }
        let seq = self.meta.seq + 1;
        let text = rows::write(batch)?;
        let last = self.write_parts(&self.keys.log(seq), &text).await?;
        self.go_to(Meta { seq, ..self.meta.clone() }, vec![last]).await?;
        self.ledger.apply(batch);
        self.log_bytes += text.len();
        let batches = seq - self.meta.state;
        if batches >= LOG_BATCHES_MAX || self.log_bytes > self.state_bytes.max(LOG_BYTES_MIN) {
            match self.write_state().await {
                // The batch is there; the next one tries again.
                Err(Refusal::Failed(error)) => {
                    tracing::warn!(%error, "the snapshot of the ledger was not written; the next batch tries again");
                    self.unsure = true;
                }
                done => return done,
            }
        }
        Ok(())
    }

    /// Writes the whole state, and removes the log that led to it.
    pub(super) async fn write_state(&mut self) -> Result<(), Refusal> {
        let seq = self.meta.seq;
        let text = rows::write(&self.ledger.to_batch())?;
        let last = self.write_parts(&self.keys.state(seq), &text).await?;
        let (logs, states) = (self.keys.logs(), self.keys.states());
        let old = [delete(logs, self.keys.log(seq + 1)), delete(states, self.keys.state(seq))];
        self.go_to(Meta { state: seq, ..self.meta.clone() }, [vec![last], old.into()].concat()).await?;
        (self.log_bytes, self.state_bytes) = (0, text.len());
        // etcd keeps old values of keys until a compaction.
        if let Some(passed) = self.passed.replace(self.moved)
            && let Err(error) = self.etcd.compact(passed).await
        {
            tracing::debug!(%error, "etcd was not compacted");
        }
        Ok(())
    }

    /// Reads `meta`, and so whether a state is there.
    async fn look(&mut self) -> Result<(), Refusal> {
        if let Some(kv) = self.etcd.get(&self.keys.meta()).await? {
            (self.meta, self.moved) = (read_meta(&kv)?, kv.mod_revision);
        }
        self.unsure = false;
        Ok(())
    }

    /// Writes all parts but the last, and returns the operation that writes that.
    async fn write_parts(&self, at: &[u8], text: &[u8]) -> Result<RequestOp, Refusal> {
        let mut parts: Vec<_> = text.chunks(VALUE_BYTES_MAX).enumerate().collect();
        let (number, last) = parts.pop().unwrap_or((0, &[]));
        for (number, part) in parts {
            let success = vec![put(part_of(at, number), part.to_vec(), 0)];
            let done = self.txn(vec![self.leads()], success).await?;
            if !done.succeeded {
                return Err(self.contradicted(&done));
            }
        }
        Ok(put(part_of(at, number), last.to_vec(), 0))
    }

    /// Executes `ops` and moves `meta`, in one transaction.
    async fn go_to(&mut self, meta: Meta, ops: Vec<RequestOp>) -> Result<(), Refusal> {
        let text = serde_json::to_vec(&meta).map_err(|e| Error::internal(format!("the ledger's meta: {e}")))?;
        let ops = [ops, vec![put(self.keys.meta(), text, 0)]].concat();
        let compare = vec![self.leads(), changed_at(&self.keys.meta(), self.moved)];
        let done = self.txn(compare, ops).await?;
        self.moved = match done.succeeded {
            true => done.header.as_ref().map_or(0, |h| h.revision),
            // An attempt without an answer was executed.
            false => match self.found(&done) {
                (true, Some((found, moved))) if found == meta && moved > self.moved => moved,
                _ => return Err(self.contradicted(&done)),
            },
        };
        self.meta = meta;
        Ok(())
    }

    fn leads(&self) -> Compare {
        made_at(&self.keys.leader(), self.term.revision())
    }

    /// Executes `success`, or finds out why not.
    async fn txn(&self, compare: Vec<Compare>, success: Vec<RequestOp>) -> Result<TxnResponse, Refusal> {
        if !self.term.holds() {
            return Err(Refusal::Deposed("this dispatcher's term is over".to_owned()));
        }
        let failure = vec![get(self.keys.leader()), get(self.keys.meta())];
        Ok(self.etcd.txn(TxnRequest { compare, success, failure }).await?)
    }

    /// Returns, for a transaction that was not executed, whether we lead, and the value of `meta`.
    fn found(&self, answer: &TxnResponse) -> (bool, Option<(Meta, i64)>) {
        let mut values = answer.responses.iter().map(|r| match &r.response {
            Some(Answer::ResponseRange(range)) => range.kvs.first(),
            _ => None,
        });
        let leads = values.next().flatten().is_some_and(|kv| kv.create_revision == self.term.revision());
        let meta = values.next().flatten().and_then(|kv| Some((read_meta(kv).ok()?, kv.mod_revision)));
        (leads, meta)
    }

    fn contradicted(&self, answer: &TxnResponse) -> Refusal {
        Refusal::Deposed(match self.found(answer).0 {
            true => "the ledger is not what this dispatcher wrote last".to_owned(),
            false => "another dispatcher leads".to_owned(),
        })
    }
}

#[cfg(test)]
impl EtcdLedger {
    /// Returns the last batch, and when `meta` was moved to it.
    pub(super) fn position(&self) -> (u64, i64) {
        (self.meta.seq, self.moved)
    }

    /// Pretends that the writes since then had no answer.
    pub(super) fn forget_answer(&mut self, (seq, moved): (u64, i64)) {
        (self.meta.seq, self.moved) = (seq, moved);
    }
}

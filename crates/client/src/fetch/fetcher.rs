//! Streams one split from one worker into the reorder buffer, chunk by chunk.
//!
//! A broken stream is opened once more at the chunk where it broke. The fetcher reports to the dispatcher a worker that
//! is gone, or that no longer holds the split; the next worker continues at that chunk. The reorder buffer keeps the
//! error of a failed split until the stream reaches it.

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{ConsumerIndex, Error, Result, tracer};
use forebay_data::{Chunk, Loss, Memory, Schema, SharedMemory};
use forebay_exec::Executable;
use forebay_proto::{ChunkHead, JobKey, Lent, OpSpent, Payload, Request, ThreadTime, Ticket, TrailingColumn, metered};

use crate::fetch::attempt::{FetchAttempt, FetchError, NextAction, classify};
use crate::fetch::connection::{Connection, Received};
use crate::fetch::decode;
use crate::fetch::remaining_ops::{run_remaining_ops, schema_after};
use crate::fetch::shm::{ShmConnection, ShmStream};
use crate::fetch::split_trace::SplitTrace;
use crate::fetch::workers::Workers;
use crate::stream::reorder_buffer::Assignment;
use crate::stream::shared::{StreamShared, StreamState};

/// The number of ops that one heartbeat reports; the following heartbeats report the others.
const OPS_MAX: usize = 256;
/// Smaller chunks are decoded and finished on the runtime's threads; larger ones on threads for blocking work.
const DECODE_INLINE_MAX: usize = 256 << 10;

/// The parts that all fetches of a stream share.
pub(crate) struct Fetcher {
    pub(crate) shared: Arc<StreamShared>,
    pub(crate) workers: Workers,
    /// Runs the ops that workers leave to this process.
    pub(crate) executable: Arc<Executable>,
    /// Whether chunks carry their row ids.
    pub(crate) with_ids: bool,
    /// The memory for received chunks.
    pub(crate) memory: Memory,
    pub(crate) job: u64,
    /// The key that the job's workers require.
    pub(crate) key: JobKey,
    pub(crate) consumer: ConsumerIndex,
    /// The number of the stream in traces.
    pub(crate) stream: u64,
}

/// The schemas of a chunk and of its message.
struct Schemas {
    chunk: Arc<Schema>,
    wire: SchemaRef,
}

impl Fetcher {
    /// Fetches a split until it is complete, or reports that its worker is unreachable.
    pub(crate) async fn fetch(&self, assignment: Assignment) {
        let (mut attempt, mut reopened) = (FetchAttempt::new(assignment), false);
        loop {
            let ended = self.stream(&attempt.assignment, reopened).await;
            if matches!(ended, Err(FetchError::Worker(_))) {
                self.workers.forget(&attempt.assignment.address);
            }
            match self.shared.update(|s| attempt.after(s, ended)) {
                NextAction::Reopen => reopened = true,
                // A second fetch of the split may have ended with this one.
                NextAction::Stop => return self.shared.room.notify_waiters(),
                NextAction::Report => return self.shared.to_send.notify_one(),
            }
        }
    }

    async fn stream(&self, assignment: &Assignment, reopened: bool) -> Result<(), FetchError> {
        tokio::select! {
            biased;
            () = self.unwanted(assignment) => Err(FetchError::Unwanted),
            ended = self.receive_chunks(assignment, reopened) => ended,
        }
    }

    async fn receive_chunks(&self, assignment: &Assignment, reopened: bool) -> Result<(), FetchError> {
        let mut trace = SplitTrace::begin(self.stream, assignment);
        let connected = match reopened {
            false => self.workers.connection(&assignment.address).await,
            true => self.workers.reconnect(&assignment.address).await,
        };
        let (peer, mut connection) = connected.map_err(FetchError::Worker)?;
        let mut shm = peer.shm.as_ref().map(ShmConnection::stream);
        let ticket = Ticket { trace: trace.is_some(), ..self.ticket(assignment) };
        let request = Request::Read { ticket, reader: shm.as_ref().map(ShmStream::reader) };
        connection.ask(&request).await.map_err(FetchError::Worker)?;
        let mut parts: Vec<FlightData> = Vec::new();
        loop {
            self.wait_for_room(assignment).await;
            let (received, nanos) = metered(&ThreadTime, connection.receive(&self.memory)).await;
            let message = match received.map_err(FetchError::Worker)? {
                Received::Chunk(message) => message,
                Received::End => {
                    peer.give_back(connection);
                    return match parts.is_empty() {
                        true => Ok(()),
                        false => {
                            Err(FetchError::Worker(Error::unavailable("the worker's stream ended within a chunk")))
                        }
                    };
                }
                Received::Failed(error) => {
                    peer.give_back(connection);
                    return Err(classify(error));
                }
                Received::Socket(_) => {
                    return Err(FetchError::Worker(Error::data("a worker answered a read with the name of a socket")));
                }
            };
            let head = ChunkHead::open(&message).map_err(FetchError::Worker)?;
            let schemas = self.schemas(&head).map_err(FetchError::Worker)?;
            if !matches!(head.payload, Payload::SharedMemory(_)) {
                self.shared.lock().meter.receive(message.data_body.len(), nanos);
            }
            let chunk = match &head.payload {
                Payload::SharedMemory(lent) => self.borrow(message, lent, shm.as_mut(), &schemas),
                Payload::Trailing(trailing) => self.collect(message, trailing, &mut connection, &schemas).await,
                Payload::Inline => {
                    parts.push(message);
                    if head.more {
                        continue;
                    }
                    self.decode(std::mem::take(&mut parts), &schemas).await
                }
            };
            let losses = Loss::from_bytes(head.losses).map_err(FetchError::Worker)?;
            let chunk = chunk.map_err(FetchError::Worker)?.with_losses(losses);
            trace.iter_mut().for_each(|trace| trace.came(head.index, connection.arrived, &head.spans));
            let began = trace.as_ref().map(|_| tracer().now());
            let shm = peer.shm.as_ref().filter(|_| head.payload.is_shared());
            let read_only = shm.map(|shm| shm.read_only().clone());
            let chunk = self.finish(chunk, head.ops_on_worker, read_only).await.map_err(FetchError::Split)?;
            trace.iter_mut().zip(began).for_each(|(trace, began)| trace.did("finish", began));
            let bytes = chunk.num_bytes();
            let is_wanted = self.shared.update(|s| s.buffer.push(assignment, head.index, chunk, bytes));
            if !is_wanted.map_err(FetchError::Worker)? {
                return Err(FetchError::Unwanted);
            }
        }
    }

    fn ticket(&self, assignment: &Assignment) -> Ticket {
        Ticket {
            job: self.job,
            epoch: assignment.split.epoch,
            consumer: self.consumer.0,
            ordinal: assignment.split.ordinal,
            token: assignment.token,
            from_chunk: assignment.from_chunk,
            key: self.key,
            trace: false,
        }
    }

    /// Waits until an assignment is no longer wanted: its split was consumed, or another worker holds it.
    async fn unwanted(&self, assignment: &Assignment) {
        self.wait_until(|state| state.room_for(assignment).is_none()).await;
    }

    /// Waits until a split may receive more chunks, or is no longer wanted.
    async fn wait_for_room(&self, assignment: &Assignment) {
        self.wait_until(|state| state.room_for(assignment) != Some(false)).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&StreamState) -> bool) {
        loop {
            let room = self.shared.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if is_so(&self.shared.lock()) {
                return;
            }
            room.await;
        }
    }

    /// Returns the schemas of a chunk; they depend on its placement boundary.
    fn schemas(&self, head: &ChunkHead) -> Result<Schemas> {
        let chunk = schema_after(&self.executable, head.ops_on_worker)?.clone();
        let with_parts = self.executable.stages().has_parts();
        Ok(Schemas { wire: Chunk::wire_schema(&chunk, self.with_ids, with_parts), chunk })
    }

    fn borrow(
        &self,
        rest: FlightData,
        lent: &Lent,
        shm: Option<&mut ShmStream>,
        Schemas { chunk: schema, wire }: &Schemas,
    ) -> Result<Chunk> {
        let shm = shm.ok_or_else(|| Error::data("a worker lent memory to a consumer that did not ask for it"))?;
        let columns = shm.take(lent)?;
        let elsewhere: Vec<usize> = columns.iter().map(|(column, _)| *column).collect();
        let rest = decode::rest(rest, &elsewhere, wire, schema)?;
        decode::assemble(&rest, &columns, schema)
    }

    /// Reads the columns that follow a message into reused memory.
    async fn collect(
        &self,
        rest: FlightData,
        trailing: &[TrailingColumn],
        from: &mut Connection,
        Schemas { chunk: schema, wire }: &Schemas,
    ) -> Result<Chunk> {
        let elsewhere: Vec<usize> = trailing.iter().map(|c| c.column as usize).collect();
        let rest = decode::rest(rest, &elsewhere, wire, schema)?;
        let mut columns = Vec::with_capacity(trailing.len());
        for column in trailing {
            let place = column.column as usize;
            let bytes = decode::bytes_of(place, rest.num_rows(), schema)?;
            if bytes as u64 != column.len {
                let len = column.len;
                return Err(Error::data(format!("column {place} of a chunk has {len} bytes, not {bytes}")));
            }
            let (received, nanos) = metered(&ThreadTime, from.column(bytes, &self.memory)).await;
            columns.push((place, received?));
            self.shared.lock().meter.receive(bytes, nanos);
        }
        decode::assemble(&rest, &columns, schema)
    }

    /// Returns the cost of the ops that ran in this process since the last call.
    pub(crate) fn op_costs(&self) -> Vec<OpSpent> {
        self.executable.meter().take(OPS_MAX).into_iter().map(OpSpent::from).collect()
    }

    /// Runs the remaining ops. Copies the columns that are still in `read_only` memory, which other processes read,
    /// too: the user may write to batches.
    async fn finish(&self, chunk: Chunk, ops_on_worker: u32, read_only: Option<Arc<SharedMemory>>) -> Result<Chunk> {
        if self.executable.is_finished(ops_on_worker) && read_only.is_none() {
            return Ok(chunk);
        }
        let small = chunk.num_bytes() < DECODE_INLINE_MAX;
        let (executable, memory) = (self.executable.clone(), self.memory.clone());
        let finish = move || {
            let chunk = run_remaining_ops(&executable, chunk, ops_on_worker)?;
            let Some(read_only) = read_only else { return Ok(chunk) };
            chunk.without_foreign(&|buffer| read_only.contains(buffer), &memory)
        };
        if small {
            return finish();
        }
        let finished = tokio::task::spawn_blocking(finish).await;
        finished.unwrap_or_else(|e| Err(Error::internal(format!("finishing a chunk failed: {e}"))))
    }

    async fn decode(&self, parts: Vec<FlightData>, Schemas { chunk: schema, wire }: &Schemas) -> Result<Chunk> {
        if decode::num_bytes(&parts) < DECODE_INLINE_MAX {
            return decode::chunk(parts, wire, schema);
        }
        let (wire, schema) = (wire.clone(), schema.clone());
        let decoded = tokio::task::spawn_blocking(move || decode::chunk(parts, &wire, &schema)).await;
        decoded.unwrap_or_else(|e| Err(Error::internal(format!("decoding a chunk failed: {e}"))))
    }
}

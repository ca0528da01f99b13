//! Arrow Flight: serves the chunks of leased splits to any Arrow client that has the ticket. Forebay's own consumers
//! use a faster protocol (see `transfer`).
//!
//! A stream is a schema, then the chunks from the requested index on, each with its head (see `encode`). Status OK at
//! the end means that the split is complete; a split that failed ends the stream with its own error, after every chunk
//! before it. Any Arrow Flight client can list the splits and read them; none can write. Splits of a job that has a key
//! are listed and found only for clients that send the key: in `Criteria`, and as the last part of a path.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaAsIpc, SchemaResult,
};
use arrow_ipc::writer::IpcWriteOptions;
use forebay_core::{Error, Result};
use forebay_proto::{JobKey, Ticket, to_status};
use futures::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::serve::chunk_stream::ChunkStream;
use crate::serve::encode::Encoder;
use crate::splits::chunk::ProducedChunk;
use crate::splits::cursor::not_held;
use crate::splits::jobs::{Job, Prepared};
use crate::splits::lease_table::LeaseTable;
use crate::splits::split_buffer::SplitBuffer;
use crate::stats::WorkerStats;

/// Smaller chunks are encoded on the sending thread, larger ones on threads that may block.
const ENCODE_INLINE_MAX: usize = 256 << 10;

/// The Flight service of one worker.
pub(crate) struct FlightServer {
    pub(crate) lease_table: Arc<LeaseTable>,
    /// The address for Arrow Flight clients.
    pub(crate) location: String,
    /// Cancelled when the worker ends. Streams end with it, so that consumers use other workers at once.
    pub(crate) stop: CancellationToken,
}

/// One stream: the messages of the current chunk, and the chunks after it.
struct Messages {
    chunk_stream: ChunkStream,
    ready: VecDeque<FlightData>,
    encoder: Encoder,
    stats: Arc<WorkerStats>,
}

impl Messages {
    async fn next(&mut self) -> Result<Option<FlightData>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                let bytes = message.data_header.len() + message.data_body.len();
                self.stats.bytes_sent.fetch_add(bytes as u64, Relaxed);
                return Ok(Some(message));
            }
            let Some((index, produced)) = self.chunk_stream.next(false).await? else { return Ok(None) };
            self.ready = self.encode(produced, index).await?;
        }
    }

    /// Runs the remaining ops of a chunk and encodes it; a large chunk on a thread that may block.
    async fn encode(&mut self, produced: ProducedChunk, index: u64) -> Result<VecDeque<FlightData>> {
        let ProducedChunk { chunk, ops_on_worker, shared, .. } = produced;
        let (bytes, job) = (chunk.num_bytes(), self.chunk_stream.job().clone());
        let mut encoder = std::mem::take(&mut self.encoder);
        let encode = move || {
            let chunk = job.finish.finish(chunk, ops_on_worker)?;
            let ops_on_worker = job.finish.resolve_boundary(Some(u32::MAX));
            let finished = ProducedChunk { chunk, ops_on_worker, shared, spans: None };
            Ok::<_, Error>((encoder.encode(&finished, index, job.with_ids)?, encoder))
        };
        let (messages, encoder) = if bytes < ENCODE_INLINE_MAX {
            encode()?
        } else {
            let encoded = tokio::task::spawn_blocking(encode).await;
            encoded.map_err(|e| Error::internal(format!("encoding a chunk failed: {e}")))??
        };
        self.encoder = encoder;
        Ok(messages)
    }
}

impl FlightServer {
    async fn read(&self, ticket: &[u8]) -> Result<Out<FlightData>> {
        let chunk_stream = ChunkStream::open(&self.lease_table, &self.stop, &Ticket::from_bytes(ticket)?).await?;
        let schema = stream::once(std::future::ready(Ok(chunk_stream.job().schema_frame.clone())));
        let (ready, encoder, stats) = (VecDeque::new(), Encoder::default(), self.lease_table.stats.clone());
        let messages = Messages { chunk_stream, ready, encoder, stats };
        let chunks = stream::unfold(Some(messages), async |messages| {
            let mut messages = messages?;
            match messages.next().await {
                Ok(Some(frame)) => Some((Ok(frame), Some(messages))),
                Ok(None) => None,
                Err(error) => Some((Err(to_status(&error)), None)),
            }
        });
        Ok(schema.chain(chunks).boxed())
    }

    /// Describes a split for Arrow clients.
    fn describe(&self, split: &SplitBuffer, job: &Job) -> Option<FlightInfo> {
        let (key, prepared) = (split.key, job.ready()?);
        let ticket = Ticket {
            job: key.job,
            epoch: key.epoch,
            consumer: key.consumer,
            ordinal: key.ordinal,
            token: split.token(),
            from_chunk: 0,
            key: JobKey::from_bytes(&job.definition.key),
            trace: false,
        };
        let place = [key.epoch, key.consumer.into(), key.ordinal].map(|n| n.to_string());
        let secret = (!ticket.key.is_none()).then(|| ticket.key.into());
        let path = std::iter::once(job.definition.name.clone()).chain(place).chain(secret).collect();
        let endpoint = FlightEndpoint::new()
            .with_ticket(arrow_flight::Ticket::new(ticket.to_bytes()))
            .with_location(&*self.location);
        let info = FlightInfo::new()
            .with_descriptor(FlightDescriptor::new_path(path))
            .with_endpoint(endpoint)
            .with_total_records(-1)
            .with_total_bytes(-1)
            .with_ordered(true);
        info.try_with_schema(&prepared.schema).ok()
    }

    fn find(&self, descriptor: &FlightDescriptor) -> Result<(FlightInfo, Arc<Prepared>), Status> {
        let path = &descriptor.path;
        let key_given = parse_key(path.last().map(String::as_bytes).unwrap_or_default());
        let found =
            self.lease_table.list().into_iter().filter(|(_, job)| key_given.opens(&job.definition.key)).find_map(
                |(split, job)| {
                    let info = self.describe(&split, &job)?;
                    let same = info.flight_descriptor.as_ref().is_some_and(|d| d.path == *path);
                    same.then(|| job.ready().map(|p| (info, p))).flatten()
                },
            );
        found.ok_or_else(|| to_status(&not_held()))
    }
}

/// Reads the key of a client. Text that is not a key gives no key, which opens jobs without one.
fn parse_key(text: &[u8]) -> JobKey {
    let text = std::str::from_utf8(text).unwrap_or_default();
    JobKey::try_from(text.to_owned()).unwrap_or_default()
}

type Out<T> = BoxStream<'static, Result<T, Status>>;

fn unsupported<T>(what: &str) -> Result<T, Status> {
    Err(Status::unimplemented(format!("a forebay worker does not {what}: it lists its splits and serves them")))
}

#[tonic::async_trait]
impl FlightService for FlightServer {
    type HandshakeStream = Out<HandshakeResponse>;
    type ListFlightsStream = Out<FlightInfo>;
    type DoGetStream = Out<FlightData>;
    type DoPutStream = Out<PutResult>;
    type DoExchangeStream = Out<FlightData>;
    type DoActionStream = Out<arrow_flight::Result>;
    type ListActionsStream = Out<ActionType>;

    async fn do_get(&self, ticket: Request<arrow_flight::Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let stream = self.read(&ticket.get_ref().ticket).await;
        stream.map(Response::new).map_err(|e| to_status(&e))
    }

    async fn list_flights(&self, of: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        let (key_given, held) = (parse_key(&of.get_ref().expression), self.lease_table.list());
        let open = held.iter().filter(|(_, job)| key_given.opens(&job.definition.key));
        let infos: Vec<_> = open.filter_map(|(split, job)| self.describe(split, job)).map(Ok).collect();
        Ok(Response::new(stream::iter(infos).boxed()))
    }

    async fn get_flight_info(&self, of: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        self.find(of.get_ref()).map(|(info, _)| Response::new(info))
    }

    async fn get_schema(&self, of: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let (_, job) = self.find(of.get_ref())?;
        let schema = SchemaAsIpc::new(&job.schema, &IpcWriteOptions::default()).try_into();
        schema.map(Response::new).map_err(|e: arrow_schema::ArrowError| Status::internal(e.to_string()))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unsupported("poll")
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unsupported("shake hands")
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        unsupported("take data")
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        unsupported("exchange data")
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        unsupported("do actions")
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Ok(Response::new(stream::empty().boxed()))
    }
}

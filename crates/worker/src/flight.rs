//! Arrow Flight: serves the chunks of held splits to whoever has the ticket, waiting for those that are computed.
//!
//! A stream is a schema, then the chunks from the one that was asked for on, each with its head (see `encode`). Its
//! end with status OK means that the split is complete; a split that failed ends it with the split's own error, after
//! every chunk before. Any Arrow Flight client can list the splits and read them; nothing can be written here. A reader
//! that says it is on this machine is lent the chunks' memory.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaAsIpc, SchemaResult,
};
use arrow_ipc::writer::IpcWriteOptions;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Chunk;
use forebay_proto::{LOCAL_ACTION, READER_HEADER, Ticket, to_status};
use futures::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::encode::Encoder;
use crate::held::{Held, Seen};
use crate::jobs::{Job, Prepared};
use crate::lender::{Lender, Lending};
use crate::shelf::Shelf;

/// Chunks below this are encoded where they are sent; larger ones on threads that may take their time.
const ENCODE_INLINE_MAX: usize = 256 << 10;

/// The Flight service of one worker.
pub(crate) struct Flight {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) address: String,
    /// Lends memory, where the system can.
    pub(crate) lender: Option<Arc<Lender>>,
    /// Cancelled when the worker ends: streams end with it, so that consumers go elsewhere at once.
    pub(crate) stop: CancellationToken,
}

/// One stream: where it is in its split.
struct Reading {
    shelf: Arc<Shelf>,
    split: Arc<Held>,
    job: Arc<Prepared>,
    token: u64,
    next: u64,
    /// Messages of the chunk that was taken last.
    ready: VecDeque<FlightData>,
    encoder: Encoder,
    lending: Option<Arc<Lending>>,
    stop: CancellationToken,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<FlightData>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let seen = tokio::select! {
                () = self.stop.cancelled() => return Err(stopping()),
                seen = self.split.at(self.token, self.next, self.lending.is_some()) => seen,
            };
            match seen {
                Seen::Chunk(chunk) => {
                    self.ready = self.messages(chunk).await?;
                    self.next += 1;
                }
                Seen::Dropped => self.shelf.recompute(&self.split, self.job.clone(), self.next),
                Seen::Failed(error) => return Err(error),
                Seen::End => return Ok(None),
                Seen::Gone => return Err(not_held()),
                Seen::Beyond(total) => {
                    let next = self.next;
                    return Err(Error::invalid(format!("chunk {next} of a split of {total} chunks was asked for")));
                }
                Seen::NotYet => {}
            }
        }
    }
}

impl Reading {
    /// Turns a chunk into messages: where it may take its time, if there is much to copy.
    async fn messages(&mut self, chunk: Chunk) -> Result<VecDeque<FlightData>> {
        let bytes = self.lending.as_ref().map_or_else(|| chunk.num_bytes(), |l| l.bytes_to_copy(&chunk));
        let (index, with_ids, lending) = (self.next, self.job.with_ids, self.lending.clone());
        let mut encoder = std::mem::take(&mut self.encoder);
        let encode = move || (messages(&mut encoder, lending.as_deref(), &chunk, index, with_ids), encoder);
        let (messages, encoder) = if bytes < ENCODE_INLINE_MAX {
            encode()
        } else {
            let encoded = tokio::task::spawn_blocking(encode).await;
            encoded.map_err(|e| Error::internal(format!("encoding a chunk failed: {e}")))?
        };
        self.encoder = encoder;
        messages
    }
}

fn messages(
    encoder: &mut Encoder,
    lending: Option<&Lending>,
    chunk: &Chunk,
    index: u64,
    with_ids: bool,
) -> Result<VecDeque<FlightData>> {
    match lending.map(|l| l.lend(chunk)).transpose()?.flatten() {
        Some((lent, rest)) => Ok([encoder.encode_lent(&rest, chunk.losses(), index, with_ids, lent)?].into()),
        None => encoder.encode(chunk, index, with_ids),
    }
}

/// The context `ticket` tells a consumer that the lease is gone, and not that the split failed with NotFound.
fn not_held() -> Error {
    Error::new(ErrorKind::NotFound, "this worker does not hold that split under that token")
        .with("ticket", "refused")
        .hint("the lease has ended or was given to another worker; ask the dispatcher")
}

fn stopping() -> Error {
    Error::unavailable("this worker stops")
}

impl Flight {
    async fn read(&self, ticket: &[u8], reader: Option<&str>) -> Result<Out<FlightData>> {
        let ticket = Ticket::from_bytes(ticket)?;
        if self.stop.is_cancelled() {
            return Err(stopping());
        }
        let found = tokio::select! {
            () = self.stop.cancelled() => return Err(stopping()),
            found = self.shelf.find(&ticket) => found,
        };
        let (split, job) = found.ok_or_else(not_held)?;
        let job = tokio::select! {
            () = self.stop.cancelled() => return Err(stopping()),
            job = job.prepared() => job?,
        };
        let schema = stream::once(std::future::ready(Ok(job.schema_frame.clone())));
        let (shelf, stop) = (self.shelf.clone(), self.stop.clone());
        let lending = self.lender.as_ref().zip(reader).and_then(|(lender, reader)| lender.stream(reader)).map(Arc::new);
        let reading = Reading {
            shelf,
            split,
            job,
            token: ticket.token,
            next: ticket.from_chunk,
            ready: VecDeque::new(),
            encoder: Encoder::default(),
            lending,
            stop,
        };
        let chunks = stream::unfold(Some(reading), async |reading| {
            let mut reading = reading?;
            match reading.next().await {
                Ok(Some(frame)) => Some((Ok(frame), Some(reading))),
                Ok(None) => None,
                Err(error) => Some((Err(to_status(&error)), None)),
            }
        });
        Ok(schema.chain(chunks).boxed())
    }

    /// Describes a split for clients that are not Forebay's.
    fn describe(&self, split: &Held, job: &Job) -> Option<FlightInfo> {
        let (key, prepared) = (split.key, job.ready()?);
        let ticket = Ticket {
            job: key.job,
            epoch: key.epoch,
            consumer: key.consumer,
            ordinal: key.ordinal,
            token: split.token(),
            from_chunk: 0,
        };
        let path =
            vec![job.definition.name.clone(), key.epoch.to_string(), key.consumer.to_string(), key.ordinal.to_string()];
        let endpoint = FlightEndpoint::new()
            .with_ticket(arrow_flight::Ticket::new(ticket.to_bytes()))
            .with_location(format!("grpc://{}", self.address));
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
        let found = self.shelf.list().into_iter().find_map(|(split, job)| {
            let info = self.describe(&split, &job)?;
            let same = info.flight_descriptor.as_ref().is_some_and(|d| d.path == *path);
            same.then(|| job.ready().map(|p| (info, p))).flatten()
        });
        found.ok_or_else(|| to_status(&not_held()))
    }
}

type Out<T> = BoxStream<'static, Result<T, Status>>;

fn unsupported<T>(what: &str) -> Result<T, Status> {
    Err(Status::unimplemented(format!("a forebay worker does not {what}: it lists its splits and serves them")))
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Out<HandshakeResponse>;
    type ListFlightsStream = Out<FlightInfo>;
    type DoGetStream = Out<FlightData>;
    type DoPutStream = Out<PutResult>;
    type DoExchangeStream = Out<FlightData>;
    type DoActionStream = Out<arrow_flight::Result>;
    type ListActionsStream = Out<ActionType>;

    async fn do_get(&self, ticket: Request<arrow_flight::Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let reader = ticket.metadata().get(READER_HEADER).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let stream = self.read(&ticket.get_ref().ticket, reader.as_deref()).await;
        stream.map(Response::new).map_err(|e| to_status(&e))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        let held = self.shelf.list();
        let infos: Vec<_> = held.iter().filter_map(|(split, job)| self.describe(split, job)).map(Ok).collect();
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

    async fn do_action(&self, action: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        if action.get_ref().r#type != LOCAL_ACTION {
            return unsupported("do such actions");
        }
        let socket = self.lender.as_ref().map(|l| l.socket().to_owned());
        let socket = socket.map(|name| Ok(arrow_flight::Result { body: name.into() }));
        Ok(Response::new(stream::iter(socket).boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let local = ActionType {
            r#type: LOCAL_ACTION.to_owned(),
            description: "Gives the name of the Unix socket (abstract) on which chunks' memory is lent.".to_owned(),
        };
        Ok(Response::new(stream::iter([Ok(local)]).boxed()))
    }
}

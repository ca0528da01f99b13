//! A worker's session: messages to the actor, events back, until either side ends it.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_proto::worker_message::Message;
use forebay_proto::{Address, Build, Hello, JobKey, WorkerEvent, WorkerMessage, WorkerSecret, check_version};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::session::run;
use super::{first, refuse};
use crate::access::{Principal, Role};
use crate::actor::handle::{Command, Handle, PORT_EVENTS_MAX, Port};
use crate::state::{Arrival, Input, SessionId, WorkerType};

pub(super) async fn begin(
    actor: &Handle,
    principal: &Principal,
    mut inbound: Streaming<WorkerMessage>,
) -> Result<ReceiverStream<Result<WorkerEvent, Status>>, Status> {
    let Some(Message::Hello(hello)) = first(&mut inbound).await?.message else {
        return Err(refuse(Error::invalid("a worker's first message is hello")));
    };
    let (port, events) = mpsc::channel(PORT_EVENTS_MAX);
    let (session, ended) = (actor.session(), CancellationToken::new());
    // A token that may read a job may compute for its consumer. Only a worker's token may compute for others.
    if hello.only.is_none() {
        principal.must_be(Role::Worker).map_err(refuse)?;
    }
    let arrived = arrived(session, principal.serves(), hello).map_err(refuse)?;
    let begin = Command::Begin { session, port: Port::Worker(port), ended: ended.clone(), input: arrived };
    actor.send(begin).await.map_err(refuse)?;
    let read = move |message: WorkerMessage| input(session, message.message?);
    let (ends, gone) = ((ended, principal.revoked.clone()), Input::WorkerGone { session });
    tokio::spawn(run(actor.clone(), inbound, ends, read, gone));
    Ok(ReceiverStream::new(events))
}

/// Returns the input for the first message.
///
/// # Errors
/// Version; Invalid when its secret, its address or its bits are not valid.
pub(crate) fn arrived(session: SessionId, serves: Option<Arc<str>>, hello: Hello) -> Result<Input> {
    check_version("this worker", &hello.version, hello.build.as_ref())?;
    // Tenants see ids, so knowing an id must not be enough to take its place.
    let worker = WorkerSecret::from_bytes(&hello.secret)?.id();
    // Consumers get this address, so an invalid one is refused here, where it can be corrected.
    let address: Address = hello.address.parse()?;
    Ok(Input::Hello(Arrival {
        session,
        worker,
        address: address.to_string().into(),
        threads: hello.threads,
        held: hello.held,
        serves,
        place: hello.place.into(),
        only: hello.only.map(|only| (only.job, only.consumer)),
        local_key: JobKey::from_bytes(&hello.local_key),
        bits: Build::bits(hello.build)?,
        worker_type: WorkerType::new(&hello.kind, hello.price, hello.spot)?,
    }))
}

/// Returns the input for a later message.
pub(crate) fn input(session: SessionId, message: Message) -> Option<Input> {
    Some(match message {
        Message::Want(want) => Input::Want { session, splits: want.splits },
        Message::Heartbeat(said) => Input::WorkerHeartbeat { session, said },
        Message::Threads(said) => Input::Threads { session, threads: said.threads },
        Message::Leaving(_) => Input::Leaving { session },
        // Only the first message of a session says hello.
        Message::Hello(_) => return None,
    })
}

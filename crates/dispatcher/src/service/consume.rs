//! A consumer's session: messages to the actor, events back, until either side ends it.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_proto::consumer_message::Message;
use forebay_proto::{Attach, Build, ConsumerEvent, ConsumerMessage, JobKey, check_version};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::session::run;
use super::{first, refuse};
use crate::access::Principal;
use crate::actor::handle::{Command, Handle, PORT_EVENTS_MAX, Port};
use crate::records::Position;
use crate::service::traces::Traces;
use crate::state::{Attachment, Input, SessionId};
use crate::tenant::Tenant;

pub(super) async fn begin(
    actor: &Handle,
    principal: &Principal,
    mut inbound: Streaming<ConsumerMessage>,
    traces: &Arc<Traces>,
) -> Result<ReceiverStream<Result<ConsumerEvent, Status>>, Status> {
    let Some(Message::Attach(attach)) = first(&mut inbound).await?.message else {
        return Err(refuse(Error::invalid("a consumer's first message is attach")));
    };
    check_version("this client", &attach.version, attach.build.as_ref()).map_err(refuse)?;
    let (port, events) = mpsc::channel(PORT_EVENTS_MAX);
    let (session, ended) = (actor.session(), CancellationToken::new());
    let registered = traces.register(principal.tenant.name.clone(), &attach, port.downgrade());
    let attached = attached(session, principal.tenant.clone(), attach).map_err(refuse)?;
    let begin = Command::Begin { session, port: Port::Consumer(port), ended: ended.clone(), input: attached };
    actor.send(begin).await.map_err(refuse)?;
    let read = move |message: ConsumerMessage| input(session, message.message?);
    let (ends, gone) = ((ended, principal.revoked.clone()), Input::ConsumerGone { session });
    let running = run(actor.clone(), inbound, ends, read, gone);
    tokio::spawn(async move {
        running.await;
        drop(registered);
    });
    Ok(ReceiverStream::new(events))
}

/// Returns the input for the first message.
///
/// # Errors
/// Invalid when its bits are not valid.
pub(crate) fn attached(session: SessionId, tenant: Tenant, attach: Attach) -> Result<Input> {
    Ok(Input::Attach(Attachment {
        session,
        tenant,
        consumer: (attach.job, attach.consumer),
        position: Position::new(attach.epoch, attach.ordinal),
        resume: attach.resume,
        window: attach.window,
        skipped: attach.lost,
        local_key: JobKey::from_bytes(&attach.local_key),
        bits: Build::bits(attach.build)?,
    }))
}

/// Returns the input for a later message.
pub(crate) fn input(session: SessionId, message: Message) -> Option<Input> {
    Some(match message {
        // Only the first message of a session attaches.
        Message::Attach(_) => return None,
        Message::Ack(ack) => Input::Ack { session, position: Position::new(ack.epoch, ack.ordinal) },
        Message::Unreachable(lost) => Input::Unreachable {
            session,
            position: Position::new(lost.epoch, lost.ordinal),
            token: lost.token,
            error: match lost.error.as_str() {
                "" => Error::unavailable("a split could not be fetched from any worker"),
                json => Error::from_json(json).bounded(),
            },
        },
        Message::Lost(lost) => Input::Skipped { session, number: lost.number, samples: lost.samples },
        Message::Steps(said) => Input::Steps { session, said },
        Message::EndEpoch(end) => Input::EndEpoch { session, epoch: end.epoch },
        Message::Heartbeat(said) => Input::ConsumerHeartbeat { session, said },
    })
}

//! A consumer's session: messages to the actor, events back, until either side ends it.

use std::sync::Arc;

use forebay_core::Error;
use forebay_proto::consumer_message::Message;
use forebay_proto::{Attach, ConsumerEvent, ConsumerMessage, JobKey, check_version};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::{first, refuse};
use crate::access::Principal;
use crate::handle::{Command, Handle, PORT_EVENTS_MAX, Port};
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
    check_version("this client", &attach.version).map_err(refuse)?;
    let (port, events) = mpsc::channel(PORT_EVENTS_MAX);
    let (session, ended) = (actor.session(), CancellationToken::new());
    let registered = traces.register(principal.tenant.name.clone(), &attach, port.downgrade());
    let input = attached(session, principal.tenant.clone(), attach);
    let begin = Command::Begin { session, port: Port::Consumer(port), ended: ended.clone(), input };
    actor.send(begin).await.map_err(refuse)?;
    let running = run(actor.clone(), session, inbound, ended, principal.revoked.clone());
    tokio::spawn(async move {
        running.await;
        drop(registered);
    });
    Ok(ReceiverStream::new(events))
}

/// Returns the input for the first message.
pub(crate) fn attached(session: SessionId, tenant: Tenant, attach: Attach) -> Input {
    Input::Attach(Attachment {
        session,
        tenant,
        consumer: (attach.job, attach.consumer),
        position: Position::new(attach.epoch, attach.ordinal),
        resume: attach.resume,
        window: attach.window,
        skipped: attach.lost,
        local_key: JobKey::from_bytes(&attach.local_key),
    })
}

async fn run(
    actor: Handle,
    session: SessionId,
    mut inbound: Streaming<ConsumerMessage>,
    ended: CancellationToken,
    revoked: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            () = ended.cancelled() => break,
            // The consumer gets the reason when it reconnects.
            () = revoked.cancelled() => break,
            message = inbound.message() => message,
        };
        // A broken connection and an ended stream mean the same: the consumer is gone.
        let Ok(Some(message)) = message else { break };
        let Some(input) = message.message.and_then(|m| input(session, m)) else { continue };
        if actor.send(Command::Input(input)).await.is_err() {
            return;
        }
    }
    // The actor may be gone, too.
    let _ = actor.send(Command::Input(Input::ConsumerGone { session })).await;
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

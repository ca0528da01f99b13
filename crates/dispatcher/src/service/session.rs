//! The loop of a session with a worker or a consumer, after its first message.

use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::actor::handle::{Command, Handle};
use crate::state::Input;

/// Passes the peer's messages to the actor, as `input` reads them, until either side ends the session; then `gone`.
/// `ended`: the actor ends it; `revoked`: the peer's token is no longer valid.
pub(super) async fn run<M>(
    actor: Handle,
    mut inbound: Streaming<M>,
    (ended, revoked): (CancellationToken, CancellationToken),
    input: impl Fn(M) -> Option<Input>,
    gone: Input,
) {
    loop {
        let message = tokio::select! {
            () = ended.cancelled() => break,
            // The peer gets the reason when it reconnects.
            () = revoked.cancelled() => break,
            message = inbound.message() => message,
        };
        // A broken connection and an ended stream mean the same: the peer is gone.
        let Ok(Some(message)) = message else { break };
        let Some(input) = input(message) else { continue };
        if actor.send(Command::Input(input)).await.is_err() {
            return;
        }
    }
    // The actor may be gone, too.
    let _ = actor.send(Command::Input(gone)).await;
}

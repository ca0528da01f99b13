//! Short messages through a Unix socket, each with or without a file descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Longest message: the names of all volumes of a node.
pub(crate) const MESSAGE_MAX: usize = 16 << 10;
/// Timeout of a read or write.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Sets the timeouts of a socket.
pub(crate) fn bound(socket: &UnixStream) -> io::Result<()> {
    socket.set_read_timeout(Some(WAIT_MAX))?;
    socket.set_write_timeout(Some(WAIT_MAX))
}

pub(crate) fn send(socket: &UnixStream, message: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let bytes = message.as_bytes();
    let sent = sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a message; an empty one if the other process has ended.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<(String, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; MESSAGE_MAX];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    bytes.truncate(received.bytes);
    let message = String::from_utf8(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((message, descriptor))
}

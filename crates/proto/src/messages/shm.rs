//! How a worker lends shared memory to consumers on its host, so that chunks need not be copied.
//!
//! The worker listens on an abstract Unix socket, and sends its name on request ([`crate::Request::Local`]). Only
//! processes of the same host and network namespace can connect; the worker refuses a process of another user. It
//! answers with the consumer's number and the descriptor of its arena, which the consumer maps. Chunks then come as
//! usual (see `transfer`), but their heads name their large columns by offset ([`crate::Lent`]). The consumer returns
//! loans over the socket ([`Return`]). The kernel closes the socket when the consumer dies; the worker then takes back
//! its loans.
//!
//! Invariant: a worker reuses lent memory only after the consumer has returned it or no longer exists.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// A message of a consumer on the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// The consumer no longer uses this loan.
    Loan(u64),
    /// A stream has ended, and `last` was the last loan received on it: later ones were lost on the way.
    Stream {
        /// The consumer's number for the stream.
        stream: u64,
        /// The last loan; 0 if there was none.
        last: u64,
    },
}

impl Return {
    /// The length of one message.
    pub const BYTES: usize = 17;

    /// Writes the message.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, a, b) = match self {
            Return::Loan(loan) => (0, loan, 0),
            Return::Stream { stream, last } => (1, stream, last),
        };
        let mut bytes = [kind; Self::BYTES];
        bytes[1..9].copy_from_slice(&a.to_le_bytes());
        bytes[9..].copy_from_slice(&b.to_le_bytes());
        bytes
    }

    /// Reads a message; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        match bytes[0] {
            0 => Some(Return::Loan(word(1))),
            1 => Some(Return::Stream { stream: word(1), last: word(9) }),
            _ => None,
        }
    }
}

/// Sends the consumer's number and the arena. The socket must be a blocking one.
///
/// # Errors
/// The system's error.
pub fn send_arena(socket: BorrowedFd<'_>, consumer: u64, arena: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [arena];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let number = consumer.to_le_bytes();
    let sent = sendmsg(socket, &[IoSlice::new(&number)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == number.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives the number and the arena that [`send_arena`] sent. The socket must be a blocking one.
///
/// # Errors
/// The system's error; InvalidData for any other message.
pub fn receive_arena(socket: BorrowedFd<'_>) -> io::Result<(u64, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 8];
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut number)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let arena = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match arena {
        Some(arena) if received.bytes == number.len() => Ok((u64::from_le_bytes(number), arena)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns whether the process at the other end belongs to the same user.
pub fn is_same_user(socket: &impl AsFd) -> bool {
    #[cfg(target_os = "linux")]
    let same = rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid());
    #[cfg(not(target_os = "linux"))]
    let same = {
        let _ = socket;
        false
    };
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_read_as_they_were_written() {
        for said in [Return::Loan(u64::MAX - 1), Return::Stream { stream: 3, last: 1 << 40 }] {
            assert_eq!(Return::from_bytes(&said.to_bytes()), Some(said));
        }
        assert_eq!(Return::from_bytes(&[7; Return::BYTES]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_arena_goes_through_a_socket() {
        let (worker, consumer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert!(is_same_user(&consumer));
        let arena = forebay_data::Arena::shared().expect("a memfd");
        let mut block = arena.block(1 << 16).expect("a block");
        block.as_mut_slice().fill(3);
        let lent = block.into_buffer();
        send_arena(worker.as_fd(), 42, arena.fd().expect("a file")).expect("sent");
        let (number, fd) = receive_arena(consumer.as_fd()).expect("received");
        let memory = forebay_data::SharedMemory::open(fd.as_fd()).expect("mapped");
        let at = arena.offset_of(&lent).expect("in the arena");
        // SAFETY: no process writes.
        let seen = unsafe { memory.buffer(at, lent.len(), memory.clone()) }.expect("in range");
        assert_eq!((number, seen.as_slice()), (42, lent.as_slice()));
        drop(worker);
        assert!(receive_arena(consumer.as_fd()).is_err());
    }
}

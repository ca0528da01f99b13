//! The function process itself: serves its parent's calls until the parent is gone.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;
use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{Functions, Pickle};
use forebay_plan::BlobId;
use pyo3::prelude::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};

use super::wire::{Body, Call, Request, Shared, read_rows, receive, send, write_rows};
use crate::functions::PyFunctions;

/// How often the watch on the parent checks again while a request is waiting.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Serves the calls that come over the socket `fd`; returns when the parent is gone.
#[pyfunction]
pub(crate) fn serve_functions(py: Python<'_>, fd: RawFd) -> PyResult<()> {
    // SAFETY: the caller hands over the descriptor, which it has just duplicated.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    crate::errors::detached(py, || {
        let shared = Arc::new(take_files(&socket)?);
        end_with_parent(&socket)?;
        let progress = shared.clone();
        let functions = PyFunctions::with_progress(Box::new(move |row| {
            progress.set_progress(row);
            !progress.is_cancelled()
        }));
        let host = Host { socket, shared, functions };
        let mut answer = Body::Ready;
        // Either fails when the parent is gone, so there is no receiver of an error.
        while send(&host.socket, &answer).is_ok()
            && let Ok(request) = receive::<Request>(&host.socket)
        {
            answer = host.serve(request).unwrap_or_else(|error| Body::Failed { error });
        }
        Ok(())
    })
}

fn take_files(socket: &UnixStream) -> Result<Shared> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(std::io::Error::from)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Shared::from_fds(fds).ok_or_else(|| {
        Error::internal("the parent sent no files")
            .hint("it may have reached its limit of open files: raise it (`ulimit -n`)")
    })
}

/// Ends this process when the parent's end of the socket closes, during any call of users' code.
fn end_with_parent(socket: &UnixStream) -> Result<()> {
    let socket = socket.try_clone()?;
    let watch = move || loop {
        match recv(&socket, &mut [0], RecvFlags::PEEK) {
            // A request that the other thread is about to take.
            Ok((1, _)) | Err(rustix::io::Errno::INTR) => std::thread::sleep(LOOK),
            _ => drop(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)),
        }
    };
    std::thread::Builder::new().name("forebay-parent".to_owned()).spawn(watch)?;
    Ok(())
}

struct Host {
    socket: UnixStream,
    shared: Arc<Shared>,
    functions: PyFunctions,
}

impl Host {
    fn serve(&self, request: Request) -> Result<Body> {
        let object = match (request.object, request.pickle_bytes) {
            (Some(id), bytes) => self.pickle(id, bytes.unwrap_or(0))?,
            (None, _) => return Err(Error::internal("a call without an object")),
        };
        let rows = |schema: &Schema| read_rows(&self.shared.request, request.input_bytes, &Arc::new(schema.clone()));
        match request.call {
            Call::Map { function, randomness, input, output } => {
                let (input, output) = (rows(&input)?, Arc::new(output));
                let columns = self.functions.map(&function, &object, &input, randomness.map(Into::into), &output)?;
                self.reply(&input.with_columns(output, columns)?)
            }
            Call::Filter { function, randomness, input } => {
                let input = rows(&input)?;
                let keep = self.functions.filter(&function, &object, &input, randomness.map(Into::into))?;
                Ok(Body::Keep { rows: keep.iter().map(|k| k == Some(true)).collect() })
            }
            Call::FlatMap { function, randomness, input, output, count } => {
                let (input, output) = (rows(&input)?, Arc::new(output));
                let randomness = randomness.map(Into::into);
                let made = self.functions.flat_map(&function, &object, &input, randomness, &output, count)?;
                let total = made.counts.iter().map(|&count| count as usize).sum();
                let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; total];
                let bytes = write_rows(&self.shared.reply, &Chunk::new(output, made.columns, ids.into())?, false)?;
                Ok(Body::Made { bytes, counts: made.counts })
            }
            Call::Items { rows, ids, output } => {
                let ids = ids.iter().map(|&(s, e)| RowId { sample: SampleId(s), epoch: Epoch(e) }).collect();
                self.reply(&self.functions.items(&object, &rows, ids, &Arc::new(output))?)
            }
            Call::Generate { rows, output } => {
                let output = Arc::new(output);
                self.functions
                    .generate(&object, rows, &output, &mut |columns, rows| self.yielded(&output, columns, rows))?;
                Ok(Body::End)
            }
            Call::More => Err(Error::internal("no generator is open")),
        }
    }

    /// Sends the chunk that a generator yielded, and waits until the next one is requested.
    fn yielded(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows];
        send(&self.socket, &self.reply(&Chunk::new(schema.clone(), columns, ids.into())?)?)?;
        match receive::<Request>(&self.socket)?.call {
            Call::More => Ok(()),
            _ => Err(Error::internal("a call came while a generator was open")),
        }
    }

    fn reply(&self, chunk: &Chunk) -> Result<Body> {
        Ok(Body::Columns { bytes: write_rows(&self.shared.reply, chunk, false)? })
    }

    fn pickle(&self, id: BlobId, bytes: u64) -> Result<Pickle> {
        let mut pickle = vec![0; bytes as usize];
        self.shared.pickle.read_exact_at(&mut pickle, 0)?;
        Ok(Pickle { id, bytes: Bytes::from(pickle) })
    }
}

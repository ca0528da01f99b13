//! Memory that workers lend to consumers on their machine: the real accounts of both sides, over a simulated socket and
//! memory.
//!
//! A consumer returns loans over a socket of its own: in order and without loss, independent of the stream of chunks. A
//! block is a chunk's memory, identified by its address, which no other block has while this world lives. L-1: a block
//! that was lent for writing is never sent to any other consumer, and a block that others read is never lent for
//! writing. L-2: a lent block is at its consumer, on its way there, or on its way back; and no block comes back while
//! its consumer uses it.

pub(crate) mod loans;

use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef, make_array};
use bytes::Bytes;
use forebay_client::simulate::{Borrower, Borrowing};
use forebay_data::Chunk;
use forebay_proto::{ConsumerStream, Return};

use crate::faults::planted::Planted;
use crate::roles::consumer::node::CHUNK_BYTES;
use crate::roles::node::Node;
use crate::world::{Event, World};
use loans::{Guard, Lent, LentTo, Loan, Socket};

/// The time of a message on the socket, in ms.
const WORD: std::ops::Range<u64> = 0..4;

/// The bytes of a column, and the loan that returns once nothing refers to them.
struct Column<B>(B, #[expect(dead_code, reason = "it is there to be dropped")] Arc<Guard>);

impl<B: std::ops::Deref<Target = [u8]>> AsRef<[u8]> for Column<B> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the index of the lent column of a chunk, and the address of its memory.
fn block_of(chunk: &Chunk) -> Option<(usize, usize)> {
    let address = |column: &ArrayRef| {
        let data = column.to_data();
        let buffer = data.buffers().first().filter(|buffer| data.child_data().is_empty() && !buffer.is_empty());
        buffer.map(|buffer| buffer.as_ptr() as usize)
    };
    chunk.columns().iter().enumerate().find_map(|(place, column)| Some((place, address(column)?)))
}

/// Returns the chunk with one column in borrowed memory.
fn over(chunk: Chunk, guard: &Arc<Guard>) -> Option<Chunk> {
    let (place, _) = block_of(&chunk)?;
    let (field, data) = (chunk.schema().fields()[place].clone(), chunk.columns()[place].to_data());
    let bytes = Bytes::from_owner(Column(data.buffers()[0].clone(), guard.clone()));
    let data = data.into_builder().buffers(vec![bytes.into()]).build().ok()?;
    let losses = chunk.losses().to_vec();
    chunk.with_column(field, make_array(data)).ok().map(|chunk| chunk.with_losses(losses))
}

impl World<'_> {
    /// Returns a chunk in its own memory, if memory is lent.
    pub(crate) fn make(&mut self, chunk: Chunk) -> Chunk {
        if !self.scenario.lends() || chunk.num_rows() == 0 {
            return chunk;
        }
        let rows: Vec<u32> = (0..chunk.num_rows() as u32).collect();
        let losses = chunk.losses().to_vec();
        let made = chunk.take(&rows).map(|made| made.with_losses(losses)).unwrap_or(chunk);
        self.lending.kept.push(made.clone());
        made
    }

    /// Opens a consumer's account with a worker for a new stream; returns it if the worker may lend it memory.
    pub(crate) fn borrow_from(&mut self, i: usize, worker: usize) -> Option<Borrowing> {
        let (life, node) = (self.life(Node::Worker(worker)), Node::Worker(worker));
        if !self.scenario.consumers[i].lent || !self.is_alive(node, life) {
            return None;
        }
        let known = self.lending.borrowers.entry(i).or_default();
        if !known.contains_key(&(worker, life)) {
            // A stopped worker does not answer in time.
            if self.paused(node) > self.now {
                return None;
            }
            let number = self.lender(worker)?.enter()?;
            self.lending.sockets.insert((worker, life, number), Socket::default());
            let known = self.lending.borrowers.entry(i).or_default();
            known.insert((worker, life), (number, Borrower::new(number)));
        }
        let (number, borrower) = self.lending.borrowers.get(&i)?.get(&(worker, life))?;
        let borrowing = borrower.stream();
        let socket = self.lending.sockets.get_mut(&(worker, life, *number))?;
        socket.open.insert(borrowing.reader().stream);
        Some(borrowing)
    }

    /// Lends the memory of a chunk that a worker sends to a consumer on its machine, if it may.
    pub(crate) fn lend(&mut self, worker: usize, of: ConsumerStream, chunk: &Chunk, shared: bool) -> Option<Lent> {
        let (_, block) = block_of(chunk)?;
        self.lending.lent += 1;
        let (number, to) = (self.lending.lent, (worker, self.life(Node::Worker(worker)), of.reader));
        let loan = self.lender(worker)?.lend(of, number, CHUNK_BYTES)?;
        let state = self.lending.blocks.entry(block).or_default();
        let others = state.loans;
        (state.loans, state.written) = (others + 1, state.written || !shared);
        if !shared && others > 0 {
            self.fail("L-1", format!("worker {worker} lends to be written what {others} readers have"));
        }
        let loan_of = Loan { to, stream: of.stream, loan, block, guard: Weak::new() };
        self.lending.loans.insert(number, loan_of);
        self.felt(if shared { "chunks lent to several" } else { "chunks lent" });
        self.check_loans(to);
        Some(Lent { loan, shared })
    }

    /// Checks that no consumer may have written to a chunk that a worker sends.
    pub(crate) fn check_unwritten(&mut self, worker: usize, chunk: &Chunk) {
        let block = block_of(chunk).filter(|_| self.scenario.lends());
        let written = block.is_some_and(|(_, block)| self.lending.blocks.get(&block).is_some_and(|b| b.written));
        if written {
            self.fail("L-1", format!("worker {worker} sends what another reader may have written to"));
        }
    }

    /// Accepts a lent chunk at a consumer; returns it over memory that returns with its last user.
    pub(crate) fn borrowed(&mut self, i: usize, borrowing: &mut Borrowing, lent: Lent, chunk: Chunk) -> Chunk {
        let guard = Arc::new(Guard { _borrowed: borrowing.take(lent.loan) });
        let number = borrowing.reader().reader;
        let loans = self.lending.loans.values_mut();
        let mut theirs = loans.filter(|loan| loan.to.2 == number && loan.loan == lent.loan);
        match theirs.next() {
            Some(loan) => loan.guard = Arc::downgrade(&guard),
            // The memory of a process that is gone belongs to the consumer alone.
            None if !self.lending.sockets.keys().any(|to| to.2 == number) => {}
            None => self.fail("L-2", format!("consumer {i} takes {lent:?}, which came back before")),
        }
        // Shared memory is copied.
        if lent.shared { chunk } else { over(chunk.clone(), &guard).unwrap_or(chunk) }
    }

    /// Ends a consumer's stream.
    pub(crate) fn stream_over(&mut self, borrowing: Option<Borrowing>) {
        let Some(borrowing) = borrowing else { return };
        let of = borrowing.reader();
        let sockets = self.lending.sockets.iter_mut().filter(|((.., number), _)| *number == of.reader);
        sockets.for_each(|(_, socket)| _ = socket.open.remove(&of.stream));
        drop(borrowing);
    }

    /// Returns the loans that a consumer no longer uses.
    pub(crate) fn gives_back(&mut self, i: usize) {
        let Some(borrowers) = self.lending.borrowers.get_mut(&i) else { return };
        let mut said = Vec::new();
        for ((worker, life), (number, borrower)) in borrowers {
            said.extend(borrower.take_returns().into_iter().map(|word| ((*worker, *life, *number), Some(word))));
        }
        said.into_iter().for_each(|(to, word)| self.say_back(to, word));
    }

    fn say_back(&mut self, to: LentTo, word: Option<Return>) {
        if self.planted == Some(Planted::LoansKept) && matches!(word, Some(Return::Loan(loan)) if loan % 8 == 3) {
            return;
        }
        let at = self.now + self.dice.within(WORD);
        let Some(socket) = self.lending.sockets.get_mut(&to) else { return };
        socket.words.push_back(word);
        socket.last = socket.last.max(at);
        let at = socket.last;
        self.at(at, Event::Returned(to));
    }

    /// Delivers the next message of a socket to its worker.
    pub(crate) fn returned(&mut self, to: LentTo) {
        let (worker, life, number) = to;
        let paused = self.paused(Node::Worker(worker));
        if !self.is_alive(Node::Worker(worker), life) {
            return;
        }
        if paused > self.now {
            return self.at(paused, Event::Returned(to));
        }
        let Some(word) = self.lending.sockets.get_mut(&to).and_then(|socket| socket.words.pop_front()) else { return };
        let is_gone = word.is_none();
        let Some(lender) = self.lender(worker) else { return };
        let back = match word {
            None => lender.leave_of(number),
            Some(word) => lender.returned(number, word),
        };
        for number in back {
            let Some(loan) = self.lending.loans.remove(&number) else {
                self.fail("L-2", format!("worker {worker} takes a loan back twice"));
                continue;
            };
            if let Some(block) = self.lending.blocks.get_mut(&loan.block) {
                block.loans -= 1;
            }
            if !is_gone && loan.guard.strong_count() > 0 {
                self.fail("L-2", format!("worker {worker} uses loan {} again, which its reader needs", loan.loan));
            }
        }
        if is_gone {
            self.lending.sockets.remove(&to);
        }
        self.check_loans(to);
    }

    /// Checks L-2: a block on loan to a consumer is there, on its way there, or on its way back.
    fn check_loans(&mut self, to: LentTo) {
        let Some(socket) = self.lending.sockets.get(&to) else { return };
        let is_said = |loan: &Loan| {
            socket.words.iter().any(|word| match word {
                None => true,
                Some(Return::Loan(said)) => *said == loan.loan,
                Some(Return::Stream { stream, last }) => *stream == loan.stream && loan.loan > *last,
            })
        };
        let loans = self.lending.loans.values().filter(|loan| loan.to == to);
        let is_kept =
            |loan: &&Loan| loan.guard.strong_count() == 0 && !socket.open.contains(&loan.stream) && !is_said(loan);
        let kept: Vec<_> = loans.filter(is_kept).map(|loan| (loan.loan, loan.stream)).collect();
        if !kept.is_empty() {
            self.fail("L-2", format!("no reader will give back {kept:?} (loans and their streams) of {to:?}"));
        }
    }

    /// Ends a worker's process; its memory lives until its last user ends.
    pub(crate) fn lender_ended(&mut self, worker: usize, life: u32) {
        self.lending.loans.retain(|_, loan| (loan.to.0, loan.to.1) != (worker, life));
        self.lending.sockets.retain(|to, _| (to.0, to.1) != (worker, life));
    }

    /// Ends a consumer's process: the kernel closes its sockets.
    pub(crate) fn borrower_ended(&mut self, i: usize) {
        for ((worker, life), (number, _)) in self.lending.borrowers.remove(&i).unwrap_or_default() {
            self.say_back((worker, life, number), None);
        }
    }

    /// Checks that nothing is on loan when no consumer reads.
    pub(crate) fn check_loans_base_line(&mut self) {
        for i in 0..self.workers.len() {
            let on_loan = self.lender(i).map_or((0, 0), |lender| lender.on_loan());
            if on_loan != (0, 0) {
                self.fail("I6", format!("worker {i} has {on_loan:?} (loans, streams) without a reader"));
            }
        }
    }
}

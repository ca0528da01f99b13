//! Text to token ids: the ops `tokenize` and `chat` over a chunk.
//!
//! One tokenizer is shared by all threads, and all rows of a chunk go into one buffer.

mod bytes;
mod chat;
mod engine;
mod framing;
mod lengths;
mod words;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, LargeStringArray};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, Int32Lists, Schema};
use forebay_io::Blobs;
use forebay_plan::{BlobId, Node, Op, Step, Tokenize};

pub(crate) use chat::ChatOp;
use engine::{Engine, Scratch};
use framing::Framing;

/// The op at its place, with its tokenizer.
pub(crate) struct TokenizeOp {
    step: Step,
    op: Tokenize,
    engine: Arc<Engine>,
    framing: Framing,
    /// Taken for a chunk, and returned: as many as threads ever ran in parallel.
    scratches: Mutex<Vec<Scratch>>,
}

/// Checks the parts of an op that depend on its blob and not on a schema, when the user writes the op.
///
/// # Errors
/// Invalid when a tokenizer or a chat template cannot be read, or has no room for a text within `max_length`; names op
/// and line.
pub fn check(node: &Node, blobs: &dyn Blobs) -> Result<()> {
    match &node.op {
        Op::Tokenize(op) => open(op, blobs).map(drop).map_err(|e| node.blame(e)),
        Op::Chat(op) => chat::check(op, blobs).map_err(|e| node.blame(e)),
        _ => Ok(()),
    }
}

fn open(op: &Tokenize, blobs: &dyn Blobs) -> Result<(Arc<Engine>, Framing)> {
    let engine = engine(&op.tokenizer, || blobs.get(&op.tokenizer))?;
    let framing = engine.framing(op.add_special_tokens, op.max_length)?;
    Ok((engine, framing))
}

/// The most recently read tokenizers, by content: a pipeline reads its own to check it, and again wherever it runs, and
/// a vocabulary of 128,000 tokens takes a second.
static READ: Mutex<VecDeque<(BlobId, Arc<Engine>)>> = Mutex::new(VecDeque::new());
/// The number of kept tokenizers.
const READ_MAX: usize = 4;

/// Returns the tokenizer of a blob; calls `json` for its text if it is not kept.
fn engine<B: AsRef<[u8]>>(id: &BlobId, json: impl FnOnce() -> Result<B>) -> Result<Arc<Engine>> {
    let read = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, engine)) = read().iter().find(|(known, _)| known == id) {
        return Ok(engine.clone());
    }
    // Not under the lock: two threads may both read it, with the same result.
    let engine = Arc::new(Engine::read(json()?.as_ref())?);
    let mut read = read();
    read.truncate(READ_MAX - 1);
    read.push_front((id.clone(), engine.clone()));
    Ok(engine)
}

impl TokenizeOp {
    pub(crate) fn new(step: &Step, blobs: &dyn Blobs) -> Result<Self> {
        let Op::Tokenize(op) = &step.node.op else { return Err(Error::internal("no tokenize")) };
        let (engine, framing) = open(op, blobs).map_err(|e| step.node.blame(e))?;
        Ok(Self { step: step.clone(), op: op.clone(), engine, framing, scratches: Mutex::default() })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    pub(crate) fn run(&self, chunk: &Chunk) -> Result<Chunk> {
        let scratches = || self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = scratches().pop();
        let mut scratch = kept.unwrap_or_default();
        let column = self.encode(chunk, &mut scratch).map_err(|e| self.step.node.blame(e))?;
        scratches().push(scratch);
        chunk.with_column(self.step.schema.field(&self.op.output)?.clone(), column)
    }

    fn encode(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<ArrayRef> {
        let texts = chunk.column(&self.op.column)?;
        let texts = texts.as_any().downcast_ref::<LargeStringArray>();
        let texts = texts.ok_or_else(|| Error::internal("a text is a string"))?;
        let bounds = texts.value_offsets();
        // A token usually has at least four bytes of text.
        let mut ids = Vec::with_capacity((bounds[texts.len()] - bounds[0]) as usize / 4 + texts.len());
        let mut ends = Vec::with_capacity(texts.len());
        for row in 0..texts.len() {
            let end = self.row(texts, row, scratch, &mut ids);
            ends.push(end.map_err(|e| e.with("sample", chunk.ids()[row].sample))?);
        }
        Int32Lists::column(ids, &ends)
    }

    /// Appends the ids of one row and returns where they end.
    fn row(&self, texts: &LargeStringArray, row: usize, scratch: &mut Scratch, ids: &mut Vec<i32>) -> Result<i32> {
        if texts.is_null(row) {
            let column = &self.op.column;
            return Err(Error::data(format!("tokenize: the text of column {column:?} is missing"))
                .hint(format!("leave such rows out first: .filter(~fb.col({column:?}).is_null())")));
        }
        self.engine
            .encode(texts.value(row), &self.framing, scratch, ids)
            .map_err(|e| Error::data(format!("the text cannot be tokenized: {e}")))?;
        i32::try_from(ids.len()).map_err(|_| {
            Error::new(ErrorKind::Exhausted, "more than 2^31 tokens in one run of rows")
                .hint("give shorter documents: split them before they are tokenized")
        })
    }
}

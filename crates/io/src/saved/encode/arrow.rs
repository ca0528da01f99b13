//! Arrow IPC files: columns as they are.

use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema};

use super::super::sink::{Sink, of_sink};
use super::Encoder;
use crate::fail;

/// An Arrow file: each run of rows is a record batch.
pub(super) struct Arrow {
    name: String,
    writer: FileWriter<Sink>,
}

impl Arrow {
    pub(super) fn new(schema: &Schema, sink: Sink) -> Result<Self> {
        let name = sink.name();
        let writer =
            FileWriter::try_new(sink, &Chunk::wire_schema(schema, false, false)).map_err(|e| failed(&name, e))?;
        Ok(Self { name, writer })
    }
}

impl Encoder for Arrow {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        self.writer.write(&rows.to_record_batch(false)?).map_err(|e| failed(&self.name, e))
    }

    fn finish(mut self: Box<Self>) -> Result<Sink> {
        self.writer.finish().map_err(|e| failed(&self.name, e))?;
        self.writer.into_inner().map_err(|e| failed(&self.name, e))
    }
}

fn failed(name: &str, e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => of_sink(name, e),
        e => fail::arrow(e).with("file", name),
    }
}

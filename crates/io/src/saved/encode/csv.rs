//! CSV files (RFC 4180) with the names of the columns in the first line. Lines end with a line feed.
//!
//! A missing value is an empty field, and an empty text is `""`. A text that means a missing value to readers is in
//! quotes, too.

use std::io::Write;

use forebay_core::Result;
use forebay_data::{Chunk, DType, Kind, Schema};

use super::super::sink::{Sink, of_sink};
use super::cells::{Cells, text};
use super::{Encoder, Format, no_columns, refused};

/// The texts that `from_csv`, and other readers, take for a missing value.
const MISSING: [&str; 7] = ["", "NA", "N/A", "n/a", "#N/A", "null", "NULL"];

/// A CSV file.
pub(super) struct Csv {
    name: String,
    sink: Sink,
    /// The text of a missing value. In a line of one field it is no empty text, because readers skip empty lines.
    missing: &'static str,
    line: String,
}

/// Refuses columns that are neither a text nor a number.
pub(super) fn check(schema: &Schema) -> Result<()> {
    no_columns(schema, Format::Csv)?;
    let flat = |kind: &Kind| matches!(kind, Kind::Scalar { .. } | Kind::Utf8);
    schema.fields().iter().find(|field| !flat(&field.kind)).map_or(Ok(()), |field| {
        let hint = "drop the column, or save as jsonl or parquet; bytes that are UTF-8 can be cast to \"string\"";
        Err(refused(field, Format::Csv, "a field is a text or a number", hint))
    })
}

impl Csv {
    pub(super) fn new(schema: &Schema, sink: Sink) -> Result<Self> {
        let missing = if schema.fields().len() == 1 { "NA" } else { "" };
        let mut csv = Self { name: sink.name(), sink, missing, line: String::new() };
        for (i, field) in schema.fields().iter().enumerate() {
            csv.begin_field(i);
            csv.text(&field.name);
        }
        csv.end_line()?;
        Ok(csv)
    }

    fn begin_field(&mut self, i: usize) {
        if i > 0 {
            self.line.push(',');
        }
    }

    /// Appends a text, in quotes if it needs them.
    fn text(&mut self, text: &str) {
        if !MISSING.contains(&text) && !text.contains([',', '"', '\r', '\n', '\u{feff}']) {
            return self.line.push_str(text);
        }
        self.line.push('"');
        self.line.push_str(&text.replace('"', "\"\""));
        self.line.push('"');
    }

    fn end_line(&mut self) -> Result<()> {
        self.line.push('\n');
        self.sink.write_all(self.line.as_bytes()).map_err(|e| of_sink(&self.name, e))?;
        self.line.clear();
        Ok(())
    }
}

impl Encoder for Csv {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let schema = rows.schema().clone();
        let cells = schema.fields().iter().zip(rows.columns()).map(|(field, column)| Cells::of(field, column));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        for row in 0..rows.num_rows() {
            for (i, (field, cells)) in schema.fields().iter().zip(&cells).enumerate() {
                self.begin_field(i);
                match &field.kind {
                    _ if cells.is_missing(row) => self.line.push_str(self.missing),
                    Kind::Scalar { dtype: DType::Bool } => {
                        self.line.push_str(if cells.bytes(row) == [0] { "false" } else { "true" });
                    }
                    Kind::Scalar { dtype } => self.line.push_str(&text(*dtype, cells.bytes(row))),
                    _ => self.text(&String::from_utf8_lossy(cells.bytes(row))),
                }
            }
            self.end_line()?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Sink> {
        Ok(self.sink)
    }
}

//! Arrow IPC files (Feather, version 2), in which a footer says where their record batches are, and streams, in which messages
//! follow each other; each record batch is decoded by itself. And, of these and of Parquet files: which columns there are, and
//! columns as this project stores them.
//!
//! Invariants: no length that a file states is believed before it is compared with the file or with `limits`; whatever
//! the bytes are, reading them gives rows or an error that names file and record batch.

mod convert;
mod file;
mod json_text;
mod messages;
mod schema;
mod stream;

pub(crate) use convert::{Column, Lack, columns};
pub(crate) use file::{File, columns_of, table};
pub(crate) use schema::{
    Found, check, check_time, check_times, fields, found, may_be_time, not_there, other_clock, stored_type, wider,
};

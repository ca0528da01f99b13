//! Arrow IPC files (Feather, version 2), whose footer has the places of their record batches, and streams of messages;
//! each record batch is decoded by itself. Also the schema and the conversion of columns, for these and for Parquet
//! files.
//!
//! Invariants: a length that a file states is compared with the file or with `limits` before it is used; for any bytes,
//! reading returns rows or an error that names file and record batch.

mod convert;
mod file;
mod json_text;
mod messages;
mod schema;
mod stream;

pub(crate) use convert::{Column, Lack, columns};
pub(crate) use file::{File, columns_of, table};
pub(crate) use schema::{
    Found, check, check_time, check_times, fields, found, may_be_time, not_there, other_clock, stored_type, unit,
    units, wider,
};

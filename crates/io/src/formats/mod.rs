//! File formats, each in one file: where rows begin and end, and how a row's bytes are decoded.

pub(crate) mod arrow;
pub(crate) mod compressed;
pub(crate) mod csv;
pub(crate) mod example;
pub(crate) mod grouped;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod litdata;
pub(crate) mod mds;
pub(crate) mod megatron;
pub(crate) mod parquet;
pub(crate) mod tar;
pub(crate) mod tfrecord;
pub(crate) mod tokens;

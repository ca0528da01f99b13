//! File formats, each in one file: where rows begin and end, and what a row's bytes mean.

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

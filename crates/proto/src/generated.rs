//! The messages and services of `proto/forebay.proto`, as `codegen/` writes them.

include!("generated/forebay.v1.rs");

//! The messages of the specification, generated from `proto/csi.proto` by `crates/proto/codegen`.

include!("generated/csi.v1.rs");

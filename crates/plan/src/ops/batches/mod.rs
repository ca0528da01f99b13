//! Batches, and ops inside them.

mod batch;
mod batch_by_key;
mod bucket_by_length;
mod mix;
mod mosaic;
mod pad;
mod padded_batch;
mod prefetch;

pub use batch::Batch;
pub use batch_by_key::BatchByKey;
pub use bucket_by_length::{Bucket, PadTo};
pub use mix::{Mix, Mixing};
pub use mosaic::Mosaic;
pub use padded_batch::{PaddedBatch, Padding};
pub use prefetch::Prefetch;

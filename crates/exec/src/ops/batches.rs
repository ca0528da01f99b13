//! Runs a per-batch op on a chunk of several batches.

use forebay_core::Result;
use forebay_data::Chunk;

/// Runs `f` on each batch of `size` rows; without a size the whole chunk is one batch.
pub(crate) fn each_batch(chunk: &Chunk, size: Option<usize>, f: impl Fn(&Chunk) -> Result<Chunk>) -> Result<Chunk> {
    match size {
        Some(size) if chunk.num_rows() > size => {
            let starts = (0..chunk.num_rows()).step_by(size);
            let parts: Result<Vec<_>> = starts.map(|s| f(&chunk.slice(s, size.min(chunk.num_rows() - s)))).collect();
            let parts = parts?;
            let warnings = parts.iter().flat_map(|p| p.losses().iter().cloned()).collect();
            Ok(Chunk::concat(&parts)?.with_losses(warnings))
        }
        _ => f(chunk),
    }
}

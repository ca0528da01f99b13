//! Serves chunks to consumers, on one port.
//!
//! - `accept`: accepts connections, and separates Forebay's own protocol from HTTP/2
//! - `transfer`: Forebay's own protocol: chunks for consumers, cached blocks for other workers
//! - `flight`: Arrow Flight, for any Arrow client
//! - `chunk_stream`: the chunks of one split in order; waits for chunks that are being computed
//! - `encode`: a chunk as Flight messages
//! - `columns`: the columns that are large enough not to be copied
//! - `shm`: lends the memory of chunks to consumers on this machine
//! - `loans`: counts the memory on loan, without I/O

pub(crate) mod accept;
pub(crate) mod chunk_stream;
pub(crate) mod columns;
pub(crate) mod encode;
pub(crate) mod flight;
pub(crate) mod loans;
pub(crate) mod shm;
pub(crate) mod transfer;

//! The driver's names, and the bounds that several modules share.

/// The driver's name.
pub const DRIVER: &str = "csi.forebay.dev";
/// The label of a node, whose value is its name.
pub const TOPOLOGY: &str = "csi.forebay.dev/node";
/// The most volumes of a node, which the scheduler heeds.
pub const VOLUMES_MAX: usize = 256;
/// Calls that are answered at once; others wait.
pub const CALLS_MAX: usize = 64;

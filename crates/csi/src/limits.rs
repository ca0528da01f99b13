//! The driver's names, and the bounds that several modules share.

/// The driver's name.
pub const DRIVER: &str = "csi.forebay.dev";
/// The topology key of a node; its value is the node's name.
pub const TOPOLOGY: &str = "csi.forebay.dev/node";
/// Most volumes of a node, which the scheduler respects.
pub const VOLUMES_MAX: usize = 256;
/// Calls that run at the same time; others wait.
pub const CALLS_MAX: usize = 64;

//! The CSI driver `csi.forebay.dev`: data sets as read-only volumes of the pods of a node, `forebay csi`.
//!
//! The driver consists of three kinds of processes. The driver process answers the calls of the kubelet, and mounts. A
//! *keeper* for each volume serves the volume's mount (`forebay mount`). The *holder* keeps the device of each mount
//! open, so that a mount outlives its keeper. When a keeper dies, the driver starts another, which takes the mount
//! over.
//!
//! ```text
//! kubelet ── calls ──▶ driver ── starts, watches ──▶ keeper, one for each volume ◀── requests ── the mount
//!                        │                              ▲                                           ▲
//!                        └── devices ──▶ holder         └── the device                bind mounts, one for each pod
//! ```
//!
//! | module | |
//! |---|---|
//! | `content` | parses a volume's attributes |
//! | `places` | the folders that this node allows, and the keeper's command line |
//! | `record` | a volume's file in the state folder |
//! | `passing`, `holder`, `holding` | file descriptors through a socket; the holder; its client |
//! | `keeper` | starts and ends the process that serves a volume's mount |
//! | `target` | bind mounts at the target paths of pods |
//! | `volume` | one volume, from its first pod to its last |
//! | `driver` | all volumes of a node |
//! | `service`, `serve` | the calls of the CSI specification, and the socket |
//! | `limits`, `v1` | names and bounds; the messages of the CSI specification |
//!
//! Invariants: the driver records a mount before it creates the mount, so after a crash the next driver finds all
//! mounts and removes the unused ones. It unmounts only mounts of Forebay. One call at a time changes a volume; a
//! concurrent call gets ABORTED. Bounds: [`VOLUMES_MAX`], [`CALLS_MAX`]; each wait for a process, a store or a folder
//! has a constant.

mod content;
mod driver;
mod holder;
mod holding;
mod keeper;
mod limits;
mod passing;
mod places;
mod record;
mod serve;
mod service;
mod target;
mod volume;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, clippy::unwrap_used, rustdoc::all)]
pub mod v1;

pub use holder::Holder;
pub use limits::{CALLS_MAX, DRIVER, TOPOLOGY, VOLUMES_MAX};
pub use places::Places;
pub use serve::{CsiOptions, Serving};

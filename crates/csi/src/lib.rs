//! The CSI driver `csi.forebay.dev`: data sets as read-only volumes of the pods of a node, `forebay csi`.
//!
//! Three kinds of process take part. The driver answers the calls of kubelet and mounts. A *keeper* for each volume serves
//! the volume's mount (`forebay mount`). The *holder* keeps the device of each mount open, so that a mount outlives its
//! keeper: the driver starts the next one, which takes over.
//!
//! ```text
//! kubelet ── calls ──▶ driver ── starts, watches ──▶ keeper, one for each volume ◀── requests ── the mount
//!                        │                              ▲                                           ▲
//!                        └── devices ──▶ holder         └── the device                bind mounts, one for each pod
//! ```
//!
//! | module | |
//! |---|---|
//! | `content` | what a volume's attributes say |
//! | `places` | what this node allows of it, and the keeper's command line |
//! | `record` | a volume's file in the state folder |
//! | `passing`, `holder`, `holding` | devices through a socket; the process that keeps them; its callers |
//! | `keeper` | the process that serves a volume's mount |
//! | `target` | the places where pods find a volume |
//! | `volume` | one volume, from its first pod to its last |
//! | `driver` | all volumes of a node |
//! | `service`, `serve` | the calls of the specification, and the socket |
//! | `limits`, `v1` | names and bounds; the messages of the specification |
//!
//! Invariants: the driver records a mount before it makes it, so the next driver finds the mounts of a killed one and
//! removes the unused ones. It unmounts only mounts of Forebay. One call at a time changes a volume, and others get
//! ABORTED.
//! Bounds: [`VOLUMES_MAX`], [`CALLS_MAX`]; each wait for a process, a store or a folder has a constant.

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

//! Shows people the state of a service: the dispatcher's figures as JSON, an HTTP API, web pages, and one sentence that
//! names the bottleneck of a job.
//!
//! ```text
//! model/    the JSON of jobs, workers and scale, made of the dispatcher's messages; pure
//! why/      one sentence for each job, from its figures; pure
//! feed/     asks the dispatcher, at most once a second for each caller; the history and the events that it saw
//! http/     the server: checks of each request, routes, live streams, embedded pages
//! assets/   the pages (ES modules, no build step), and the OpenAPI description of the API
//! ```
//!
//! Invariants: each answer is made from the dispatcher's answer to a call with the caller's own token, so a caller sees
//! no more here than over gRPC; every request only reads; memory, connections, streams and history have bounds; the
//! data plane never waits for the dashboard. Not here: `forebay top` and the commands (`cli`), and the start of the
//! server in a dispatcher's process (`server`).

mod feed;
mod http;
pub mod model;
pub mod why;

pub use feed::calls::{Caller, Calls};
pub use feed::remote::RemoteCalls;
pub use http::server::{Dashboard, HttpOptions};

/// The port of the dashboard, unless another is given. Metrics are often on 7071 and 7072.
pub const HTTP_PORT: u16 = 7073;

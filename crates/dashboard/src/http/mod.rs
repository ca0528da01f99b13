//! The HTTP server: only reads, and only for whom the dispatcher answers.
//!
//! - `server`: listens, and bounds connections; `guard`: refuses requests before they are answered.
//! - `route`: the paths; `live`: streams of server-sent events; `answer`: bodies and headers; `assets`: embedded files.

mod answer;
mod assets;
mod guard;
mod live;
mod query;
mod route;
pub(crate) mod server;
#[cfg(test)]
mod tests;

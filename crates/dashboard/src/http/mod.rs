//! The HTTP server. It only reads, and only with the rights that the dispatcher gives to the caller's token.
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

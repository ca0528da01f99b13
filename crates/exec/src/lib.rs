//! Runs splits on this machine: morsels in, chunks out, batches in order.
//!
//! ```text
//! Stages + EpochPlan + SourceIndex -> Executable   one pipeline, shared by threads
//! Executable.morsel()                              the pure function: rows of a morsel
//! Merge                                            ordered chunks -> exact batches, with their positions
//! Crew                                             threads that share the rows of the oldest morsel
//! LocalStream                                      threads + Merge: the iterator of this process
//! ```
//!
//! A worker runs the same `Executable`, and a client of a service the same `Merge`.

mod again;
mod alike;
mod auto;
mod bring;
mod bucket;
mod budget;
mod crew;
mod delivery;
mod executable;
mod functions;
pub mod image;
mod images;
mod isolate;
mod learned;
mod left_out;
mod local;
mod measure;
mod meeting;
mod merge;
mod meter;
mod mix;
mod nearby;
mod pack;
mod passed;
mod passing;
mod prefix;
mod processor;
mod replay;
mod rows;
mod saved;
pub mod table;
mod tokenize;
mod twice;
mod way;
mod work;

pub use again::{DEATHS_MAX, Failure, blamed, survive};
pub use bring::{Brought, bring};
pub use budget::{Budget, Lost};
pub use crew::Crew;
pub use delivery::{Delivery, Position, Span};
pub use executable::{Asked, Environment, Executable};
pub use functions::{Functions, NoFunctions, Pickle, Randomness};
pub use isolate::Known;
pub use learned::Learned;
pub use left_out::LeftOut;
pub use local::{LocalOptions, LocalStream};
pub use measure::{Now, compare, measure};
pub use merge::Merge;
pub use meter::OpMeter;
pub use nearby::{Nearby, reads_remote};
pub use pack::Unpacked;
pub use prefix::Keeping;
pub use processor::{Helped, Processor, helped_by};
pub use saved::Saved;
pub use tokenize::check;
pub use work::Scratch;

pub use forebay_policy::caching::{Rent, StorePrices};

/// Makes an error of a panic: a bug of ours, told without a backtrace.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> forebay_core::Error {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned());
    forebay_core::Error::internal(format!("a part of forebay failed: {text}")).hint("please report this as a bug")
}

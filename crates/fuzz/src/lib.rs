//! Feeds arbitrary bytes to all code that reads bytes from outside: files, messages, saved states.
//!
//! A target accepts any bytes and must neither panic, nor hang, nor use memory that the bytes do not justify; if two
//! ways of reading both accept an input, the results must be equal. The same targets run under libFuzzer with
//! AddressSanitizer (`fuzz/`) and, over the inputs kept in `fuzz/corpus` and mutations of them, as an ordinary test
//! (`tests/replay.rs`).
//!
//! Each crate's own tests check that the results are right, against the libraries that wrote the files; these targets
//! do not.

mod files;
mod images;
mod plans;
mod shards;
mod sounds;
mod wire;

/// The name of a target, in `fuzz/corpus` and `fuzz/fuzz_targets`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("arrow", files::arrow),
    ("audio", sounds::audio),
    ("block", files::block),
    ("csv", files::csv),
    ("example", files::example),
    ("graph", plans::graph),
    ("image", images::image),
    ("index", files::index),
    ("job", plans::job),
    ("jsonl", files::jsonl),
    ("ledger", plans::ledger),
    ("litdata", shards::litdata),
    ("mds", shards::mds),
    ("megatron", shards::megatron),
    ("messages", wire::messages),
    ("parquet", files::parquet),
    ("small", wire::small),
    ("state", plans::state),
    ("stream", wire::stream),
    ("tar", files::tar),
    ("text", files::text),
    ("tfrecord", files::tfrecord),
    ("tokens", shards::tokens),
    ("windows", files::windows),
];

/// Runs the target of this name.
///
/// # Panics
/// When the target does not exist, and when it finds a fault.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(data);
}

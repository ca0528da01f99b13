//! Arbitrary bytes for everything that reads bytes from outside: files, messages, what was saved.
//!
//! A target takes any bytes and must neither panic, nor hang, nor take memory that the bytes do not justify; what two
//! ways of reading both accept must be the same. The same targets run under libFuzzer with AddressSanitizer (`fuzz/`)
//! and, over the inputs kept in `fuzz/corpus` and mutations of them, as an ordinary test (`tests/replay.rs`).
//!
//! Not here: that what is read is right, which each crate's own tests hold against the libraries that wrote it.

mod files;
mod images;
mod plans;
mod shards;
mod wire;

/// What a target is called, in `fuzz/corpus` and `fuzz/fuzz_targets`, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("arrow", files::arrow),
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

/// Runs the target of a name.
///
/// # Panics
/// When there is no such target, and when a target finds something.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(data);
}

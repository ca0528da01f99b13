//! Runs every kept input, and deterministic mutations of it, with an ordinary compiler.
//!
//! `FOREBAY_FUZZ_MUTATIONS` sets more mutations than the few that `make test` has time for. Inputs that libFuzzer finds
//! beyond these are added to `fuzz/corpus`.

#[path = "../../cache/tests/support/counting_allocator.rs"]
mod counting_allocator;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use counting_allocator::most_held;
use forebay_core::Seed;
use forebay_core::rng::{SampleRng, op_key};
use forebay_fuzz::TARGETS;

/// The most memory of a target for one input: the limits on pixels and rows in the targets are far below.
const BYTES_MAX: usize = 256 << 20;
/// How long an input may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// Changes a few bytes: flips, overwrites with extreme numbers, cuts, repeats, moves.
fn mutate(rng: &mut SampleRng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.next_u64() % 4 {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
        let at = below(bytes.len());
        match below(6) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'9', b'-'][below(8)],
            2 => bytes.truncate(at),
            3 => {
                let end = bytes.len().min(at + [1, 2, 4, 8][below(4)]);
                bytes[at..end].fill([0, 0xff, 0x7f][below(3)]);
            }
            4 => {
                let piece = bytes[at..bytes.len().min(at + 1 + below(64))].to_vec();
                let to = below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => drop(bytes.drain(at..(at + 1 + below(16)).min(bytes.len()))),
        }
    }
}

fn replay(name: &str, mutations: u64, heard: &mpsc::Sender<()>) -> usize {
    let mut runs = 0;
    for (path, seed) in corpus(name) {
        let mut rng = SampleRng::new(op_key(Seed(7), forebay_core::Epoch(0), 0), forebay_core::SampleId::new(0, 0));
        for n in 0..=mutations {
            let mut input = seed.clone();
            if n > 0 {
                mutate(&mut rng, &mut input);
            }
            let (outcome, taken) = most_held(|| std::panic::catch_unwind(|| forebay_fuzz::run(name, &input)));
            if outcome.is_err() || taken > BYTES_MAX {
                let found = std::env::temp_dir().join(format!("{name}-found"));
                std::fs::write(&found, &input).expect("written");
                panic!("{name}: mutation {n} of {} took {taken} bytes; see {}", path.display(), found.display());
            }
            runs += 1;
            heard.send(()).expect("the watch receives");
        }
    }
    assert!(runs > 0, "{name} has no corpus");
    runs
}

#[test]
fn nothing_from_outside_panics_hangs_or_takes_memory() {
    let mutations = std::env::var("FOREBAY_FUZZ_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let only = std::env::var("FOREBAY_FUZZ_TARGET").ok();
    for (name, _) in TARGETS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let (heard, alive) = mpsc::channel();
        let work = std::thread::spawn(move || replay(name, mutations, &heard));
        loop {
            match alive.recv_timeout(HANG) {
                Ok(()) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} hangs"),
            }
        }
        let runs = work.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        eprintln!("{name}: {runs} inputs");
    }
}

//! Any sequence of lookups, results, crashes and damage yields no wrong row, and stays within the quotas.

use std::io::Write;
use std::sync::Arc;

use crate::common::*;
use forebay_cache::{Cache, Computed, Prefix, RowKey};
use forebay_data::Memory;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Look up and compute.
    Ask {
        prefix: u8,
        rows: Vec<u64>,
    },
    /// Look up, and give up; or fulfil only rows whose number is a multiple of `of`.
    Half {
        prefix: u8,
        rows: Vec<u64>,
        of: Option<u64>,
    },
    Flush,
    /// Close, cleanly or not, and open again; with this memory.
    Reopen {
        memory: u64,
    },
    /// Flip a bit of a block.
    Flip {
        block: usize,
        at: usize,
        bit: u8,
    },
    Cut {
        block: usize,
        at: usize,
    },
    Remove {
        block: usize,
    },
}

const ROWS: u64 = 200;
const DISK: u64 = 60_000;

fn rows() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        (0..ROWS, 1..60u64).prop_map(|(first, n)| (first..(first + n).min(ROWS)).collect()),
        prop::collection::vec(0..ROWS, 0..60),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u8, rows()).prop_map(|(prefix, rows)| Step::Ask { prefix, rows }),
        1 => (0..3u8, rows(), prop::option::of(1..4u64)).prop_map(|(prefix, rows, of)| Step::Half { prefix, rows, of }),
        2 => Just(Step::Flush),
        1 => prop_oneof![Just(0), Just(20_000), Just(1 << 20)].prop_map(|memory| Step::Reopen { memory }),
        1 => (any::<usize>(), any::<usize>(), 0..8u8).prop_map(|(block, at, bit)| Step::Flip { block, at, bit }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(block, at)| Step::Cut { block, at }),
        1 => any::<usize>().prop_map(|block| Step::Remove { block }),
    ]
}

fn half(prefix: &Arc<Prefix>, rows: &[u64], of: Option<u64>) {
    let keys: Vec<RowKey> = rows.iter().map(|&row| key(row)).collect();
    let look = prefix.look(&keys, &Memory::default());
    let Some(of) = of else { return };
    let wanted = |i: &u32| rows[*i as usize].is_multiple_of(of) && !is_without(rows[*i as usize]);
    let there: Vec<u32> = look.claim.rows().iter().copied().filter(wanted).collect();
    let columns = columns(&there.iter().map(|&i| rows[i as usize]).collect::<Vec<_>>());
    assert!(look.claim.fulfil(&Computed { rows: &there, columns: &columns, filtered_out: &[], nanos: 1 }).is_empty());
}

fn check_quotas(cache: &Cache, folder: &std::path::Path) {
    let stats = cache.stats();
    assert!(stats.memory.bytes - stats.index_bytes <= stats.memory.quota, "{stats:?}");
    // A block that was found damaged does not count, and its file is deleted soon.
    let bytes = || blocks(folder).iter().map(|(_, bytes)| bytes).sum::<u64>();
    let end = std::time::Instant::now() + LIMIT;
    while bytes() > DISK {
        assert!(std::time::Instant::now() < end, "{}", bytes());
        std::thread::yield_now();
    }
}

fn run(steps: Vec<Step>) {
    let folder = folder();
    let prefixes = |cache: &Cache| [0, 1, 2].map(|n| cache.prefix(prefix_key(n), &schema(), ROWS, "test"));
    let mut cache = open(20_000, Some((folder.path(), DISK)));
    let mut held = prefixes(&cache);
    for step in steps {
        let block = |n: usize| {
            let blocks = blocks(folder.path());
            (!blocks.is_empty()).then(|| blocks[n % blocks.len()].0.clone())
        };
        match step {
            Step::Ask { prefix, rows } => _ = ask(&held[usize::from(prefix)], &rows),
            Step::Half { prefix, rows, of } => half(&held[usize::from(prefix)], &rows, of),
            Step::Flush => assert!(cache.flush(LIMIT)),
            Step::Reopen { memory } => {
                drop(cache);
                cache = open(memory, Some((folder.path(), DISK)));
                held = prefixes(&cache);
            }
            Step::Flip { block: n, at, bit } => {
                let Some(path) = block(n) else { continue };
                // The writer may have evicted it meanwhile.
                let Ok(mut bytes) = std::fs::read(&path) else { continue };
                let at = at % bytes.len().max(1);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
                let Ok(mut file) = std::fs::File::options().write(true).open(&path) else { continue };
                file.write_all(&bytes).expect("written");
            }
            Step::Cut { block: n, at } => {
                let Some(path) = block(n) else { continue };
                let Ok(file) = std::fs::File::options().write(true).open(&path) else { continue };
                file.set_len(at as u64 % file.metadata().expect("open").len().max(1)).expect("cut");
            }
            Step::Remove { block: n } => block(n).into_iter().for_each(|path| _ = std::fs::remove_file(path)),
        }
        check_quotas(&cache, folder.path());
    }
    for prefix in &held {
        ask(prefix, &(0..ROWS).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_row_is_ever_wrong(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}

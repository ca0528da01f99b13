//! Samples of ops on batches and on order.

use super::*;

pub(super) fn batches() -> Vec<Sample> {
    let batch = |size| Op::Batch(ops::Batch { size, drop_remainder: false });
    let prefetch = |count| Op::Prefetch(ops::Prefetch { count });
    let mix = |how, classes, alpha| {
        let (column, label) = (name(COLUMN), name("a"));
        Op::Mix(ops::Mix { how, column, label, classes, alpha, probability: 0.8 })
    };
    let float = || vec![cast(COLUMN, DType::Float32.into()), batch(3)];
    let (mixup, cutmix) = (Mixing::Mixup, Mixing::Cutmix);
    vec![
        sample(batch(3), vec![], vec![batch(0)]),
        sample(prefetch(3), vec![], vec![prefetch(0), prefetch(5000)]),
        sample(mix(mixup, 11, 0.4), float(), vec![mix(mixup, 0, 0.4), mix(mixup, 11, 0.0)]),
        sample(mix(cutmix, 11, 1.0), vec![batch(2)], vec![mix(mixup, 11, 0.4)]),
    ]
}

pub(super) fn orders() -> Vec<Sample> {
    let repeat = |count| Op::Repeat(ops::Repeat { count });
    let shard = |count, index| Op::Shard(ops::Shard { count, index });
    let shuffle = |window| Op::Shuffle(ops::Shuffle { window });
    let enumerate = |start| Op::Enumerate(ops::Enumerate { column: name("c"), start });
    let part = |share, rest| Op::Part(ops::Part { share, from: None, seed: 3, rest });
    vec![
        sample(Op::SHUFFLE, vec![], vec![]),
        sample(shuffle(ShuffleWindow::Rows(3)), vec![], vec![]),
        sample(repeat(Some(2)), vec![], vec![repeat(Some(0))]),
        sample(Op::Take(ops::Take { count: 3 }), vec![], vec![]),
        sample(Op::Skip(ops::Skip { count: 3 }), vec![], vec![]),
        sample(shard(3, 1), vec![], vec![shard(3, 3), shard(0, 0)]),
        sample(Op::SelectRows(ops::SelectRows { rows: vec![4, 0, 4].into() }), vec![], vec![]),
        sample(enumerate(-3), vec![], vec![]),
        sample(part(1 << 30, false), vec![], vec![part(0, false), part(1 << 32, false)]),
        sample(part(1 << 30, true), vec![], vec![]),
        sample(Op::Cache(ops::Cache { freeze: false }), vec![], vec![]),
        sample(Op::Autocache(ops::Autocache {}), vec![], vec![]),
    ]
}

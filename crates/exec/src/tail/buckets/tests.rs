use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Epoch, SampleId};
use forebay_data::{DType, Field, Int32Lists, Kind, RowId, Schema, tensor_shape_of_row};
use forebay_plan::{Node, Op, PadTo, ops};
use proptest::prelude::*;

use super::pieces::THIN;
use super::*;

const SIZES: [usize; 3] = [3, 2, 1];
const TOKENS: usize = 13;
const KEYS: usize = 3;

/// An op whose batches are compared with those of [`reference`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Sizes,
    Tokens,
    SizesAndTokens,
    Keys,
    FullKeys,
}

impl Case {
    fn is_keyed(self) -> bool {
        matches!(self, Self::Keys | Self::FullKeys)
    }

    fn op(self) -> Op {
        if self.is_keyed() {
            let drop_remainder = self == Self::FullKeys;
            let (key, padding) = (vec!["key".to_owned()], Some(Vec::new()));
            return Op::BatchByKey(ops::BatchByKey { key, size: SIZES[0], padding, drop_remainder, max_keys: KEYS });
        }
        let batch_sizes = if self == Self::Tokens { Vec::new() } else { SIZES.to_vec() };
        Op::BucketByLength(ops::Bucket {
            column: "ids".to_owned(),
            boundaries: vec![2, 5],
            batch_sizes,
            max_tokens: (self != Self::Sizes).then_some(TOKENS),
            pad_to: PadTo::Longest,
            padding: Vec::new(),
            drop_remainder: false,
        })
    }

    fn step(self) -> Step {
        let node = Arc::new(Node::new(self.op()));
        let fields =
            [("n", DType::Int32), ("key", DType::Int32)].map(|(name, dtype)| Field::new(name, Kind::scalar(dtype)));
        let fields = [Field::new("ids", Int32Lists::kind())].into_iter().chain(fields).collect();
        let schema = node.op.apply(&Schema::new(fields).expect("names differ")).expect("it has a length and a key");
        Step { node, place: 0, random: 0, schema: Arc::new(schema), per_batch: false }
    }

    /// The bucket of a row, the most rows of its batches, and the most tokens.
    fn bucket(self, length: usize) -> (usize, usize, usize) {
        let bucket = usize::from(length >= 2) + usize::from(length >= 5);
        match self {
            Self::Sizes => (bucket, SIZES[bucket], usize::MAX),
            Self::Tokens => (bucket, usize::MAX, TOKENS),
            Self::SizesAndTokens => (bucket, SIZES[bucket], TOKENS),
            Self::Keys | Self::FullKeys => (length, SIZES[0], usize::MAX),
        }
    }
}

/// Rows of these lengths, which are their keys too, numbered from `first`.
fn chunk(case: Case, lengths: &[usize], first: usize) -> Chunk {
    let ends = lengths.iter().scan(0, |end, n| {
        *end += *n as i32;
        Some(*end)
    });
    let ends: Vec<i32> = ends.collect();
    let numbers = (first..first + lengths.len()).map(|n| n as i32);
    let values = numbers.clone().zip(lengths).flat_map(|(n, len)| std::iter::repeat_n(n, *len)).collect();
    let lists = Int32Lists::column(values, &ends).expect("valid");
    let ids = numbers.clone().map(|n| RowId { sample: SampleId(n as u64), epoch: Epoch(0) }).collect();
    let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from_iter_values(numbers));
    let keys: ArrayRef = Arc::new(arrow_array::Int32Array::from_iter_values(lengths.iter().map(|n| *n as i32)));
    Chunk::new(case.step().schema, vec![lists, numbers, keys], ids).expect("a chunk")
}

/// Returns the batches of rows that come in runs of `run`, from a position on: the rows of each batch, their
/// length, and the resume point after it.
fn batches(
    case: Case,
    lengths: &[usize],
    run: usize,
    sharding: Sharding,
    rank: u32,
    from: &Position,
) -> Vec<(Vec<u64>, usize, Position)> {
    let mut bucketer = Bucketer::new(&case.step(), sharding, ConsumerIndex(rank), from).expect("made");
    let (mut out, mut next, mut skip) = (Vec::new(), from.chunk, from.rows as usize);
    let mut take = |bucketer: &mut Bucketer, next: u64, last: bool| {
        while let Some(batch) = bucketer.next(last).expect("fits") {
            let here: usize = bucketer.pieces.iter().map(|piece| piece.chunk.num_rows()).sum();
            let held: usize = bucketer.buckets.iter().map(|bucket| bucket.held.len()).sum();
            assert!(here <= held * THIN, "{here} rows are kept for {held} that are held");
            let rows: Vec<u64> = batch.ids().iter().map(|id| id.sample.0).collect();
            let ids = &batch.schema().fields()[0];
            let shape = tensor_shape_of_row(&ids.kind, &batch.columns()[0], 0).expect("a tensor");
            out.push((rows, shape[0], bucketer.start(|| Position { chunk: next, ..Position::default() })));
        }
    };
    for (i, lengths) in lengths.chunks(run).enumerate().skip(from.chunk as usize) {
        let here = chunk(case, lengths, i * run);
        let at = Position { chunk: i as u64, rows: skip as u64, ..Position::default() };
        next = i as u64 + 1;
        bucketer.hold(here.slice(skip, lengths.len() - skip), at).expect("held");
        assert!(!case.is_keyed() || bucketer.waiting.keys() <= KEYS);
        skip = 0;
        take(&mut bucketer, next, false);
    }
    take(&mut bucketer, next, true);
    out
}

/// The same, computed row by row.
fn reference(case: Case, lengths: &[usize], parts: usize) -> Vec<Vec<usize>> {
    // The rows of each batch that is not full, by bucket.
    let mut open = std::collections::BTreeMap::<usize, Vec<usize>>::new();
    let mut out = Vec::new();
    let longest = |rows: &[usize]| rows.iter().map(|row| lengths[*row].max(1)).max().unwrap_or(1);
    let short = |rows: Vec<usize>| if case == Case::FullKeys { Vec::new() } else { rows };
    for (row, length) in lengths.iter().enumerate() {
        let (bucket, size, tokens) = case.bucket(*length);
        while case.is_keyed() && !open.is_empty() {
            let (oldest, first) =
                open.iter().map(|(key, rows)| (*key, rows[0])).min_by_key(|(_, first)| *first).expect("one");
            let keys: std::collections::BTreeSet<_> = lengths[first..=row].iter().collect();
            if keys.len() <= KEYS {
                break;
            }
            out.push(short(open.remove(&oldest).expect("it is open")));
        }
        let rows = open.entry(bucket).or_default();
        rows.push(row);
        if longest(rows).saturating_mul(rows.len().div_ceil(parts)) > tokens {
            let rest = rows.split_off((rows.len() - 1) / parts * parts);
            out.push(std::mem::replace(rows, rest));
        }
        let whole = rows.len() / parts;
        let is_full = whole == size || longest(rows).saturating_mul(whole + 1) > tokens;
        if rows.len().is_multiple_of(parts) && is_full {
            out.extend(open.remove(&bucket));
        }
    }
    out.extend(open.into_values().map(short));
    let shared = |rows: Vec<usize>| rows[..rows.len() / parts * parts].to_vec();
    out.into_iter().map(shared).filter(|rows| !rows.is_empty()).collect()
}

proptest! {
    #[test]
    fn ranks_share_the_batches_of_single_rows_wherever_chunks_begin_and_from_any_position(
        case in prop::sample::select(vec![Case::Sizes, Case::Tokens, Case::SizesAndTokens, Case::Keys, Case::FullKeys]),
        lengths in prop::collection::vec(0usize..9, 0..60), run in 1usize..9, parts in 1u32..4, cut: prop::sample::Index,
    ) {
        let sharding = Sharding { coordinated: true, ..Sharding::from(parts) };
        let want = reference(case, &lengths, parts as usize);
        let of_rank = |rank| batches(case, &lengths, run, sharding, rank, &Position::default());
        let ranks: Vec<_> = (0..parts).map(of_rank).collect();
        prop_assert!(ranks.iter().all(|rank| rank.len() == want.len()));
        for (i, want) in want.iter().enumerate() {
            let rows: Vec<usize> = ranks.iter().flat_map(|rank| rank[i].0.iter().map(|row| *row as usize)).collect();
            prop_assert_eq!(&rows, want);
            let longest = want.iter().map(|row| lengths[*row]).max();
            prop_assert!(ranks.iter().all(|rank| Some(rank[i].1) == longest && rank[i].2 == ranks[0][i].2));
        }
        if !want.is_empty() {
            let cut = cut.index(want.len());
            let rest = batches(case, &lengths, run, sharding, 0, &ranks[0][cut].2);
            prop_assert_eq!(rest.len(), ranks[0].len() - cut - 1);
            for (rest, whole) in rest.iter().zip(&ranks[0][cut + 1..]) {
                prop_assert_eq!((&rest.0, rest.1), (&whole.0, whole.1));
            }
        }
    }
}

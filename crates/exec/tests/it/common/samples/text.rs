//! Samples of ops on text, token ids and training forms.

use super::*;

pub(super) fn mask(probability: f64) -> Op {
    Op::MaskTokens(ops::MaskTokens {
        column: name("ids"),
        labels: name("labels"),
        mask_id: 0,
        vocab_size: 11,
        probability,
        mask_replace: 0.5,
        random_replace: 0.25,
        special_ids: vec![2],
    })
}

/// Ids that no other sample has: twelve for each row.
pub(super) fn many_ids() -> Vec<Op> {
    let value = Expr::Str { value: name("1 2 3 4 5 6 7 8 9 10 1 2") };
    let (column, output, tokenizer) = (name("text"), name("ids"), BlobId(name(TOKENIZER)));
    vec![
        Op::WithColumn(ops::WithColumn { column: name("text"), value }),
        Op::Tokenize(ops::Tokenize { column, output, tokenizer, add_special_tokens: false, max_length: None }),
    ]
}

pub(super) fn masked() -> Vec<Op> {
    many_ids().into_iter().chain([mask(0.5)]).collect()
}

pub(super) fn training() -> Vec<Sample> {
    let corrupt = |density, mean_length| {
        let (column, labels, sentinel_ids) = (name("ids"), name("labels"), vec![90, 91, 92]);
        Op::CorruptSpans(ops::CorruptSpans { column, labels, sentinel_ids, density, mean_length, eos_id: Some(99) })
    };
    let middle =
        |rate, tokens| Op::FillInMiddle(ops::FillInMiddle { column: name("ids"), tokens, rate, spm_rate: 0.5 });
    let (marks, texts) = (ops::MiddleTokens::Ids([90, 91, 92]), ["<P>", "<S>", "<M>"].map(name));
    let prefix =
        |labels| Op::PrefixLm(ops::PrefixLm { column: name("ids"), labels: name(labels), prefix_length: name("n") });
    let messages = r#"[{"role": "user", "content": "1 2"}, {"role": "assistant", "content": "3"}]"#;
    let messages = Op::WithColumn(ops::WithColumn { column: name("text"), value: Expr::Str { value: name(messages) } });
    let chat = |column, max_length| {
        Op::Chat(ops::Chat {
            column: name(column),
            output: name("ids"),
            labels: Some(name("labels")),
            mask: Some(name("mask")),
            text: Some(name("rendered")),
            tools: None,
            learn: ops::Learn::Assistant,
            add_generation_prompt: true,
            max_length,
            chat: BlobId(name(CHAT)),
        })
    };
    vec![
        sample(mask(0.5), many_ids(), vec![mask(1.5)]),
        sample(corrupt(0.4, 2.0), many_ids(), vec![corrupt(1.0, 2.0), corrupt(0.4, 0.5)]),
        sample(
            middle(0.8, marks.clone()),
            many_ids(),
            vec![middle(2.0, marks), middle(0.8, ops::MiddleTokens::Texts(texts))],
        ),
        sample(prefix("labels"), many_ids(), vec![prefix("n")]),
        sample(chat("text", Some(9)), vec![messages], vec![chat("a", Some(9)), chat("text", Some(0))]),
    ]
}

pub(super) fn text() -> Vec<Sample> {
    let tokenize = |column, max_length| {
        let (output, tokenizer) = (name("ids"), BlobId(name(TOKENIZER)));
        let column = name(column);
        Op::Tokenize(ops::Tokenize { column, output, tokenizer, add_special_tokens: false, max_length })
    };
    let pack = |column, length| {
        let packing = Packing::Concat { segments: false, drop_remainder: false };
        let column = name(column);
        Op::Pack(ops::Pack { column, length, packing, eos_id: None, pad_id: 0, along: vec![], cu_seqlens: false })
    };
    let pack_along = |column, pad| {
        Op::Pack(ops::Pack {
            column: name("ids"),
            length: 8,
            packing: Packing::BestFit { window: 4 },
            eos_id: Some(9),
            pad_id: 0,
            along: vec![ops::Along { column: name(column), pad }],
            cu_seqlens: true,
        })
    };
    let bucket = |column, boundaries: &[usize], max_tokens| {
        Op::BucketByLength(ops::Bucket {
            column: name(column),
            boundaries: boundaries.to_vec(),
            batch_sizes: if max_tokens == Some(4) { vec![] } else { vec![2; boundaries.len() + 1] },
            max_tokens,
            pad_to: PadTo::Longest,
            padding: vec![],
            drop_remainder: false,
        })
    };
    let by_key = |key, size, max_keys, padding| {
        Op::BatchByKey(ops::BatchByKey { key: vec![name(key)], size, padding, drop_remainder: false, max_keys })
    };
    let kept = |padding, valid, ragged| {
        Op::PaddedBatch(ops::PaddedBatch { size: 4, drop_remainder: false, padding, valid, ragged })
    };
    let padded = |padding, valid| kept(padding, valid, vec![]);
    let padding = |column: &str, to: Option<usize>, multiple_of: Option<usize>| {
        let of = |number: Option<usize>| number.map(|n| (name(column), n)).into_iter().collect::<Vec<_>>();
        let truncate = to.map(|_| name(column)).into_iter().collect();
        let (values, lengths) = (vec![(name(column), -1.0)], vec![(name(column), name("n"))]);
        Some(ops::Padding { values, to: of(to), multiple_of: of(multiple_of), truncate, lengths })
    };
    let words = || vec![cast("a", CastType::String)];
    let ids = || vec![cast("a", CastType::String), tokenize("a", None)];
    vec![
        sample(tokenize("a", Some(3)), words(), vec![tokenize("b", None), tokenize("a", Some(0))]),
        sample(pack("ids", 8), ids(), vec![pack("a", 8), pack("ids", 0)]),
        sample(pack_along("labels", -100.0), masked(), vec![pack_along("labels", 0.5), pack_along("b", 0.0)]),
        sample(
            padded(padding("ids", Some(2), None), None),
            ids(),
            vec![padded(padding("b", None, None), None), padded(padding("ids", Some(2), Some(2)), None)],
        ),
        sample(
            padded(padding("ids", None, Some(3)), Some(name("valid"))),
            ids(),
            vec![padded(None, Some(name("ids")))],
        ),
        sample(
            kept(None, Some(name("valid")), vec![name("ids")]),
            ids(),
            vec![kept(None, None, vec![name("a")]), kept(padding("ids", None, None), None, vec![name("ids")])],
        ),
        sample(
            bucket("ids", &[2, 4], None),
            ids(),
            vec![bucket("b", &[2], None), bucket("ids", &[4, 2], None), bucket("ids", &[], None)],
        ),
        sample(bucket("ids", &[], Some(4)), ids(), vec![bucket("ids", &[2], Some(0))]),
        sample(
            by_key("a", 2, 2, Some(vec![(name("ids"), -1.0)])),
            ids(),
            vec![by_key("ids", 2, 2, None), by_key("a", 0, 2, None), by_key("a", 2, 0, None), by_key("c", 2, 2, None)],
        ),
    ]
}

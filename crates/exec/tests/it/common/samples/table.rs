//! Samples of ops on columns: expressions, calls, users' functions.

use super::*;

pub(super) fn columns() -> Vec<Sample> {
    let select = |columns: &[&str]| Op::Select(ops::Select { columns: columns.iter().map(|c| name(c)).collect() });
    let leave = |column| Op::Drop(ops::Drop { columns: vec![name(column)] });
    let rename = |from, to| Op::Rename(ops::Rename { columns: vec![(name(from), name(to))] });
    let keep = |predicate| Op::FilterExpr(ops::FilterExpr { predicate });
    let add = |value| Op::WithColumn(ops::WithColumn { column: name("c"), value });
    let finite = |column| Op::CheckFinite(ops::CheckFinite { columns: vec![name(column)] });
    vec![
        sample(select(&["b", "sized"]), vec![], vec![select(&["nowhere"])]),
        sample(leave("a"), vec![], vec![leave("nowhere")]),
        sample(rename("a", "c"), vec![], vec![rename("nowhere", "c")]),
        sample(
            cast("a", DType::Float32.into()),
            vec![],
            vec![cast("sized", CastType::String), cast("nowhere", CastType::Bytes)],
        ),
        sample(keep(less("a", 5)), vec![], vec![keep(*col("a")), keep(*col("nowhere"))]),
        sample(
            add(Expr::Binary { op: Binary::Add, left: col("a"), right: col("b") }),
            vec![],
            vec![add(Expr::HashMod { arg: col("a"), buckets: 0 }), add(*col("nowhere"))],
        ),
        sample(finite("a"), vec![cast("a", DType::Float32.into())], vec![finite("b"), finite("nowhere")]),
    ]
}

/// Functions of texts and lists, and look-ups.
pub(super) fn calls() -> Vec<Sample> {
    let add = |column, call| {
        Op::WithColumn(ops::WithColumn { column: name("c"), value: Expr::Call { call, arg: col(column) } })
    };
    let pattern = |pattern| Pattern::from(name(pattern));
    let search = |text| Call::Match { pattern: pattern(text), from_start: false };
    let replace = |text, new| Call::ReplacePattern { pattern: pattern(text), new: name(new) };
    let extract = |text, number| Call::Extract { pattern: pattern(text), group: Group::Number(number) };
    let find = |text| Call::FindAll { pattern: pattern(text) };
    let to_time = |unit, format: Option<&str>| Call::ToTime { unit, format: format.map(name) };
    let strftime = |format| Call::FormatTime { unit: TimeUnit::D, format: name(format) };
    let split = |separator| Call::Split { separator: name(separator), index: -1 };
    let among = |values: &[i64]| Call::IsIn { values: Values::Ints(values.to_vec()).into() };
    let buckets = |bounds: &[f64]| Call::Bucketize { bounds: bounds.to_vec(), right: true };
    let hot = |classes| Call::OneHot { classes };
    let table =
        |values| Call::Lookup { table: Table { keys: Values::Ints(vec![3]).into(), values: Found::Ints(values) } };
    let items = |values| Table { keys: Values::Ints(vec![3]).into(), values: Found::Ints(values) };
    let join = |columns: &[&str]| {
        let args = columns.iter().map(|column| *col(column)).collect();
        Op::WithColumn(ops::WithColumn { column: name("c"), value: Expr::ConcatList { args } })
    };
    let year = || Call::Time { part: TimePart::Year, unit: TimeUnit::D };
    let dates = || {
        let value = Expr::Str { value: name("2024-02-29 13:45") };
        vec![Op::WithColumn(ops::WithColumn { column: name("a"), value })]
    };
    let text = || vec![cast("a", CastType::String)];
    let last = || Call::Slice { start: Some(-2), stop: None };
    vec![
        sample(add("a", Call::Upper {}), text(), vec![add("b", Call::Upper {}), add("png", Call::Lower {})]),
        sample(add("a", search("[1-4]$")), text(), vec![add("a", search("(")), add("b", search("1"))]),
        sample(add("a", split("1")), text(), vec![add("a", split(""))]),
        sample(add("a", Call::ToInt { base: 16 }), text(), vec![add("a", Call::ToInt { base: 1 })]),
        sample(add("a", among(&[3, 9])), vec![], vec![add("a", among(&[9, 3])), add("png", among(&[3]))]),
        sample(add("a", table(vec![7])), vec![], vec![add("a", table(vec![])), add("png", table(vec![7]))]),
        sample(add("a", year()), vec![], vec![add("png", year())]),
        sample(add("a", to_time(TimeUnit::Us, None)), dates(), vec![add("b", to_time(TimeUnit::D, None))]),
        sample(
            add("a", to_time(TimeUnit::S, Some("%Y-%m-%d %H:%M"))),
            dates(),
            vec![add("a", to_time(TimeUnit::D, Some("%H:%M"))), add("a", to_time(TimeUnit::D, Some("%Y %q")))],
        ),
        sample(add("a", strftime("%a %d %B")), vec![], vec![add("a", strftime("%q")), add("png", strftime("%d"))]),
        sample(
            add("a", replace("[1-4](.?)", "<\\1>")),
            text(),
            vec![add("a", replace("(", "")), add("a", replace("1", "\\1"))],
        ),
        sample(add("a", extract("1(.)", 1)), text(), vec![add("a", extract("1", 1)), add("b", extract("1", 0))]),
        sample(add("a", find("[1-4]")), text(), vec![add("a", find("(1)(2)")), add("b", find("1"))]),
        sample(add("a", Call::Words { index: None }), text(), vec![add("b", Call::Words { index: Some(1) })]),
        sample(
            add("sized", Call::LookupItems { table: items(vec![7, 8]) }),
            vec![],
            vec![
                add("sized", Call::LookupItems { table: items(vec![7]) }),
                add("a", Call::LookupItems { table: items(vec![7, 8]) }),
            ],
        ),
        sample(join(&["sized", "sized"]), vec![], vec![join(&["a", "b"]), join(&["sized", "png"]), join(&[])]),
        sample(add("a", buckets(&[2.0, 5.5])), vec![], vec![add("a", buckets(&[5.0, 2.0])), add("png", buckets(&[]))]),
        sample(add("a", hot(11)), vec![], vec![add("a", hot(0)), add("sized", hot(11))]),
        sample(add("sized", last()), vec![], vec![add("a", last())]),
        sample(
            add("sized", Call::Get { index: 1, default: None }),
            vec![],
            vec![add("a", Call::Get { index: 1, default: None })],
        ),
        sample(add("sized", Call::Mean {}), vec![], vec![add("a", Call::Mean {}), add("png", Call::Sum {})]),
    ]
}

pub(super) fn functions() -> Vec<Sample> {
    let function = |reads: &str, with_rng| Function {
        blob: BlobId(name("f")),
        code: String::new(),
        name: name("f"),
        batched: false,
        with_rng,
        reads: Some(vec![name(reads)]),
        timeout_s: 1.0,
        is_op: false,
    };
    let map = |reads, with_rng| {
        let output = vec![Field::new("c", Kind::scalar(DType::Int64))];
        Op::Map(ops::Map { function: function(reads, with_rng), output, keep_others: true })
    };
    let flat_map = |function, count| {
        let output = vec![Field::new("c", Kind::scalar(DType::Int64)), Field::new("d", Kind::scalar(DType::Int64))];
        Op::FlatMap(ops::FlatMap { function, output, count })
    };
    let explode = |columns: &[&str]| Op::Explode(ops::Explode { columns: columns.iter().map(|c| name(c)).collect() });
    let batched = Function { batched: true, ..function("a", false) };
    let filter = |reads| Op::FilterFunction(ops::FilterFunction { function: function(reads, false) });
    vec![
        sample(map("a", false), vec![], vec![map("nowhere", false)]),
        sample(map("a", true), vec![], vec![]),
        sample(filter("b"), vec![], vec![filter("nowhere")]),
        sample(
            flat_map(function("a", false), None),
            vec![],
            vec![flat_map(function("nowhere", false), None), flat_map(batched, None)],
        ),
        sample(
            flat_map(function("a", true), Some(3)),
            vec![],
            vec![flat_map(function("a", false), Some(0)), flat_map(function("a", false), Some(1 << 17))],
        ),
        sample(flat_map(function("b", false), Some(2)), vec![], vec![]),
        sample(explode(&["sized"]), vec![], vec![explode(&["a"]), explode(&[]), explode(&["sized", "png"])]),
        sample(
            explode(&["png"]),
            vec![Op::DecodeImage(ops::DecodeImage { column: name("png"), mode: ImageMode::Rgb, exif: false })],
            vec![explode(&["nowhere"])],
        ),
    ]
}

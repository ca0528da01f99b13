use forebay_data::{DType, Field, Kind};

use super::choose::Free;
use super::*;
use crate::ops::{self, ImageMode, Layout};
use crate::source::{BlobId, Source};
use crate::{Binary, Expr, Function, FusedOp, Node, OnError, Op, Site, Stages, explain};

fn col(name: &str) -> Box<Expr> {
    Box::new(Expr::Col { name: name.to_owned() })
}

fn above(name: &str, value: i64) -> Op {
    let right = Box::new(Expr::Int { value });
    Op::FilterExpr(ops::FilterExpr { predicate: Expr::Binary { op: Binary::Gt, left: col(name), right } })
}

fn double(from: &str, to: &str) -> Op {
    let right = Box::new(Expr::Int { value: 2 });
    let value = Expr::Binary { op: Binary::Mul, left: col(from), right };
    Op::WithColumn(ops::WithColumn { column: to.to_owned(), value })
}

fn function(reads: Option<&[&str]>) -> Function {
    Function {
        blob: BlobId("f".to_owned()),
        code: String::new(),
        name: "f".to_owned(),
        batched: false,
        with_rng: false,
        reads: reads.map(|reads| reads.iter().map(|&column| column.to_owned()).collect()),
        timeout_s: 1.0,
        is_op: false,
    }
}

fn map(reads: Option<&[&str]>, writes: &str) -> Op {
    let output = vec![Field::new(writes, Kind::scalar(DType::Int64))];
    Op::Map(ops::Map { function: function(reads), output, keep_others: true })
}

fn decode() -> Op {
    Op::DecodeImage(ops::DecodeImage { column: "jpg".to_owned(), mode: ImageMode::Rgb, exif: false })
}

fn resize(side: usize) -> Op {
    Op::Resize(ops::Resize {
        column: "jpg".to_owned(),
        height: side,
        width: side,
        antialias: true,
        interpolation: Default::default(),
    })
}

fn crop(side: usize) -> Op {
    Op::CenterCrop(ops::CenterCrop { column: "jpg".to_owned(), height: side, width: side })
}

fn flip() -> Op {
    Op::RandomFlip(ops::RandomFlip { column: "jpg".to_owned(), probability: 0.5, direction: Default::default() })
}

fn jitter(contrast: Option<(f64, f64)>) -> Op {
    let factor = Some((0.5, 1.5));
    let column = "jpg".to_owned();
    Op::ColorJitter(ops::ColorJitter {
        column,
        brightness: factor,
        contrast,
        saturation: factor,
        hue: None,
        probability: 1.0,
    })
}

fn blur() -> Op {
    Op::GaussianBlur(ops::GaussianBlur {
        column: "jpg".to_owned(),
        kernel_size: 5,
        sigma: (0.1, 2.0),
        probability: 0.5,
    })
}

fn normalize() -> Op {
    Op::Normalize(ops::Normalize {
        column: "jpg".to_owned(),
        mean: vec![0.5; 3],
        std: vec![0.5; 3],
        layout: Layout::Chw,
    })
}

/// Ops over an encoded image and a number, written from line 1 on.
fn graph(ops: &[Op]) -> Graph {
    let fields = vec![Field::new("jpg", Kind::Bytes), Field::new("label", Kind::scalar(DType::Int64))];
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 100, fields };
    let node = |(line, op): (u32, &Op)| Node {
        site: Some(Site { file: "/home/me/train.py".to_owned(), line }),
        ..Node::new(op.clone())
    };
    let graph = Graph::new(source, None).expect("a source");
    (1..).zip(ops).map(node).fold(graph, |graph, node| graph.then(node).expect("an op"))
}

fn places(graph: Graph) -> Vec<usize> {
    RunOrder::of(&graph).expect("an order").places().to_vec()
}

fn exact(ops: &[Op]) -> Vec<usize> {
    places(graph(ops))
}

fn relaxed(ops: &[Op]) -> Vec<usize> {
    places(graph(ops).with_reorder(Reorder::Relaxed))
}

#[test]
fn filters_run_before_ops_on_columns_that_they_do_not_read() {
    assert_eq!(exact(&[decode(), resize(224), above("label", 3)]), [2, 0, 1]);
    assert_eq!(exact(&[decode(), double("label", "twice"), above("twice", 3)]), [1, 2, 0], "with what it looks at");
    assert_eq!(exact(&[map(Some(&["label"]), "n"), above("label", 3)]), [1, 0]);
    assert_eq!(exact(&[map(Some(&["label"]), "label"), above("label", 3)]), [0, 1], "it looks at what is made");
    let by_function = Op::FilterFunction(ops::FilterFunction { function: function(Some(&["label"])) });
    assert_eq!(exact(&[decode(), by_function]), [1, 0]);
    let ops = [decode(), resize(224), above("label", 3)];
    assert_eq!(places(graph(&ops).with_reorder(Reorder::Off)), [0, 1, 2]);
}

#[test]
fn an_op_without_a_rule_stays_and_is_not_passed() {
    assert_eq!(exact(&[decode(), map(None, "n"), above("label", 3)]), [0, 1, 2], "it may look at anything");
    let all = Op::FilterFunction(ops::FilterFunction { function: function(None) });
    assert_eq!(exact(&[decode(), all.clone()]), [0, 1]);
    assert_eq!(exact(&[decode(), all, above("label", 3)]), [0, 1, 2]);
    let float = Op::Cast(ops::Cast { columns: vec![("label".to_owned(), DType::Float32.into())] });
    let check = Op::CheckFinite(ops::CheckFinite { columns: vec!["label".to_owned()] });
    assert_eq!(exact(&[float, decode(), check, above("label", 3)]), [0, 1, 2, 3], "it is there to fail");
    for between in [
        Op::SHUFFLE,
        Op::Take(ops::Take { count: 9 }),
        Op::Cache(ops::Cache { freeze: false }),
        Op::Prefetch(ops::Prefetch { count: 2 }),
    ] {
        assert_eq!(exact(&[decode(), between, above("label", 3)]), [0, 1, 2]);
    }
    for kept in 0..2 {
        let mut nodes = [Node::new(decode()), Node::new(above("label", 3))];
        nodes[kept].keep_position = true;
        let graph = nodes.into_iter().try_fold(graph(&[]), |graph, node| graph.then(node)).expect("legal");
        assert_eq!(places(graph), [0, 1], "keep_position of op {kept}");
    }
}

#[test]
fn no_op_sees_rows_that_a_filter_kept_from_it() {
    let costly = Op::FilterFunction(ops::FilterFunction { function: function(Some(&["label"])) });
    assert_eq!(exact(&[costly.clone(), above("label", 3)]), [1, 0], "an expression that cannot fail may come first");
    let text = Expr::Cast { arg: col("label"), dtype: DType::Int32.into() };
    let risky = Op::FilterExpr(ops::FilterExpr {
        predicate: Expr::Binary { op: Binary::Gt, left: Box::new(text), right: Box::new(Expr::Int { value: 1 }) },
    });
    assert_eq!(exact(&[costly, risky]), [0, 1], "one that can must not");
    let mut together = function(Some(&["label"]));
    together.batched = true;
    let output = vec![Field::new("n", Kind::scalar(DType::Int64))];
    let batched = Op::Map(ops::Map { function: together, output, keep_others: true });
    assert_eq!(exact(&[batched, above("label", 3)]), [0, 1], "it would find other company");
}

#[test]
fn where_rows_that_fail_are_left_out_it_shows_where_they_failed() {
    let tolerant = |ops: &[Op]| places(graph(ops).with_on_error(OnError::Skip));
    assert_eq!(tolerant(&[decode(), resize(224), above("label", 3)]), [0, 1, 2], "a broken image would not be told of");
    assert_eq!(tolerant(&[double("label", "n"), decode(), above("n", 3)]), [0, 1, 2]);
    let ops = [decode(), double("label", "n"), resize(224), normalize()];
    assert_eq!(
        tolerant(&ops).iter().position(|&op| op == 2),
        tolerant(&ops).iter().position(|&op| op == 0).map(|at| at + 1)
    );
}

#[test]
fn ops_of_one_image_come_together_and_random_streams_keep_their_numbers() {
    let ops = [decode(), double("label", "n"), flip(), double("n", "m"), crop(64), normalize(), above("label", 3)];
    let stages = Stages::new(&graph(&ops)).expect("stages");
    let fused_ops: Vec<usize> = stages.split.iter().map(|fused| fused.steps().len()).collect();
    assert!(fused_ops.contains(&4), "{fused_ops:?}");
    let flipped = stages.split.iter().flat_map(FusedOp::steps).find(|s| s.node.op.name() == "random_flip");
    assert_eq!(flipped.expect("it is there").random, 0);
    let two = [flip(), jitter(None), above("label", 3)];
    let stages = Stages::new(&graph(&[&[decode()], &two[..]].concat())).expect("stages");
    let random =
        |name: &str| stages.split.iter().flat_map(FusedOp::steps).find(|s| s.node.op.name() == name).map(|s| s.random);
    assert_eq!((random("random_flip"), random("color_jitter")), (Some(0), Some(1)));
    assert_eq!(stages.split[0].steps()[0].node.op.name(), "filter");
}

#[test]
fn a_crop_runs_before_ops_on_single_pixels() {
    assert_eq!(exact(&[decode(), jitter(None), crop(64)]), [0, 2, 1]);
    assert_eq!(exact(&[decode(), jitter(Some((0.5, 1.5))), crop(64)]), [0, 1, 2], "the mean grey is another");
    assert_eq!(exact(&[decode(), blur(), crop(64)]), [0, 1, 2]);
    assert_eq!(exact(&[decode(), jitter(None), resize(64)]), [0, 1, 2], "a mean of levels is rounded");
    let flipped = |side| graph(&[decode(), resize(side), flip(), crop(64)]);
    let swapped =
        |side| flipped(side).with_chosen(Chosen { mode: Reorder::Exact, places: vec![0, 1, 3, 2], speedup: 1.0 });
    assert!(swapped(224).is_ok(), "the middle of 224 is in the middle when mirrored");
    assert!(swapped(225).is_err(), "that of 225 is not");
    assert_eq!(places(flipped(224)), [0, 1, 2, 3], "a mirror is only noted: it gains nothing");
}

#[test]
fn relaxed_orders_shrink_images_first_and_have_ids_of_their_own() {
    let ops = [decode(), flip(), jitter(Some((0.5, 1.5))), resize(64), normalize()];
    assert_eq!(relaxed(&ops)[..2], [0, 3]);
    assert_eq!(relaxed(&[decode(), blur(), resize(64)]), [0, 1, 2], "a blur of so many pixels");
    let written = graph(&ops);
    let id = |reorder| written.clone().with_reorder(reorder).dataset_id();
    assert_eq!(id(Reorder::Exact), id(Reorder::Off), "the same bytes");
    assert_ne!(id(Reorder::Exact), id(Reorder::Relaxed));
    let difference = written.difference(&written.clone().with_reorder(Reorder::Relaxed));
    assert_eq!(difference.as_deref(), Some("order is relaxed, and was exact"));
    let hinted =
        graph(&[&ops[..], &[Op::Prefetch(ops::Prefetch { count: 3 })]].concat()).with_reorder(Reorder::Relaxed);
    assert_eq!(hinted.dataset_id(), id(Reorder::Relaxed), "a hint changes no byte");
    let nothing = graph(&[decode(), above("label", 3)]);
    assert_eq!(nothing.clone().with_reorder(Reorder::Relaxed).dataset_id(), nothing.dataset_id(), "no byte changes");
}

#[test]
fn an_order_of_the_same_bytes_shares_ids_and_cached_rows() {
    let ops = [decode(), resize(64), above("label", 3), Op::Cache(ops::Cache { freeze: false })];
    let (run, written) = (graph(&ops), graph(&ops).with_reorder(Reorder::Off));
    let stages = |graph: &Graph| Stages::new(graph).expect("stages");
    assert_eq!(stages(&run).split[0].steps()[0].node.op.name(), "filter");
    assert_eq!(stages(&written).split[0].steps()[0].node.op.name(), "decode_image");
    assert_eq!(stages(&run).prefix_graph(), stages(&written).prefix_graph());
    assert_eq!(run.dataset_id(), written.dataset_id());
    let mut kept = Node::new(decode());
    kept.keep_position = true;
    let kept = graph(&[]).then(kept).expect("legal");
    assert_eq!(kept.dataset_id(), graph(&[decode()]).dataset_id());
}

#[test]
fn a_chosen_order_travels_and_an_illegal_one_is_refused() {
    let ops = [decode(), resize(64), above("label", 3), double("label", "n")];
    let chosen = |places: &[usize]| {
        graph(&ops).with_chosen(Chosen { mode: Reorder::Exact, places: places.to_vec(), speedup: 1.5 })
    };
    let graph = chosen(&[2, 0, 1]).expect("legal");
    let again = Graph::from_json(&graph.to_json()).expect("it wrote itself");
    assert_eq!(again.chosen(), graph.chosen());
    assert_eq!(places(again.clone()), [2, 0, 1, 3], "what is added later stays behind");
    assert_eq!(again.dataset_id(), super::tests::graph(&ops).dataset_id());
    assert_eq!(places(again.with_reorder(Reorder::Off)), [0, 1, 2, 3]);
    let refused = |places: &[usize]| chosen(places).expect_err("refused").message().to_owned();
    assert_eq!(refused(&[1, 0, 2]), "resize (op 2) must not run before decode_image (op 1)");
    assert!(refused(&[0, 0, 1]).contains("once"));
    assert!(refused(&[0, 1, 2, 3, 4]).contains("once"));
    let forged = graph.to_json().replace("[2,0,1]", "[1,0,2]");
    assert!(Graph::from_json(&forged).is_err(), "it is checked where it is read");
    let shuffled = super::tests::graph(&[decode(), Op::SHUFFLE, above("label", 3)]);
    let places = vec![2, 0, 1];
    assert!(
        shuffled.with_chosen(Chosen { mode: Reorder::Exact, places, speedup: 1.0 }).is_err(),
        "nothing crosses an order op"
    );
}

#[test]
fn changed_columns_are_followed_to_the_end_of_a_split() {
    let changed = |ops: &[Op], mode| {
        let stages = Stages::new(&graph(ops).with_reorder(mode)).expect("stages");
        stages.changed_columns().expect("columns").into_iter().collect::<Vec<_>>()
    };
    let ops = [decode(), jitter(None), resize(64)];
    let with = |more: &[Op]| changed(&[&ops[..], more].concat(), Reorder::Relaxed);
    assert_eq!((with(&[]), changed(&ops, Reorder::Exact)), (vec!["jpg".to_owned()], Vec::new()));
    let image = |writes| map(Some(&["jpg"]), writes);
    let rename = |from: &str, to: &str| Op::Rename(ops::Rename { columns: vec![(from.to_owned(), to.to_owned())] });
    assert_eq!(with(&[image("made"), double("made", "more"), map(Some(&["label"]), "other")]), ["jpg", "made", "more"]);
    assert_eq!(with(&[image("label"), double("label", "twice")]), ["jpg", "label", "twice"]);
    assert_eq!(with(&[image("made"), map(Some(&["label"]), "made")]), ["jpg"], "made anew, of what is the same");
    assert_eq!(with(&[map(None, "made")]), ["jpg", "made"], "it may have looked");
    assert_eq!(with(&[rename("jpg", "x"), rename("label", "jpg")]), ["x"]);
    let drop = Op::Drop(ops::Drop { columns: vec!["jpg".to_owned()] });
    assert_eq!(with(&[image("made"), drop.clone()]), ["made"]);
    let alone = |reads: &[&str]| match map(Some(reads), "y") {
        Op::Map(ops::Map { function, output, .. }) => Op::Map(ops::Map { function, output, keep_others: false }),
        op => op,
    };
    assert_eq!((with(&[alone(&["jpg"])]), with(&[alone(&["label"])])), (vec!["y".to_owned()], Vec::new()));
}

#[test]
fn a_relaxed_order_that_was_measured_is_taken_in_its_mode_alone_and_is_part_of_the_id() {
    let ops = [decode(), flip(), jitter(Some((0.5, 1.5))), resize(64), normalize()];
    let (written, places) = (graph(&ops), vec![0, 1, 3, 2, 4]);
    let chosen = |mode| Chosen { mode, places: places.clone(), speedup: 2.0 };
    assert!(written.clone().with_chosen(chosen(Reorder::Exact)).is_err(), "it changes bytes");
    assert!(written.clone().with_chosen(chosen(Reorder::Off)).is_err());
    let measured = written.clone().with_chosen(chosen(Reorder::Relaxed)).expect("legal");
    let again = Graph::from_json(&measured.to_json()).expect("it wrote itself");
    assert_eq!(again.dataset_id(), written.dataset_id(), "not taken in the exact mode");
    assert_eq!(super::tests::places(again.clone()), super::tests::places(written.clone()));
    let [model, measured] = [written.clone(), again].map(|graph| graph.with_reorder(Reorder::Relaxed));
    assert_eq!(super::tests::places(measured.clone()), places);
    assert_ne!(super::tests::places(model.clone()), places);
    assert_ne!(measured.dataset_id(), model.dataset_id(), "other samples");
    assert_ne!(measured.dataset_id(), written.dataset_id());
    let as_written = Chosen { mode: Reorder::Relaxed, places: (0..ops.len()).collect(), speedup: 1.0 };
    let kept = written.clone().with_chosen(as_written).expect("legal").with_reorder(Reorder::Relaxed);
    assert_eq!(kept.dataset_id(), written.dataset_id(), "the bytes of the order as written");
}

#[test]
fn only_graphs_that_may_give_other_bytes_are_of_the_later_version() {
    let text = |reorder| graph(&[decode()]).with_reorder(reorder).to_json();
    assert!(text(Reorder::Exact).contains("\"version\":1") && !text(Reorder::Exact).contains("order"));
    assert!(text(Reorder::Off).contains("\"version\":1"));
    assert!(text(Reorder::Relaxed).contains("\"version\":2"));
    let error = Graph::from_json(&text(Reorder::Relaxed).replace("\"version\":2", "\"version\":3"));
    assert!(error.expect_err("a later one").message().contains("version 3"));
}

#[test]
fn measured_figures_decide_where_the_model_was_wrong() {
    // Two filters: in the model the expression is far cheaper than the function.
    let costly = Op::FilterFunction(ops::FilterFunction { function: function(Some(&["label"])) });
    let graph = graph(&[costly, above("label", 3)]);
    assert_eq!(RunOrder::of(&graph).expect("an order").places(), [1, 0]);
    let figures = |function: f64, expression: f64| MeasuredCosts {
        ops: vec![
            MeasuredOp { ns: Some(100.0), kept: Some(function) },
            MeasuredOp { ns: Some(100.0), kept: Some(expression) },
        ],
    };
    let measured = |figures| RunOrder::measured(&graph, Reorder::Exact, &figures).expect("an order").places().to_vec();
    assert_eq!(measured(figures(0.01, 1.0)), [0, 1], "the function leaves nearly nothing");
    assert_eq!(measured(figures(1.0, 0.01)), [1, 0]);
}

#[test]
fn the_search_ends_at_the_cheapest_legal_order() {
    let pool = [
        decode(),
        resize(64),
        flip(),
        jitter(None),
        crop(32),
        normalize(),
        above("label", 3),
        double("label", "n"),
        double("label", "m"),
        above("n", 1),
        map(Some(&["label"]), "k"),
        Op::Drop(ops::Drop { columns: vec!["n".to_owned()] }),
        blur(),
        Op::Select(ops::Select { columns: vec!["jpg".to_owned(), "label".to_owned()] }),
    ];
    let mut state = 7_u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut tried, mut moved) = (0, 0);
    while tried < 400 {
        let mut drawn = graph(&[]);
        for _ in 0..3 + draw(3) {
            drawn = drawn.then(Node::new(pool[draw(pool.len())].clone())).unwrap_or(drawn);
        }
        let reorder = if draw(2) == 0 { Reorder::Exact } else { Reorder::Relaxed };
        let rules = Rules::of(&drawn, reorder);
        for segment in &segments(&drawn).expect("segments") {
            let costs = Costs::new(segment, &MeasuredCosts::default());
            let choice = choose(segment, rules, |order| costs.of(order));
            let free = Free::new(segment, rules);
            let mut least = f64::INFINITY;
            permutations(segment.items.len(), &free, &mut Vec::new(), &mut |order| {
                least = costs.of(order).map_or(least, |cost| cost.min(least));
            });
            assert!(choice.costs.1 <= choice.costs.0);
            assert!(choice.costs.1 <= least * 1.03, "{:?}: {} of {least}", choice.order, choice.costs.1);
            tried += 1;
            moved += usize::from(choice.costs.1 < choice.costs.0);
        }
    }
    assert!(moved > 50, "{moved} of {tried}");
}

/// Calls `see` with all legal orders.
fn permutations(len: usize, free: &Free, order: &mut Vec<usize>, see: &mut dyn FnMut(&[usize])) {
    if order.len() == len {
        return see(order);
    }
    for next in (0..len).filter(|next| !order.contains(next)).collect::<Vec<_>>() {
        let left_behind = (0..next).filter(|earlier| !order.contains(earlier));
        if left_behind.clone().all(|earlier| free.may_swap(earlier, next)) {
            order.push(next);
            permutations(len, free, order, see);
            order.pop();
        }
    }
}

#[test]
fn each_move_is_explained_with_its_reason() {
    let ops = [decode(), jitter(None), crop(64), normalize(), above("label", 3)];
    let stages = Stages::new(&graph(&ops)).expect("stages");
    let text = explain(&stages, None);
    let run = text.split_once("as it runs\n").expect("the part").1;
    let (told, rest) = run.split_once("  epoch plan").expect("the part");
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("  reordered (exact: the same bytes), estimated to be "), "{told}");
    assert_eq!(
        lines[1..],
        [
            "    filter (train.py:5) runs before decode_image, color_jitter, center_crop, normalize: they see only the \
             rows that it keeps",
            "    center_crop (train.py:3) runs before color_jitter: they work on fewer pixels",
        ]
    );
    assert!(rest.contains("one pass over \"jpg\": decode_image + center_crop + color_jitter + normalize"), "{rest}");
    let still = explain(&Stages::new(&graph(&ops).with_reorder(Reorder::Off)).expect("stages"), None);
    assert!(!still.contains("reordered"));
    let mixed = graph(&ops).with_reorder(Reorder::Relaxed);
    let mixed = mixed.then(Node::new(Op::SHUFFLE)).expect("legal");
    assert!(explain(&Stages::new(&mixed).expect("stages"), None).contains("reordered (relaxed: the same bytes)"));
}

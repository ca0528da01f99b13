//! The names that have versions: found in the stored form of graphs, so that a new op, source or function has its name
//! without a list.
//!
//! The tag of each enum of the stored form makes a name: `op resize`, `source parquet`, `expr cast`, `fn slice`. An argument
//! that is newer than its op has a name of its own, so that a pipeline without it is as old as the op.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use forebay_data::{DType, Kind, Schema};
use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{self, Deserialize};
use serde_json::Value;

use super::PLAN;
use crate::graph::Graph;
use crate::ops::expr::{Binary, Call, Part, Unary};
use crate::ops::{Class, Mixing, Op};
use crate::source::Source;

/// A pipeline whose rows travel with their ids for the mix that it is a part of.
const KEPT_IDS: &str = "ids of a part";

/// A pipeline with an image op on clips, on images of 16 bits, or on images with opacity.
const MORE_IMAGES: &str = "clips and deep images";

/// A pipeline with an op behind `batch` that moves boxes, masks or points.
const MOVED_IN_BATCH: &str = "annotations behind batch";

/// A pipeline whose `batch` stacks lists.
const STACKED_LISTS: &str = "stacked lists";

/// The tags of the stored form.
const TAGS: [&str; 4] = ["op", "source", "expr", "fn"];

/// Arguments that are newer than what has them, each with its path in the stored form, and the value if only that one is
/// new. A pipeline without the argument does not store it.
const ARGUMENTS: &[(&str, &str, Option<&str>)] = &[
    ("fn get", "/default", None),
    ("fn to_time", "/format", None),
    ("op bucket_by_length", "/max_tokens", None),
    ("op crop", "/corner", None),
    ("op decode_image", "/exif", None),
    ("op decode_image", "/mode", Some("I;16")),
    ("op decode_image", "/mode", Some("LA")),
    ("op decode_image", "/mode", Some("RGBA")),
    ("op normalize", "/layout", Some("CTHW")),
    ("op pack", "/along", None),
    ("op pack", "/cu_seqlens", None),
    ("op padded_batch", "/ragged", None),
    ("op part", "/from", None),
    ("source arrow", "/empty_lists", None),
    ("source combined", "/how/interleave", None),
    ("source combined", "/how/mix/changes", None),
    ("source combined", "/how/window", None),
    ("source parquet", "/empty_lists", None),
];

static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let variants = [
        ("op", variants::<Op>("op")),
        ("op", variants_of(Binary::deserialize(StrDeserializer::new("")))),
        ("op", variants_of(Unary::deserialize(StrDeserializer::new("")))),
        ("source", variants::<Source>("source")),
        ("expr", variants::<Part>("expr")),
        ("fn", variants::<Call>("fn")),
    ];
    let names = variants.iter().flat_map(|(tag, names)| names.iter().map(move |name| format!("{tag} {name}")));
    let arguments = ARGUMENTS.iter().map(|(of, argument, value)| argument_name(of, argument, *value));
    names
        .chain(arguments)
        .chain([PLAN, KEPT_IDS, MORE_IMAGES, MOVED_IN_BATCH, STACKED_LISTS].map(str::to_owned))
        .collect()
});

/// Returns the names that this process knows.
pub(super) fn known() -> &'static BTreeSet<String> {
    &KNOWN
}

/// Returns the names that a pipeline uses.
pub(super) fn of(graph: &Graph) -> BTreeSet<String> {
    let mut names = BTreeSet::from([PLAN.to_owned()]);
    if graph.keeps_ids() {
        names.insert(KEPT_IDS.to_owned());
    }
    if any_op(graph, &|op, schema| matches!(op, Op::Batch(batch) if batch.stacks(schema))) {
        names.insert(STACKED_LISTS.to_owned());
    }
    let mut in_batches = graph.nodes().iter().skip_while(|node| node.op.class() != Class::Group);
    if in_batches.any(|node| node.op.annotations().is_some_and(|with| with.columns().next().is_some())) {
        names.insert(MOVED_IN_BATCH.to_owned());
    }
    if any_op(graph, &has_more_images) {
        names.insert(MORE_IMAGES.to_owned());
    }
    if let Ok(stored) = serde_json::to_value(graph) {
        collect(&stored, &mut names);
    }
    names
}

/// Returns whether an image op works on a column of another shape or dtype than uint8 of one or three channels.
fn has_more_images(op: &Op, schema: &Schema) -> bool {
    let column = match op {
        Op::Mix(op) if op.how == Mixing::Cutmix => Some(op.column.as_str()),
        op => op.image_column(),
    };
    let Some(Ok(field)) = column.map(|column| schema.field(column)) else { return false };
    match &field.kind {
        Kind::Tensor { dtype: DType::Uint16, .. } => true,
        Kind::Tensor { dtype: DType::Uint8, shape } => shape.len() == 4 || matches!(shape[..], [_, _, Some(2 | 4)]),
        Kind::Tensor { shape, .. } => shape.len() == 4,
        _ => false,
    }
}

/// Returns whether a pipeline, or a part of its source, has such an op; `is_such` gets it with the columns before it.
fn any_op(graph: &Graph, is_such: &dyn Fn(&Op, &Schema) -> bool) -> bool {
    let source = graph.source();
    let parts = if let Source::Combined(combined) = source { &combined.parts[..] } else { &[] };
    let Ok(mut schema) = source.schema() else { return false };
    for node in graph.nodes() {
        if is_such(&node.op, &schema) {
            return true;
        }
        let Ok(after) = node.op.apply(&schema) else { return false };
        schema = after;
    }
    parts.iter().any(|part| any_op(&part.graph, is_such))
}

/// Collects the names in a value. A user's own key may look like a tag; its text is then no name that this process knows,
/// or one that every process knows.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let tagged = TAGS.iter().filter_map(|tag| Some(format!("{tag} {}", fields.get(*tag)?.as_str()?)));
            for name in tagged.filter(|name| KNOWN.contains(name)) {
                let newer = ARGUMENTS.iter().filter(|(of, argument, only)| {
                    *of == name && value.pointer(argument).is_some_and(|is| only.is_none_or(|only| is == only))
                });
                names.extend(newer.map(|(of, argument, only)| argument_name(of, argument, *only)));
                names.insert(name);
            }
            fields.values().for_each(|field| collect(field, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}

fn argument_name(of: &str, argument: &str, value: Option<&str>) -> String {
    let argument = argument.rsplit('/').next().unwrap_or_default();
    value.map_or_else(|| format!("{of} {argument}"), |value| format!("{of} {argument}={value}"))
}

/// Returns the names of the variants of an enum with an internal tag.
fn variants<T: for<'de> Deserialize<'de>>(tag: &'static str) -> &'static [&'static str] {
    variants_of(T::deserialize(MapDeserializer::new(std::iter::once((tag, "")))))
}

/// Returns the names of the variants of an enum, as its own deserializer lists them when it gets a name that it has not.
fn variants_of<T>(refused: Result<T, Expected>) -> &'static [&'static str] {
    refused.err().map_or(&[], |Expected(variants)| variants)
}

/// The error of a deserializer: the variants that it expected.
#[derive(Debug)]
struct Expected(&'static [&'static str]);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {:?}", self.0)
    }
}

impl std::error::Error for Expected {}

impl de::Error for Expected {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_name() {
        let count = |tag: &str| known().iter().filter(|name| name.starts_with(&format!("{tag} "))).count();
        assert!(count("op") > Op::VARIANTS.len());
        assert!(TAGS.iter().all(|tag| count(tag) > 3), "{:?}", known());
        for name in ["op map", "op add", "op not", "source range", "source parquet", "expr cast", "fn slice", PLAN] {
            assert!(known().contains(name), "{name} is not in {:?}", known());
        }
    }

    #[test]
    fn an_argument_that_is_newer_than_its_op_is_named_where_it_is_used() {
        let names = |json: &str| {
            let mut names = BTreeSet::new();
            collect(&serde_json::from_str(json).expect("json"), &mut names);
            names.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(names(r#"{"op": "decode_image", "column": "x", "mode": "RGB"}"#), ["op decode_image"]);
        let newer = names(r#"{"op": "decode_image", "column": "x", "mode": "RGBA", "exif": true}"#);
        assert_eq!(newer, ["op decode_image", "op decode_image exif", "op decode_image mode=RGBA"]);
        assert!(newer.iter().all(|name| known().contains(name)));
        let window = r#"{"source": "combined", "how": {"window": {"size": 2}}, "parts": []}"#;
        assert_eq!(names(window), ["source combined", "source combined window"]);
    }

    #[test]
    fn names_are_found_at_every_depth() {
        let json = r#"{"source": "combined", "parts": [{"nodes": [{"op": "annotated", "of": {"op": "resize"},
            "to": {"op": "a column"}, "expr": [{"expr": "call", "call": {"fn": "slice"}}]}]}]}"#;
        let mut names = BTreeSet::new();
        collect(&serde_json::from_str(json).expect("json"), &mut names);
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(names, ["expr call", "fn slice", "op annotated", "op resize", "source combined"]);
    }
}

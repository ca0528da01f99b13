//! Converts the schema of a file to this project's fields.
//!
//! Structs are flattened to dotted names, except a struct that its writer called a tensor of variable shape. Invariant:
//! no type makes a file unreadable: types other than numbers, text and bytes become text (decimals) or JSON.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, TimeUnit};
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, TENSOR_DTYPE};
use forebay_plan::{Merged, TimeUnit as Unit};

/// Arrow's name for a tensor whose shape differs from row to row.
const VARIABLE_SHAPE: &str = "arrow.variable_shape_tensor";
/// The most dimensions of a tensor, as in NumPy. A schema with more is damaged, and its shape would take gigabytes.
const RANK_MAX: usize = 64;

/// Says whether a column is such a tensor.
pub(crate) fn is_tensor(field: &ArrowField) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == VARIABLE_SHAPE)
}

/// Refuses a file whose columns are not those of the source. A column of the null type, which writers use for a column
/// that is missing throughout, matches any type that may be missing. In a merged source, a column that may be missing
/// may be absent, and may be narrower.
pub(crate) fn check(schema: &ArrowSchema, wanted: &[Field], is_merged: bool, uri: &str) -> Result<()> {
    let here = fields(schema);
    for field in wanted {
        let found = here.iter().find(|found| found.name == field.name);
        let is = match found {
            Some(found) if found.kind == field.kind => continue,
            Some(found) if is_merged && wider(&found.kind, &field.kind).as_ref() == Some(&field.kind) => continue,
            None if is_merged && field.nullable => continue,
            None if is_merged => return Err(not_there(field, uri)),
            Some(found) if found.kind == Kind::Utf8 && field.kind.can_be_missing() => {
                let is_null = |leaf: &Leaf<'_>| leaf.name == field.name && *leaf.field.data_type() == DataType::Null;
                match leaves(schema).iter().any(is_null) {
                    true if field.nullable => continue,
                    true => return Err(all_missing(field, uri)),
                    false => found.kind.to_string(),
                }
            }
            Some(found) => found.kind.to_string(),
            None => "not there".to_owned(),
        };
        let message = format!("column {:?} is {is} in this file, and {} in the first", field.name, field.kind);
        return Err(Error::data(message).with("file", uri).hint(
            "read them with merge_schemas=True, which finds what all have together; or name columns= that all have",
        ));
    }
    Ok(())
}

/// Returns the error for a file without a column that all files should have.
pub(crate) fn not_there(field: &Field, uri: &str) -> Error {
    let name = &field.name;
    let error = Error::data(format!("column {name:?} is not in this file, and {} in others", field.kind));
    error.with("fault", "file").with("file", uri).hint(match field.kind.can_be_missing() {
        true => format!("where the files are read, say that it may be missing: nullable=[{name:?}]"),
        false => "a list is never missing: name columns= without this one".to_owned(),
    })
}

/// Returns the kind that holds every value of both, if there is one.
pub(crate) fn wider(a: &Kind, b: &Kind) -> Option<Kind> {
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (Kind::Scalar { dtype: a }, Kind::Scalar { dtype: b }) => widest(*a, *b).map(Kind::scalar),
        _ => None,
    }
}

/// Returns the smallest dtype that holds every number of both exactly, if there is one: numbers stay whole or floats.
fn widest(a: DType, b: DType) -> Option<DType> {
    let is_signed = |dtype: DType| matches!(dtype, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
    let holds = |to: DType, from: DType| match (to, from) {
        _ if to == from => true,
        (DType::Bool, _) | (_, DType::Bool) => false,
        _ if to.is_float() || from.is_float() => to.is_float() && from.is_float() && to.size() > from.size(),
        _ if is_signed(to) == is_signed(from) => to.size() > from.size(),
        _ => is_signed(to) && to.size() > from.size(),
    };
    DType::ALL.into_iter().filter(|&dtype| holds(dtype, a) && holds(dtype, b)).min_by_key(|dtype| dtype.size())
}

/// Returns the error for a file in which a column that should have values is missing throughout.
fn all_missing(field: &Field, uri: &str) -> Error {
    let name = &field.name;
    Error::data(format!("column {name:?} is missing in every row of this file, and {} in others", field.kind))
        .with("file", uri)
        .hint(format!("where the files are read, say that it may be missing: nullable=[{name:?}]"))
}

/// Refuses a file that counts time in another unit than the first file: its whole numbers would have another meaning.
pub(crate) fn check_time(first: &ArrowSchema, schema: &ArrowSchema, wanted: &[Field], uri: &str) -> Result<()> {
    let (first, here) = (leaves(first), leaves(schema));
    let clock = |leaves: &[Leaf<'_>], name: &str| {
        leaves.iter().find(|leaf| leaf.name == name).and_then(|leaf| clock(leaf.field.data_type()))
    };
    for field in wanted.iter().filter(|field| may_be_time(field)) {
        let (then, now) = (clock(&first, &field.name), clock(&here, &field.name));
        if then != now {
            let say = |clock: Option<DataType>| clock.map_or("int64".to_owned(), |ty| ty.to_string());
            let message =
                format!("column {:?} is {} in this file, and {} in the first", field.name, say(now), say(then));
            return Err(Error::data(message)
                .with("fault", "file")
                .with("file", uri)
                .hint("read files of one schema together, or name columns= without this one"));
        }
    }
    Ok(())
}

/// Refuses a file that counts time in another unit than the merged files.
pub(crate) fn check_times(merged: &Merged, schema: &ArrowSchema, wanted: &[Field], uri: &str) -> Result<()> {
    for column in found(schema).into_iter().filter(|column| !column.is_null) {
        let name = &column.field.name;
        if !wanted.iter().any(|field| field.name == *name && may_be_time(field)) {
            continue;
        }
        let then = merged.times.get(name);
        if then != column.clock.as_ref() {
            return Err(other_clock(name, column.clock.as_deref(), then.map(String::as_str), uri));
        }
    }
    Ok(())
}

/// Returns the error for a file that counts time in another unit than others.
pub(crate) fn other_clock(name: &str, here: Option<&str>, there: Option<&str>, uri: &str) -> Error {
    let say = |clock: Option<&str>| clock.unwrap_or("no time").to_owned();
    Error::data(format!("column {name:?} is {} in this file, and {} in others", say(here), say(there)))
        .with("fault", "file")
        .with("file", uri)
        .hint("read files of one unit together, or name columns= without this one")
}

/// A column of a file.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) field: Field,
    /// Whether it is of the null type, which writers use for a column that is missing throughout.
    pub(crate) is_null: bool,
    /// Its time unit, if it is a time, or a list of times.
    pub(crate) clock: Option<String>,
}

/// Returns every column of a file.
pub(crate) fn found(schema: &ArrowSchema) -> Vec<Found> {
    let more = |(field, leaf): (Field, Leaf<'_>)| Found {
        field,
        is_null: *leaf.field.data_type() == DataType::Null,
        clock: clock(leaf.field.data_type()).map(|ty| named(&ty)),
    };
    fields(schema).into_iter().zip(leaves(schema)).map(more).collect()
}

/// Returns pyarrow's name of a type of times.
fn named(ty: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match ty {
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Date64 => "date64[ms]".to_owned(),
        DataType::Time32(of) => format!("time32[{}]", unit(of)),
        DataType::Time64(of) => format!("time64[{}]", unit(of)),
        DataType::Timestamp(of, None) => format!("timestamp[{}]", unit(of)),
        DataType::Timestamp(of, Some(_)) => format!("timestamp[{}, tz=UTC]", unit(of)),
        DataType::Duration(of) => format!("duration[{}]", unit(of)),
        other => other.to_string(),
    }
}

/// Returns the unit of each time column.
pub(crate) fn units(columns: &[Found]) -> BTreeMap<String, Unit> {
    let unit = |column: &Found| Some((column.field.name.clone(), unit(column.clock.as_deref()?)?));
    columns.iter().filter_map(unit).collect()
}

/// Returns the name of the unit of a type of times.
pub(crate) fn unit(clock: &str) -> Option<Unit> {
    match clock.split(['[', ',', ']']).nth(1)? {
        "day" => Some(Unit::D),
        "s" => Some(Unit::S),
        "ms" => Some(Unit::Ms),
        "us" => Some(Unit::Us),
        "ns" => Some(Unit::Ns),
        _ => None,
    }
}

/// Says whether the whole numbers of a column may be times.
pub(crate) fn may_be_time(field: &Field) -> bool {
    field.kind.dtype() == Some(DType::Int64)
}

/// Returns the type by which a column, or the items of a list, count time: all time zones are equal, because their
/// numbers are.
fn clock(ty: &DataType) -> Option<DataType> {
    match inner(ty) {
        DataType::Timestamp(unit, zone) => Some(DataType::Timestamp(*unit, zone.as_ref().map(|_| "UTC".into()))),
        ty if is_time(ty) => Some(ty.clone()),
        _ => None,
    }
}

/// Returns the type of a column's numbers.
fn inner(ty: &DataType) -> &DataType {
    match ty {
        DataType::Dictionary(_, values) => inner(values),
        DataType::RunEndEncoded(_, values) => inner(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => item.data_type(),
        ty => ty,
    }
}

/// Says whether values of a type are whole numbers of days, seconds or parts of these.
pub(super) fn is_time(ty: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    matches!(ty, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
}

/// Says whether values of a type are read as JSON text, because no column holds them as they are.
pub(super) fn is_json(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, values) => is_json(values),
        DataType::RunEndEncoded(_, values) => is_json(values.data_type()),
        DataType::Interval(_) | DataType::Union(..) => true,
        ty => ty.is_nested(),
    }
}

/// Says whether values of a type are texts.
fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, values) => is_text(values),
        ty => matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// Returns every column, nested ones under dotted names.
pub(crate) fn fields(schema: &ArrowSchema) -> Vec<Field> {
    let field = |leaf: Leaf<'_>| {
        let says_nothing = matches!(leaf.field.data_type(), DataType::Null | DataType::Union(..));
        let nullable = leaf.nullable || says_nothing;
        Field { nullable, ..Field::new(leaf.name, kind(leaf.field, leaf.field.data_type())) }
    };
    leaves(schema).into_iter().map(field).collect()
}

/// A field that becomes a column.
struct Leaf<'s> {
    /// With the names of the structs around it.
    name: String,
    field: &'s ArrowField,
    /// Whether it, or a struct around it, may be missing.
    nullable: bool,
}

/// Returns the type of a column in its file.
pub(crate) fn stored_type<'s>(schema: &'s ArrowSchema, name: &str) -> Option<&'s DataType> {
    leaves(schema).into_iter().find(|leaf| leaf.name == name).map(|leaf| leaf.field.data_type())
}

fn leaves(schema: &ArrowSchema) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    for field in schema.fields() {
        flatten(field, String::new(), false, &mut found);
    }
    found
}

fn flatten<'s>(field: &'s ArrowField, prefix: String, nullable: bool, found: &mut Vec<Leaf<'s>>) {
    let name = if prefix.is_empty() { field.name().clone() } else { format!("{prefix}.{}", field.name()) };
    let nullable = nullable || field.is_nullable();
    match field.data_type() {
        DataType::Struct(children) if !is_tensor(field) => {
            children.iter().for_each(|child| flatten(child, name.clone(), nullable, found));
        }
        _ => found.push(Leaf { name, field, nullable }),
    }
}

/// Returns the kind of a column here; every type has one.
fn kind(field: &ArrowField, ty: &DataType) -> Kind {
    let extension = field.metadata().get("ARROW:extension:name").map(String::as_str);
    match ty {
        DataType::Int8 if extension == Some("arrow.bool8") => Kind::scalar(DType::Bool),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Bytes,
        DataType::Dictionary(_, values) => kind(field, values),
        DataType::RunEndEncoded(_, values) => kind(field, values.data_type()),
        DataType::FixedSizeList(item, n) => match (numbers(field, item), usize::try_from(*n)) {
            (Some(dtype), Ok(n)) => {
                let shape = extension.filter(|e| *e == "arrow.fixed_shape_tensor").and_then(|_| shape(field));
                let fits = |shape: &Vec<usize>| {
                    shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim)) == Some(n)
                };
                Kind::fixed(dtype, &shape.filter(fits).unwrap_or(vec![n]))
            }
            _ if is_text(item.data_type()) => Kind::Texts,
            _ => Kind::Utf8,
        },
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            let texts = if is_text(item.data_type()) { Kind::Texts } else { Kind::Utf8 };
            numbers(field, item).map_or(texts, |dtype| Kind::Tensor { dtype, shape: vec![None] })
        }
        DataType::Struct(_) => variable(field, ty).unwrap_or(Kind::Utf8),
        ty => number(ty).map_or(Kind::Utf8, Kind::scalar),
    }
}

/// Returns the dtype of a number. Times are the whole numbers that the file stores.
fn number(ty: &DataType) -> Option<DType> {
    if is_time(ty) { Some(DType::Int64) } else { DType::from_arrow(ty) }
}

/// Returns the dtype of the numbers of a list. This project stores booleans as a byte each, and the field's metadata
/// says so.
fn numbers(field: &ArrowField, item: &ArrowField) -> Option<DType> {
    let noted = field.metadata().get(TENSOR_DTYPE).is_some_and(|name| name == DType::Bool.name());
    number(item.data_type()).map(|dtype| if noted && dtype == DType::Int8 { DType::Bool } else { dtype })
}

/// Returns the kind of a tensor of variable shape.
fn variable(field: &ArrowField, ty: &DataType) -> Option<Kind> {
    let DataType::Struct(parts) = ty else { return None };
    let [data, shape] = &**parts else { return None };
    let (DataType::List(item), DataType::FixedSizeList(_, rank)) = (data.data_type(), shape.data_type()) else {
        return None;
    };
    let note: serde_json::Value = serde_json::from_str(field.metadata().get("ARROW:extension:metadata")?).ok()?;
    let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= RANK_MAX)?;
    let uniform = |place: usize| {
        let dim = note.get("uniform_shape").and_then(|dims| dims.get(place)).and_then(serde_json::Value::as_u64);
        dim.and_then(|dim| usize::try_from(dim).ok())
    };
    Some(Kind::Tensor { dtype: numbers(field, item)?, shape: (0..rank).map(uniform).collect() })
}

/// Returns the shape that a tensor's writer recorded.
fn shape(field: &ArrowField) -> Option<Vec<usize>> {
    let note: serde_json::Value = serde_json::from_str(field.metadata().get("ARROW:extension:metadata")?).ok()?;
    if note.get("permutation").is_some() {
        return None;
    }
    note.get("shape")?.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

//! Which columns a file has, as this project's fields.
//!
//! Structs are flattened to dotted names, but for one that its writer called a tensor of variable shape.

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, TENSOR_DTYPE};

/// What Arrow calls a tensor whose shape differs from row to row.
const VARIABLE_SHAPE: &str = "arrow.variable_shape_tensor";

/// Says whether a column is such a tensor.
pub(crate) fn is_tensor(field: &ArrowField) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == VARIABLE_SHAPE)
}

/// Refuses a file whose columns are not those of the source.
pub(crate) fn check(schema: &ArrowSchema, wanted: &[Field], uri: &str) -> Result<()> {
    let here = fields(schema);
    for field in wanted {
        let found = here.iter().find(|(name, _)| *name == field.name).map(|(_, f)| f.clone());
        let is = match found {
            Some(Ok(found)) if found.kind == field.kind => continue,
            Some(Ok(found)) => found.kind.to_string(),
            Some(Err(e)) => return Err(e.with("file", uri)),
            None => "not there".to_owned(),
        };
        let message = format!("column {:?} is {is} in this file, and {} in the first", field.name, field.kind);
        return Err(Error::data(message)
            .with("file", uri)
            .hint("read files of one schema together, or name columns= that all have"));
    }
    Ok(())
}

/// Returns every column, nested ones under dotted names; one of a type that no column holds is an error of its own.
pub(crate) fn fields(schema: &ArrowSchema) -> Vec<(String, Result<Field>)> {
    let mut found = Vec::new();
    for field in schema.fields() {
        flatten(field, String::new(), false, &mut found);
    }
    found
}

fn flatten(field: &ArrowField, prefix: String, nullable: bool, found: &mut Vec<(String, Result<Field>)>) {
    let name = if prefix.is_empty() { field.name().clone() } else { format!("{prefix}.{}", field.name()) };
    let nullable = nullable || field.is_nullable();
    if let DataType::Struct(children) = field.data_type()
        && !is_tensor(field)
    {
        children.iter().for_each(|child| flatten(child, name.clone(), nullable, found));
        return;
    }
    let field =
        kind(field, field.data_type()).map(|kind| Field { nullable, ..Field::new(&name, kind) }).ok_or_else(|| {
            Error::invalid(format!("column {name:?} is {}, which cannot be read", field.data_type()))
                .hint("name the columns to read, without this one; or write it as numbers, text or bytes")
        });
    found.push((name, field));
}

fn kind(field: &ArrowField, ty: &DataType) -> Option<Kind> {
    let extension = field.metadata().get("ARROW:extension:name").map(String::as_str);
    Some(match ty {
        DataType::Int8 if extension == Some("arrow.bool8") => Kind::scalar(DType::Bool),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Bytes,
        DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => kind(field, values)?,
        DataType::FixedSizeList(item, n) => {
            let n = usize::try_from(*n).ok()?;
            let shape = extension.filter(|e| *e == "arrow.fixed_shape_tensor").and_then(|_| shape(field));
            Kind::fixed(numbers(field, item)?, &shape.filter(|s| s.iter().product::<usize>() == n).unwrap_or(vec![n]))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            Kind::Tensor { dtype: numbers(field, item)?, shape: vec![None] }
        }
        DataType::Struct(_) => variable(field, ty)?,
        ty => Kind::scalar(DType::from_arrow(ty)?),
    })
}

/// The numbers of a list. Ours of booleans are a byte each, and say so.
fn numbers(field: &ArrowField, item: &ArrowField) -> Option<DType> {
    let noted = field.metadata().get(TENSOR_DTYPE).is_some_and(|name| name == DType::Bool.name());
    DType::from_arrow(item.data_type()).map(|dtype| if noted && dtype == DType::Int8 { DType::Bool } else { dtype })
}

/// A tensor of variable shape, stored as it is here.
fn variable(field: &ArrowField, ty: &DataType) -> Option<Kind> {
    let DataType::Struct(parts) = ty else { return None };
    let [data, shape] = &**parts else { return None };
    let (DataType::List(item), DataType::FixedSizeList(_, rank)) = (data.data_type(), shape.data_type()) else {
        return None;
    };
    let note: serde_json::Value = serde_json::from_str(field.metadata().get("ARROW:extension:metadata")?).ok()?;
    let rank = usize::try_from(*rank).ok()?;
    let uniform = |place: usize| {
        let dim = note.get("uniform_shape").and_then(|dims| dims.get(place)).and_then(serde_json::Value::as_u64);
        dim.and_then(|dim| usize::try_from(dim).ok())
    };
    Some(Kind::Tensor { dtype: numbers(field, item)?, shape: (0..rank).map(uniform).collect() })
}

/// The shape that a tensor's writer noted.
fn shape(field: &ArrowField) -> Option<Vec<usize>> {
    let note: serde_json::Value = serde_json::from_str(field.metadata().get("ARROW:extension:metadata")?).ok()?;
    if note.get("permutation").is_some() {
        return None;
    }
    note.get("shape")?.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

//! Functions of one expression whose other arguments are constants: functions of texts, of lists, and look-ups.
//!
//! Invariant: [`Call::kind`] refuses arguments with which `exec` could not compute: an invalid pattern, values that do
//! not ascend, or numbers beyond the limits of this module.

mod display;

use std::ops::Range;

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};
use serde::{Deserialize, Serialize};

use super::constants::{ItemDefault, VALUES_MAX};
use super::keys::Keys;
use super::operand::{item, no_list, numbers, text, texts};
use super::patterns::{Group, Pattern};
use super::table::Table;
use super::time::{TimePart, TimeUnit, check_read_format, time_items};

/// See the module's documentation. Texts are counted in characters (Unicode scalar values), as Python's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fn", rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// In lower case.
    Lower {},
    /// In upper case.
    Upper {},
    /// Without these characters at both ends; with `None`, without white space there.
    Strip {
        /// The characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chars: Option<String>,
    },
    /// The characters from `start` to before `stop`, as Python's slices.
    Substring {
        /// The first; from the end if negative.
        start: Option<i64>,
        /// The end, exclusive; from the end if negative.
        stop: Option<i64>,
    },
    /// The items of the first dimension from `start` to before `stop`, as Python's slices.
    Slice {
        /// The first; from the end if negative.
        start: Option<i64>,
        /// The end, exclusive; from the end if negative.
        stop: Option<i64>,
    },
    /// Whether a text contains another one.
    Contains {
        /// The other one.
        text: String,
    },
    /// Whether a list of texts has a text among them.
    HasItem {
        /// The text.
        text: String,
    },
    /// Whether a text begins with another one.
    StartsWith {
        /// The other one.
        text: String,
    },
    /// Whether a text ends with another one.
    EndsWith {
        /// The other one.
        text: String,
    },
    /// With each occurrence of a text replaced.
    Replace {
        /// The text to replace.
        old: String,
        /// The replacement.
        new: String,
    },
    /// With each match of a pattern replaced.
    ReplacePattern {
        /// The pattern.
        pattern: Pattern,
        /// The replacement, in the form of Python's `re.sub`.
        new: String,
    },
    /// The first match of a pattern, or a group of it; missing where there is none.
    Extract {
        /// The pattern.
        pattern: Pattern,
        /// The group.
        group: Group,
    },
    /// All matches of a pattern, or its group in each, if it has one.
    FindAll {
        /// The pattern, with at most one group.
        pattern: Pattern,
    },
    /// Whether a pattern is found in a text.
    Match {
        /// The pattern.
        pattern: Pattern,
        /// Whether the match must begin at the start of the text.
        from_start: bool,
    },
    /// The part of a text at `index`, split at `separator`; missing if the text has fewer parts.
    Split {
        /// The text between two parts.
        separator: String,
        /// The part; from the end if negative.
        index: i64,
    },
    /// The parts of a text, split at `separator`: a list of texts.
    SplitAll {
        /// The text between two parts.
        separator: String,
    },
    /// The parts of a text between white space, which are never empty.
    Words {
        /// The part, from the end if negative; missing if the text has fewer. Default: all parts, a list of texts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<i64>,
    },
    /// The texts of a list as one, with `separator` between them.
    Join {
        /// The text between two of them.
        separator: String,
    },
    /// The whole number that a text represents in a base.
    ToInt {
        /// The base.
        base: u32,
    },
    /// Whether it is one of some values.
    IsIn {
        /// The values, ascending.
        values: Keys,
    },
    /// What a table has for a value.
    Lookup {
        /// The table.
        table: Table,
    },
    /// The value of a table for each item of a list.
    LookupItems {
        /// The table.
        table: Table,
    },
    /// A part of a time, as its year.
    Time {
        /// Which.
        part: TimePart,
        /// The unit of the number.
        unit: TimeUnit,
    },
    /// The time that a text writes.
    ToTime {
        /// The unit of the number.
        unit: TimeUnit,
        /// The format, as of Python's `strptime`. Default: ISO 8601.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
    },
    /// A time as text.
    FormatTime {
        /// The unit of the number.
        unit: TimeUnit,
        /// The format, as of Python's `strftime`.
        format: String,
    },
    /// How many bounds are at or below a number (with `right`: below it), as NumPy's `digitize`.
    Bucketize {
        /// The bounds, ascending.
        bounds: Vec<f64>,
        /// Whether a bound belongs to the bucket that it ends.
        right: bool,
    },
    /// A row of zeros, with 1 at the index that is the number.
    OneHot {
        /// The length of the row.
        classes: usize,
    },
    /// The item of the first dimension at `index`.
    Get {
        /// The item; from the end if negative.
        index: i64,
        /// The result for a list that has no such item. Default: that is an error of the row.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<ItemDefault>,
    },
    /// The sum of the numbers of a row.
    Sum {},
    /// Their mean.
    Mean {},
    /// The least of them.
    Min {},
    /// The greatest of them.
    Max {},
}

impl Call {
    /// Returns the name of its Python method.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Lower {} => "lower",
            Call::Upper {} => "upper",
            Call::Strip { .. } => "strip",
            Call::Substring { .. } | Call::Slice { .. } => "slice",
            Call::Contains { .. } | Call::HasItem { .. } => "contains",
            Call::StartsWith { .. } => "starts_with",
            Call::EndsWith { .. } => "ends_with",
            Call::Replace { .. } | Call::ReplacePattern { .. } => "replace",
            Call::Extract { .. } => "extract",
            Call::FindAll { .. } => "findall",
            Call::Match { from_start: true, .. } => "match",
            Call::Match { .. } => "search",
            Call::Split { .. } | Call::SplitAll { .. } | Call::Words { .. } => "split",
            Call::Join { .. } => "join",
            Call::ToInt { .. } => "to_int",
            Call::IsIn { .. } => "isin",
            Call::Lookup { .. } | Call::LookupItems { .. } => "lookup",
            Call::Time { part, .. } => part.name(),
            Call::ToTime { .. } => "to_time",
            Call::FormatTime { .. } => "strftime",
            Call::Bucketize { .. } => "bucketize",
            Call::OneHot { .. } => "one_hot",
            Call::Get { .. } => "get",
            Call::Sum {} => "sum",
            Call::Mean {} => "mean",
            Call::Min {} => "min",
            Call::Max {} => "max",
        }
    }

    /// Says whether a row of `kind` can make it fail.
    pub fn may_fail(&self) -> bool {
        matches!(
            self,
            Call::ToInt { .. }
                | Call::ToTime { .. }
                | Call::OneHot { .. }
                | Call::LookupItems { .. }
                | Call::Get { default: None, .. }
        )
    }

    /// Says whether its result may be missing for a present value of `kind`.
    pub fn may_be_missing(&self, kind: &Kind) -> bool {
        match self {
            Call::Split { .. } | Call::Extract { .. } | Call::Words { index: Some(_) } => true,
            Call::Lookup { table } => table.has_gaps(),
            Call::Get { default, .. } => *kind == Kind::Texts || *default == Some(ItemDefault::Missing),
            Call::Mean {} | Call::Min {} | Call::Max {} => kind.known_shape().is_none_or(|shape| shape.contains(&0)),
            _ => false,
        }
    }

    /// Returns the kind of its result for a value of `kind`.
    ///
    /// # Errors
    /// Invalid for a kind that it does not accept, and for wrong arguments.
    pub fn kind(&self, kind: &Kind) -> Result<Kind> {
        let name = self.name();
        let truth = Kind::scalar(DType::Bool);
        match self {
            Call::Lower {} | Call::Upper {} | Call::Strip { .. } | Call::Replace { .. } => text(name, kind, Kind::Utf8),
            Call::HasItem { .. } => texts(name, kind, truth),
            Call::Contains { .. } | Call::StartsWith { .. } | Call::EndsWith { .. } => text(name, kind, truth),
            Call::Match { pattern, .. } => pattern.regex().and_then(|_| text(name, kind, truth)),
            Call::ReplacePattern { pattern, new } => {
                pattern.replacement(new).and_then(|_| text(name, kind, Kind::Utf8))
            }
            Call::Extract { pattern, group } => pattern.group(name, group).and_then(|_| text(name, kind, Kind::Utf8)),
            Call::FindAll { pattern } if pattern.regex()?.captures_len() > 2 => {
                Err(Error::invalid(format!("findall: {pattern} has {} groups", pattern.regex()?.captures_len() - 1))
                    .hint("give it at most one, which it returns of each match; (?:...) is no group"))
            }
            Call::FindAll { .. } => text(name, kind, Kind::Texts),
            Call::Words { index } => text(name, kind, if index.is_some() { Kind::Utf8 } else { Kind::Texts }),
            Call::Split { separator, .. } | Call::SplitAll { separator } if separator.is_empty() => {
                Err(Error::invalid("split: the separator is empty")
                    .hint("name what is between the parts, as a space; slice takes single characters"))
            }
            Call::Split { .. } => text(name, kind, Kind::Utf8),
            Call::SplitAll { .. } => text(name, kind, Kind::Texts),
            Call::Join { .. } => texts(name, kind, Kind::Utf8),
            Call::Substring { .. } if *kind == Kind::Bytes => Ok(Kind::Bytes),
            Call::Substring { .. } => text(name, kind, Kind::Utf8),
            Call::ToInt { base } if !(2..=36).contains(base) => {
                Err(Error::invalid(format!("to_int: base={base} is out of range")).hint("use 2 to 36"))
            }
            Call::ToInt { .. } => text(name, kind, Kind::scalar(DType::Int64)),
            Call::Slice { start, stop } => match kind {
                Kind::Texts => Ok(Kind::Texts),
                Kind::Tensor { dtype, shape } => {
                    let length = shape[0].map(|len| Call::bounds(*start, *stop, len).len());
                    let shape = std::iter::once(length).chain(item(name, kind)?.into_iter().map(Some)).collect();
                    Ok(Kind::Tensor { dtype: *dtype, shape })
                }
                kind => Err(no_list(name, kind)),
            },
            Call::IsIn { values } => values.check(name).and_then(|()| values.kind(name, kind)),
            Call::Lookup { table } => table.kind(kind),
            Call::LookupItems { table } => table.kind_of_items(kind),
            Call::ToTime { format, .. } => {
                format.as_deref().map_or(Ok(()), check_read_format)?;
                text(name, kind, Kind::scalar(DType::Int64))
            }
            Call::FormatTime { format, .. } => match kind {
                Kind::Scalar { dtype: DType::Uint64 } => Err(Error::invalid(format!("{name}: {kind} counts no time"))
                    .hint("times are int64: write .cast(\"int64\") before it")),
                Kind::Scalar { dtype } if !dtype.is_float() && *dtype != DType::Bool => {
                    time_items(name, format).map(|_| Kind::Utf8)
                }
                _ => Err(Error::invalid(format!("{name}: {kind} counts no time"))
                    .hint("times are whole numbers; .str.to_time(\"us\") reads them from text")),
            },
            Call::Time { .. } => match kind.dtype() {
                Some(dtype) if !dtype.is_float() && dtype != DType::Bool => numbers(name, kind, DType::Int64),
                _ => Err(Error::invalid(format!("{name}: {kind} counts no time"))
                    .hint("times are whole numbers; .str.to_time(\"us\") reads them from text")),
            },
            Call::Bucketize { bounds, .. } => {
                if bounds.len() > VALUES_MAX || bounds.iter().any(|b| b.is_nan()) || !bounds.is_sorted() {
                    return Err(Error::invalid("bucketize: the bounds do not rise, or are more than 1048576")
                        .hint("give finite numbers in order"));
                }
                numbers(name, kind, DType::Int64)
            }
            Call::OneHot { classes } => match kind {
                Kind::Scalar { dtype } if !dtype.is_float() && (1..=VALUES_MAX).contains(classes) => {
                    Ok(Kind::fixed(DType::Float32, &[*classes]))
                }
                Kind::Scalar { dtype } if !dtype.is_float() => {
                    Err(Error::invalid(format!("one_hot: {classes} classes")).hint("use 1 to 1048576"))
                }
                kind => Err(Error::invalid(format!("one_hot: {kind} is no class"))
                    .hint("it takes whole numbers: cast them, as .cast(\"int64\")")),
            },
            Call::Get { default, .. } => {
                let item = match kind {
                    Kind::Texts => Kind::Utf8,
                    _ => {
                        let shape = item(name, kind)?;
                        let dtype = kind.dtype().ok_or_else(|| no_list(name, kind))?;
                        if shape.is_empty() { Kind::scalar(dtype) } else { Kind::fixed(dtype, &shape) }
                    }
                };
                default.as_ref().map_or(Ok(()), |default| default.check(&item))?;
                Ok(item)
            }
            Call::Sum {} | Call::Mean {} | Call::Min {} | Call::Max {} => match kind {
                Kind::Tensor { dtype, .. } => Ok(Kind::scalar(self.reduced(*dtype))),
                kind => Err(no_list(name, kind)),
            },
        }
    }

    /// Returns the dtype of a sum, mean, least or greatest number: NumPy's.
    pub fn reduced(&self, dtype: DType) -> DType {
        match (self, dtype) {
            (Call::Sum {}, DType::Uint8 | DType::Uint16 | DType::Uint32 | DType::Uint64) => DType::Uint64,
            (Call::Sum {}, dtype) if !dtype.is_float() => DType::Int64,
            (Call::Mean {}, dtype) if !dtype.is_float() => DType::Float64,
            (_, dtype) => dtype,
        }
    }

    /// Returns the items of `len` from `start` to before `stop`, as Python's slices.
    pub fn bounds(start: Option<i64>, stop: Option<i64>, len: usize) -> Range<usize> {
        let at = |place: i64| match usize::try_from(place) {
            Ok(place) => place.min(len),
            Err(_) => len.saturating_sub(usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        let (start, stop) = (start.map_or(0, at), stop.map_or(len, at));
        start..stop.max(start)
    }
}

//! Calls in errors and explanations, as Python writes them.

use std::fmt::{Display, Formatter, Result};

use super::Call;

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}(", self.name())?;
        match self {
            Call::Lower {} | Call::Upper {} | Call::Sum {} | Call::Mean {} | Call::Min {} | Call::Max {} => {}
            Call::Strip { chars } => chars.iter().try_for_each(|chars| write!(f, "{chars:?}"))?,
            Call::Substring { start, stop } | Call::Slice { start, stop } => {
                write!(f, "{}, {}", place(*start), place(*stop))?
            }
            Call::Contains { text } | Call::HasItem { text } | Call::StartsWith { text } | Call::EndsWith { text } => {
                write!(f, "{text:?}")?
            }
            Call::Replace { old, new } => write!(f, "{old:?}, {new:?}")?,
            Call::ReplacePattern { pattern, new } => write!(f, "{pattern}, {new:?}, regex=True")?,
            Call::Extract { pattern, group } => write!(f, "{pattern}, {group}")?,
            Call::Match { pattern, .. } | Call::FindAll { pattern } => write!(f, "{pattern}")?,
            Call::Words { index } => index.iter().try_for_each(|index| write!(f, "None, {index}"))?,
            Call::Split { separator, index } => write!(f, "{separator:?}, {index}")?,
            Call::SplitAll { separator } | Call::Join { separator } => write!(f, "{separator:?}")?,
            Call::ToInt { base } => write!(f, "{base}")?,
            Call::IsIn { values } => write!(f, "{} values", values.len())?,
            Call::Lookup { table } | Call::LookupItems { table } => write!(f, "{} keys", table.keys.len())?,
            Call::ToTime { unit, format: Some(format) } => write!(f, "{:?}, {format:?}", unit.name())?,
            Call::FormatTime { format, .. } => write!(f, "{format:?}")?,
            Call::Time { unit, .. } | Call::ToTime { unit, .. } => write!(f, "{:?}", unit.name())?,
            Call::Bucketize { bounds, .. } => write!(f, "{} bounds", bounds.len())?,
            Call::OneHot { classes } => write!(f, "{classes}")?,
            Call::Get { index, default: None } => write!(f, "{index}")?,
            Call::Get { index, default: Some(default) } => write!(f, "{index}, default={default}")?,
        }
        f.write_str(")")
    }
}

fn place(place: Option<i64>) -> String {
    place.map_or_else(|| "None".to_owned(), |place| place.to_string())
}

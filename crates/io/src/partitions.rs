//! Columns in the paths of files, as Hive, Spark and pyarrow write them: `year=2024/country=de/part-0.parquet`.
//!
//! Only folders below the user's folder count, or after the first part of a path that is a pattern: the folders above
//! differ from machine to machine. Invariant: the columns, their types and their values follow from the list of files
//! alone.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, LargeStringArray};
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use crate::limits;
use crate::store::{self, Found};

/// The name that stands for a missing value.
const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the files that match `patterns`, as [`store::list`], and for each the offset in its uri where the folders
/// begin that may have columns.
///
/// # Errors
/// As [`store::list`].
pub(crate) fn list(patterns: &[String]) -> Result<(Vec<Found>, Vec<u64>)> {
    let (mut found, mut begins) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let files = store::list(std::slice::from_ref(pattern))?;
        begins.extend(files.iter().map(|file| begin(pattern, &file.uri) as u64));
        found.extend(files);
    }
    Ok((found, begins))
}

/// Returns the offset in a uri of the part that `pattern` leaves open; the uri's length if it leaves nothing open.
fn begin(pattern: &str, uri: &str) -> usize {
    let without_scheme = |text: &str| text.find("://").map_or(0, |at| at + 3);
    let is_literal = |part: &&str| store::only_name(part).is_some() && !part.contains('{');
    let pattern = &pattern[without_scheme(pattern)..];
    let literal = pattern.split('/').filter(|part| !part.is_empty()).take_while(is_literal).count();
    let (mut at, mut seen) = (without_scheme(uri), 0);
    for part in uri[at..].split_inclusive('/') {
        if part != "/" {
            if seen == literal {
                return at;
            }
            seen += 1;
        }
        at += part.len();
    }
    uri.len()
}

/// A folder `key=value`; without a value it is missing.
type Said<'u> = (Cow<'u, str>, Option<Cow<'u, str>>);

/// Returns the keys and values of a file's folders, from offset `begin` in its uri.
fn said(uri: &str, begin: u64) -> Result<Vec<Said<'_>>> {
    let below = usize::try_from(begin).ok().and_then(|begin| uri.get(begin..)).unwrap_or_default();
    let Some((folders, _)) = below.rsplit_once('/') else { return Ok(Vec::new()) };
    let is_remote = store::is_remote(uri);
    let mut said: Vec<Said<'_>> = Vec::new();
    for folder in folders.split('/').filter(|folder| folder.contains('=')) {
        let blame = |e: Error| e.with("file", uri).with("folder", folder);
        // In a url, the folder's name is encoded, and values in the name are encoded once more.
        let name = if is_remote { decoded(Cow::Borrowed(folder)).map_err(blame)? } else { Cow::Borrowed(folder) };
        let Some((key, value)) = split(name) else { continue };
        let (key, value) = (decoded(key).map_err(blame)?, decoded(value).map_err(blame)?);
        if key.len() > limits::NAME_BYTES_MAX {
            return Err(blame(Error::data("the name of a column is too long").with("fault", "file")));
        }
        if said.iter().any(|(other, _)| *other == key) {
            let what = format!("the path of this file has {key:?} twice");
            return Err(blame(Error::data(what).with("fault", "file")).hint(NOT_COLUMNS));
        }
        said.push((key, Some(value).filter(|value| value != MISSING)));
    }
    Ok(said)
}

/// The hint for paths whose folders are not columns.
const NOT_COLUMNS: &str = "rename the folder; or say that folders are no columns: partitioning=None";

/// Splits a name at its first `=`; `None` where nothing is before it.
fn split(name: Cow<'_, str>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let at = name.find('=').filter(|&at| at > 0)?;
    Some(match name {
        Cow::Borrowed(name) => (Cow::Borrowed(&name[..at]), Cow::Borrowed(&name[at + 1..])),
        Cow::Owned(name) => (Cow::Owned(name[..at].to_owned()), Cow::Owned(name[at + 1..].to_owned())),
    })
}

/// Replaces `%2F` and the like by the bytes that they encode; other text stays.
fn decoded(text: Cow<'_, str>) -> Result<Cow<'_, str>> {
    if !text.contains('%') {
        return Ok(text);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut plain = Vec::with_capacity(bytes.len());
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).map(Cow::Owned).map_err(|_| {
        Error::data("the name of a folder is not utf-8 once it is decoded").with("fault", "file").hint(NOT_COLUMNS)
    })
}

/// Reads a whole number, as pyarrow does: without a plus sign or spaces.
fn number(text: &str) -> Option<i64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Returns the columns of the paths of files, in the order of their first occurrence: whole numbers where all values
/// are, otherwise texts. A column may be missing if a file does not have it.
///
/// # Errors
/// Data for a path that has a key twice or is not UTF-8 once decoded; Exhausted for too many keys.
pub(crate) fn find(files: &[Found], begins: &[u64]) -> Result<Vec<Field>> {
    struct Key {
        name: String,
        files: usize,
        has_values: bool,
        are_whole: bool,
    }
    let mut keys: Vec<Key> = Vec::new();
    for (file, &begin) in files.iter().zip(begins) {
        for (name, value) in said(&file.uri, begin)? {
            let place = keys.iter().position(|key| key.name == name).unwrap_or_else(|| {
                keys.push(Key { name: name.into_owned(), files: 0, has_values: false, are_whole: true });
                keys.len() - 1
            });
            let Some(value) = value else { continue };
            let key = &mut keys[place];
            (key.files, key.has_values) = (key.files + 1, true);
            key.are_whole = key.are_whole && number(&value).is_some();
        }
        limits::columns("keys in the paths of files", keys.len()).map_err(|e| e.with("file", &file.uri))?;
    }
    let field = |key: Key| {
        let kind = if key.has_values && key.are_whole { Kind::scalar(DType::Int64) } else { Kind::Utf8 };
        Field { nullable: key.files < files.len(), ..Field::new(key.name, kind) }
    };
    Ok(keys.into_iter().map(field).collect())
}

/// Compares a column of the files with the path column of the same name, which is used: both must have one type.
///
/// # Errors
/// Data when the types differ.
pub(crate) fn check_stored(said: &[Field], stored: &Field) -> Result<()> {
    let Some(path) = said.iter().find(|field| field.name == stored.name) else { return Ok(()) };
    let is_whole = |kind: &Kind| matches!(kind, Kind::Scalar { dtype } if !dtype.is_float() && *dtype != DType::Bool);
    if path.kind == stored.kind || (is_whole(&path.kind) && is_whole(&stored.kind)) {
        return Ok(());
    }
    let name = &stored.name;
    let what = format!("column {name:?} is {} in the files, and {} in their paths", stored.kind, path.kind);
    let hint =
        "read that of the files: partitioning=None; or name the columns to read, without this one: columns=[...]";
    Err(Error::data(what).with("fault", "file").hint(hint))
}

/// Returns the values of a column from paths: one for each file.
///
/// # Errors
/// Data when a path has no value, or one of another kind than the column; Invalid for a column of a kind that no path
/// has.
pub(crate) fn column(field: &Field, uris: &[impl AsRef<str>], begins: &[u64]) -> Result<ArrayRef> {
    let name = &field.name;
    let value = |(uri, &begin): (&'_ _, &u64)| -> Result<Option<String>> {
        let uri = AsRef::<str>::as_ref(uri);
        let found = said(uri, begin)?.into_iter().find(|(key, _)| key == name.as_str()).and_then(|(_, value)| value);
        if found.is_none() && !field.nullable {
            let what = format!("the path of this file has no {name:?}, and those of others have");
            let hint = format!("where the files are read, say that it may be missing: nullable=[{name:?}]");
            return Err(Error::data(what).with("fault", "file").with("file", uri).hint(hint));
        }
        Ok(found.map(Cow::into_owned))
    };
    let whole = |(file, value): (usize, Option<String>)| -> Result<Option<i64>> {
        let Some(value) = value else { return Ok(None) };
        number(&value).map(Some).ok_or_else(|| {
            let what = format!("{name}={value} is no whole number, and those of other files are");
            let hint = "rename the folder; or write the pipeline anew over these files, in which the column is text";
            Error::data(what).with("fault", "file").with("file", uris[file].as_ref()).hint(hint)
        })
    };
    let values = uris.iter().zip(begins).map(value).collect::<Result<Vec<_>>>()?;
    Ok(match field.kind {
        Kind::Scalar { dtype: DType::Int64 } => {
            Arc::new(values.into_iter().enumerate().map(whole).collect::<Result<Int64Array>>()?)
        }
        Kind::Utf8 => Arc::new(LargeStringArray::from(values)),
        ref kind => return Err(Error::invalid(format!("column {name:?} of paths is no {kind}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_left_open_counts() {
        let open = |pattern: &str, uri: &str| uri[begin(pattern, uri)..].to_owned();
        assert_eq!(open("/a=1/data/**/[!_]*", "/a=1/data/y=2/f"), "y=2/f");
        assert_eq!(open("/a=1/[[]x]/**/[!_]*", "/a=1/[x]/y=2/f"), "y=2/f");
        assert_eq!(open("/d/y=*/*.parquet", "/d/y=2/f.parquet"), "y=2/f.parquet");
        assert_eq!(open("/d/y={1,2}/f", "/d/y=2/f"), "y=2/f");
        assert_eq!(open("/d/y=2/f", "/d/y=2/f"), "");
        assert_eq!(open("s3://y=0/a=1/**/[!_]*", "s3://y=0/a=1/y=2/f"), "y=2/f");
        assert_eq!(open("/d//e/*", "/d/e/f"), "f");
        assert_eq!(open("/d/*", "/d/f"), "f");
    }

    #[test]
    fn folders_are_decoded_once_and_urls_once_more() {
        let said = |uri: &str| -> Vec<(String, Option<String>)> {
            let said = said(uri, 0).expect("it is text").into_iter();
            said.map(|(key, value)| (key.into_owned(), value.map(Cow::into_owned))).collect()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        assert_eq!(said("a%20b=c%2Fd%zz/e=f=g/h=i"), [pair("a b", "c/d%zz"), pair("e", "f=g")]);
        assert_eq!(said("s3://b/a=c%252Fd/f"), [pair("a", "c/d")]);
        assert_eq!(said("=a/b=/c=__HIVE_DEFAULT_PARTITION__/d/f"), [pair("b", ""), ("c".to_owned(), None)]);
    }
}

//! The header of NumPy's `.npy` files: a magic, a version, and a Python dictionary of three entries.

use forebay_core::{Error, Result};
use forebay_data::DType;

use crate::fail;
use crate::store::Object;

const MAGIC: &[u8] = b"\x93NUMPY";
/// The longest header that is read. NumPy itself reads 10 000 bytes of one.
const HEADER_MAX: usize = 1 << 16;

/// The header of a one-dimensional array.
pub(super) struct Header {
    pub(super) dtype: DType,
    pub(super) count: u64,
    /// Where the numbers begin.
    pub(super) start: u64,
}

/// Says whether a file is read as `.npy`: by its first bytes, or by its name.
pub(super) fn is_one(uri: &str, head: &[u8]) -> bool {
    head.starts_with(MAGIC) || (uri.ends_with(".npy") && !head.is_empty())
}

/// Reads the header; `head` has the first bytes of the file.
///
/// # Errors
/// Data when the header is broken; Invalid when the array has several dimensions or does not hold whole numbers.
pub(super) fn header(object: &Object, head: &[u8]) -> Result<Header> {
    let uri = object.uri();
    let broken = |what: &str| {
        let error = Error::data(format!("this is no array of NumPy: {what}"));
        error.with("fault", "file").with("file", uri).hint("write it again with numpy.save, or rename it if it is flat")
    };
    let (version, rest) = head
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.split_first_chunk::<2>())
        .ok_or_else(|| broken("it begins with no magic"))?;
    let (begin, len) = match (version[0], rest) {
        (1, [a, b, ..]) => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        (2 | 3, [a, b, c, d, ..]) => (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        (1..=3, _) => return Err(broken("it ends within its header")),
        (other, _) => return Err(broken(&format!("version {other} is not known"))),
    };
    if len > HEADER_MAX || (begin + len) as u64 > object.size() {
        return Err(broken(&format!("a header of {len} bytes")));
    }
    let mut text = vec![0; len];
    match head.get(begin..begin + len) {
        Some(here) => text.copy_from_slice(here),
        None => object.read_at(begin as u64, &mut text)?,
    }
    let text = String::from_utf8(text).map_err(|_| broken("its header is no text"))?;
    let entry = |key: &str| value(&text, key).ok_or_else(|| broken(&format!("its header has no {key:?}")));
    let (descr, order, shape) = (entry("descr")?, entry("fortran_order")?, entry("shape")?);
    if !order.starts_with("False") && !order.starts_with("True") {
        return Err(broken("its header says no order"));
    }
    let dtype = dtype(uri, descr)?;
    Ok(Header { dtype, count: length(uri, shape)?, start: (begin + len) as u64 })
}

/// Returns the text after a key of the dictionary.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let at = text.find(&format!("'{key}':"))? + key.len() + 3;
    Some(text.get(at..)?.trim_start())
}

/// Reads a type such as `'<u2'`.
fn dtype(uri: &str, descr: &str) -> Result<DType> {
    let name = descr.strip_prefix('\'').and_then(|rest| rest.split('\'').next()).unwrap_or(descr);
    let refused = |what: &str, hint: &str| Err(Error::invalid(what).with("file", uri).hint(hint));
    if name.starts_with('>') {
        return refused(
            &format!("an array of {name:?}, whose bytes are in the other order"),
            "write it as this machine has it: numpy.save(path, array.astype(array.dtype.newbyteorder('<')))",
        );
    }
    match name.trim_start_matches(['<', '|', '=']) {
        "i1" => Ok(DType::Int8),
        "i2" => Ok(DType::Int16),
        "i4" => Ok(DType::Int32),
        "i8" => Ok(DType::Int64),
        "u1" => Ok(DType::Uint8),
        "u2" => Ok(DType::Uint16),
        "u4" => Ok(DType::Uint32),
        "u8" => Ok(DType::Uint64),
        _ => refused(
            &format!("an array of {:?}, and token ids are whole numbers", name.chars().take(40).collect::<String>()),
            "save an array of integers",
        ),
    }
}

/// Reads a shape of one dimension.
fn length(uri: &str, shape: &str) -> Result<u64> {
    let inner = shape.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(inner, _)| inner);
    let dims: Vec<&str> = inner.split(',').map(str::trim).filter(|dim| !dim.is_empty()).collect();
    match dims.as_slice() {
        [one] => {
            one.parse().map_err(|_| fail::corrupt(uri, 0, format!("this is no array of NumPy: a length of {one:?}")))
        }
        _ => Err(Error::invalid(format!("an array of {} dimensions, and token ids have one", dims.len()))
            .with("file", uri)
            .hint("save array.reshape(-1), or read it with from_numpy(numpy.load(path))")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_shapes_are_what_numpy_writes() {
        let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }          \n";
        assert_eq!(dtype("f", value(text, "descr").expect("there")), Ok(DType::Uint16));
        assert_eq!(length("f", value(text, "shape").expect("there")), Ok(1000));
        for (shape, count) in
            [("()", "0 dimensions"), ("(3, 4)", "2 dimensions"), ("(-1,)", "a length of"), ("3", "0 dim")]
        {
            let e = length("f", shape).expect_err("refused");
            assert!(e.message().contains(count), "{shape}: {e}");
        }
        for descr in ["'>u2'", "'<f4'", "[('a', '<u2')]", "'|O'", "", "'"] {
            assert!(dtype("f", descr).is_err(), "{descr}");
        }
    }
}

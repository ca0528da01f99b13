//! The protocol buffers of `tf.train.Example` and `tf.train.SequenceExample`, decoded directly from their bytes.
//!
//! ```text
//! Example { features: 1 }                  SequenceExample { context: 1, feature_lists: 2 }
//! Features { feature: 1 repeated }         FeatureLists { feature_list: 1 repeated }    entry { key: 1, value: 2 }
//! Feature { bytes_list: 1 | float_list: 2 | int64_list: 3 }    FeatureList { feature: 1 repeated }
//! list { value: 1 repeated, packed or not }
//! ```
//!
//! A context holds features in the same way as an Example, so one reader serves both.

use std::borrow::Cow;

use forebay_data::DType;

/// The value of one feature of one record; numbers are kept as little-endian bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Bytes(Strings<'a>),
    Floats(Cow<'a, [u8]>),
    Ints(Vec<u8>),
}

impl Value<'_> {
    /// Returns the type and the number of its values.
    pub(super) fn what(&self) -> (What, usize) {
        match self {
            Value::Bytes(strings) => (What::Bytes, strings.count),
            Value::Floats(bytes) => (What::Numbers(DType::Float32), bytes.len() / 4),
            Value::Ints(bytes) => (What::Numbers(DType::Int64), bytes.len() / 8),
        }
    }
}

/// The byte strings of a feature, not yet copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strings<'a> {
    list: &'a [u8],
    pub(super) count: usize,
}

impl<'a> Strings<'a> {
    /// Returns the byte strings in their order.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut list = self.list;
        std::iter::from_fn(move || {
            while !list.is_empty() {
                if let (1, Wire::Bytes(string)) = field(&mut list)? {
                    return Some(string);
                }
            }
            None
        })
    }

    /// Says whether each of them is UTF-8.
    pub(super) fn is_text(self) -> bool {
        self.iter().all(|string| std::str::from_utf8(string).is_ok())
    }
}

/// One field of a message.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed(&'a [u8]),
}

/// Splits one field off the front of a message.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        0 => Wire::Varint(varint(bytes)?),
        1 => Wire::Fixed(take(bytes, 8)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            Wire::Bytes(take(bytes, len)?)
        }
        5 => Wire::Fixed(take(bytes, 4)?),
        _ => return None,
    };
    (tag >> 3 != 0).then_some((tag >> 3, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(taken)
}

/// The undecoded value under a name of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Encoded<'a> {
    Feature(&'a [u8]),
    /// One feature for each step of a sequence.
    List(&'a [u8]),
}

/// Calls `visit` with each name of a record, and the value under it.
pub(super) fn features<'a>(
    mut record: &'a [u8],
    mut visit: impl FnMut(&'a [u8], Encoded<'a>) -> Option<()>,
) -> Option<()> {
    while !record.is_empty() {
        match field(&mut record)? {
            (1, Wire::Bytes(map)) => entries(map, |name, value| visit(name, Encoded::Feature(value)))?,
            (2, Wire::Bytes(map)) => entries(map, |name, value| visit(name, Encoded::List(value)))?,
            _ => {}
        }
    }
    Some(())
}

/// Calls `visit` with the names and values of a map.
fn entries<'a>(mut map: &'a [u8], mut visit: impl FnMut(&'a [u8], &'a [u8]) -> Option<()>) -> Option<()> {
    while !map.is_empty() {
        let (1, Wire::Bytes(mut entry)) = field(&mut map)? else { continue };
        let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
        while !entry.is_empty() {
            match field(&mut entry)? {
                (1, Wire::Bytes(b)) => name = b,
                (2, Wire::Bytes(b)) => value = b,
                _ => {}
            }
        }
        visit(name, value)?;
    }
    Some(())
}

/// The steps of a feature list, with their numbers or byte strings concatenated.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    pub(super) what: What,
    pub(super) bytes: Vec<u8>,
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) count: usize,
    /// The fewest and the most values of a step.
    pub(super) least: usize,
    pub(super) most: usize,
}

/// The type of the steps of a feature list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Nothing,
    Numbers(DType),
    Bytes,
    Mixed,
}

impl What {
    /// Returns the common type of both.
    pub(super) fn meet(self, other: Self) -> Self {
        match (self, other) {
            (What::Nothing, what) | (what, What::Nothing) => what,
            (a, b) if a == b => a,
            _ => What::Mixed,
        }
    }
}

/// Decodes a feature list.
pub(super) fn steps(mut list: &[u8]) -> Option<Steps<'_>> {
    let (bytes, strings) = (Vec::new(), Vec::new());
    let mut steps = Steps { what: What::Nothing, bytes, strings, count: 0, least: usize::MAX, most: 0 };
    while !list.is_empty() {
        let (1, Wire::Bytes(feature)) = field(&mut list)? else { continue };
        let value = value(feature)?;
        let (what, values) = value.as_ref().map_or((What::Nothing, 0), Value::what);
        match &value {
            None => {}
            Some(Value::Bytes(strings)) => steps.strings.extend(strings.iter()),
            Some(Value::Floats(bytes)) => steps.bytes.extend_from_slice(bytes),
            Some(Value::Ints(bytes)) => steps.bytes.extend_from_slice(bytes),
        }
        steps.what = steps.what.meet(what);
        steps.count += 1;
        (steps.least, steps.most) = (steps.least.min(values), steps.most.max(values));
    }
    Some(steps)
}

/// Decodes one feature; `Some(None)` is a feature without any value.
pub(super) fn value(mut feature: &[u8]) -> Option<Option<Value<'_>>> {
    let mut value = None;
    while !feature.is_empty() {
        let (kind, Wire::Bytes(list)) = field(&mut feature)? else { continue };
        value = match kind {
            1 => Some(Value::Bytes(strings(list)?)),
            2 => Some(Value::Floats(floats(list)?)),
            3 => Some(Value::Ints(ints(list)?)),
            _ => value,
        };
    }
    Some(value)
}

fn strings(list: &[u8]) -> Option<Strings<'_>> {
    let (mut rest, mut count) = (list, 0);
    while !rest.is_empty() {
        count += usize::from(matches!(field(&mut rest)?, (1, Wire::Bytes(_))));
    }
    Some(Strings { list, count })
}

fn floats(mut list: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut values = Cow::Borrowed(&[][..]);
    while !list.is_empty() {
        match field(&mut list)? {
            (1, Wire::Bytes(packed)) if packed.len() % 4 == 0 && values.is_empty() => values = packed.into(),
            (1, Wire::Bytes(packed)) if packed.len() % 4 == 0 => values.to_mut().extend_from_slice(packed),
            (1, Wire::Fixed(one)) if one.len() == 4 => values.to_mut().extend_from_slice(one),
            (1, _) => return None,
            _ => {}
        }
    }
    Some(values)
}

fn ints(mut list: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    while !list.is_empty() {
        match field(&mut list)? {
            (1, Wire::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    values.extend_from_slice(&varint(&mut packed)?.to_le_bytes());
                }
            }
            (1, Wire::Varint(one)) => values.extend_from_slice(&one.to_le_bytes()),
            (1, _) => return None,
            _ => {}
        }
    }
    Some(values)
}

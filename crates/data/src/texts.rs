//! Columns whose rows are lists of texts: tags, captions, the words of a sentence. This module makes and reads them, and
//! has the form of one row as bytes, for caches and parsers.
//!
//! A text inside a list may be missing, as a whole list may be: writers of files allow both.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeListArray, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_core::{Error, Result};

use crate::schema::text_item;

/// The bytes before each text of a row's bytes: its length.
const LENGTH_BYTES: usize = 4;
/// The length of a text that is missing.
const MISSING: u32 = u32::MAX;

/// The lists of a column. Shares the column's memory.
#[derive(Debug, Clone)]
pub struct TextLists {
    lists: LargeListArray,
    texts: LargeStringArray,
}

impl TextLists {
    /// Reads a column.
    ///
    /// # Errors
    /// Internal when it holds no lists of texts.
    pub fn of(column: &ArrayRef) -> Result<Self> {
        let wrong = || Error::internal(format!("a column of {} holds no lists of texts", column.data_type()));
        let lists = column.as_list_opt::<i64>().ok_or_else(wrong)?;
        let texts = lists.values().as_string_opt::<i64>().ok_or_else(wrong)?;
        Ok(Self { lists: lists.clone(), texts: texts.clone() })
    }

    /// Makes a column of all texts, the end of each list, and the lists that are there.
    ///
    /// # Errors
    /// Internal when an end is before the one before it or past the texts.
    pub fn column(texts: LargeStringArray, ends: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from([vec![0], ends].concat()));
        let lists = LargeListArray::try_new(text_item(), offsets, Arc::new(texts), nulls);
        Ok(Arc::new(lists.map_err(crate::chunk::arrow)?))
    }

    /// Makes a column of lists of texts; `None` is missing.
    ///
    /// # Errors
    /// Errors of [`TextLists::column`].
    pub fn collect<S: AsRef<str>>(lists: impl IntoIterator<Item = Option<Vec<Option<S>>>>) -> Result<ArrayRef> {
        let (mut texts, mut ends, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for list in lists {
            there.push(list.is_some());
            texts.extend(list.into_iter().flatten());
            ends.push(texts.len() as i64);
        }
        let nulls = there.contains(&false).then(|| NullBuffer::from(there));
        Self::column(texts.into_iter().collect(), ends, nulls)
    }

    /// Returns the number of lists.
    pub fn rows(&self) -> usize {
        self.lists.len()
    }

    /// Returns the missing lists.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.lists.nulls()
    }

    /// Returns the number of texts of a list; a missing list has none.
    pub fn len_of(&self, row: usize) -> usize {
        if self.lists.is_null(row) { 0 } else { self.lists.value_length(row) as usize }
    }

    /// Returns the texts of a list; a missing list has none.
    pub fn get(&self, row: usize) -> impl ExactSizeIterator<Item = Option<&str>> {
        let first = self.lists.value_offsets()[row] as usize;
        (first..first + self.len_of(row)).map(|at| self.text(at))
    }

    fn text(&self, at: usize) -> Option<&str> {
        self.texts.is_valid(at).then(|| self.texts.value(at))
    }

    /// Returns the text of a list at `index`, from the end if negative; `None` if the list has no such item.
    pub fn item_at(&self, row: usize, index: i64) -> Option<Option<&str>> {
        let len = self.len_of(row);
        let at = if index < 0 { (len as i64).checked_add(index)? } else { index };
        let at = usize::try_from(at).ok().filter(|at| *at < len)?;
        Some(self.text(self.lists.value_offsets()[row] as usize + at))
    }

    /// Appends a text to the bytes of a row.
    ///
    /// # Errors
    /// Data when it has 4 GiB or more.
    pub fn push(text: Option<&str>, row: &mut Vec<u8>) -> Result<()> {
        let len = text.map_or(Some(MISSING), |text| u32::try_from(text.len()).ok().filter(|len| *len != MISSING));
        let len = len.ok_or_else(|| Error::data("a text of 4 GiB or more in a list of texts"))?;
        row.extend_from_slice(&len.to_le_bytes());
        row.extend_from_slice(text.unwrap_or_default().as_bytes());
        Ok(())
    }

    /// Returns the bytes of all rows, one after another, and where each begins and ends.
    ///
    /// # Errors
    /// Errors of [`TextLists::push`].
    pub fn to_bytes(&self) -> Result<(Vec<i64>, Vec<u8>)> {
        let (mut bounds, mut bytes) = (vec![0], Vec::new());
        for row in 0..self.rows() {
            self.get(row).try_for_each(|text| Self::push(text, &mut bytes))?;
            bounds.push(bytes.len() as i64);
        }
        Ok((bounds, bytes))
    }

    /// Makes a column of the bytes of rows, in the form of [`TextLists::to_bytes`].
    ///
    /// # Errors
    /// Data when they are not of this form, or not UTF-8.
    pub fn from_bytes(bounds: &[i64], bytes: &[u8], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let broken = || Error::data("a list of texts that is damaged");
        let (mut values, mut offsets, mut ends) = (Vec::with_capacity(bytes.len()), vec![0i64], Vec::new());
        let mut there = Vec::new();
        for row in bounds.windows(2) {
            let mut rest = bytes.get(row[0] as usize..row[1] as usize).ok_or_else(broken)?;
            while !rest.is_empty() {
                let (len, after) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or_else(broken)?;
                let len = u32::from_le_bytes(*len);
                there.push(len != MISSING);
                let len = if len == MISSING { 0 } else { len as usize };
                values.extend_from_slice(after.get(..len).ok_or_else(broken)?);
                offsets.push(values.len() as i64);
                rest = &after[len..];
            }
            ends.push(offsets.len() as i64 - 1);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let missing = there.contains(&false).then(|| NullBuffer::from(there));
        let texts = LargeStringArray::try_new(offsets, Buffer::from_vec(values), missing).map_err(|_| broken())?;
        Self::column(texts, ends, nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_form_of_bytes_and_slices() {
        let rows = vec![
            Some(vec![Some("a"), Some(""), None]),
            None,
            Some(vec![]),
            Some(vec![Some("日"), Some("b"), Some("c")]),
        ];
        let column = TextLists::collect(rows.clone()).expect("valid");
        for (from, len) in [(0, 4), (1, 3), (3, 1), (2, 0)] {
            let lists = TextLists::of(&column.slice(from, len)).expect("lists of texts");
            let (bounds, bytes) = lists.to_bytes().expect("short texts");
            let again = TextLists::from_bytes(&bounds, &bytes, lists.nulls().cloned()).expect("whole");
            let again = TextLists::of(&again).expect("lists of texts");
            for (row, want) in rows[from..from + len].iter().enumerate() {
                let want = want.clone().unwrap_or_default();
                assert_eq!(lists.get(row).collect::<Vec<_>>(), want);
                assert_eq!(again.get(row).collect::<Vec<_>>(), want);
                assert_eq!(lists.item_at(row, -1), want.last().copied());
                assert_eq!(lists.item_at(row, 3), None);
            }
        }
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        for (bounds, bytes) in
            [(vec![0, 3], vec![1, 0, 0]), (vec![0, 5], vec![2, 0, 0, 0, b'a']), (vec![0, 5], vec![1, 0, 0, 0, 0xff])]
        {
            assert!(TextLists::from_bytes(&bounds, &bytes, None).is_err(), "{bytes:?}");
        }
    }
}

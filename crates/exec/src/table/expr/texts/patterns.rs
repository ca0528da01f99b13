//! Functions of texts by patterns: whether one is found, matches as texts, and replaced matches.

use std::borrow::Cow;

use arrow_array::LargeStringArray;
use forebay_core::{Error, Result};
use forebay_data::TextLists;
use forebay_plan::{Call, Replacement};
use regex::{Captures, Regex};

use super::words::{made, told};
use crate::table::expr::value::Value;

/// Computes a function of texts that has a pattern.
///
/// # Errors
/// Invalid for a pattern that [`Call::kind`] refuses; Internal for another function.
pub(super) fn call(call: &Call, texts: &LargeStringArray) -> Result<Value> {
    match call {
        Call::Match { pattern, from_start } => {
            let regex = pattern.regex()?;
            told(texts, |row| match from_start {
                // `find` returns the leftmost match, which begins at 0 if any match does.
                true => regex.find(row).is_some_and(|found| found.start() == 0),
                false => regex.is_match(row),
            })
        }
        Call::ReplacePattern { pattern, new } => {
            let (regex, new) = (pattern.regex()?, pattern.replacement(new)?);
            made(texts, |text| Some(replaced(regex, &new, text)))
        }
        Call::Extract { pattern, group } => {
            let (regex, group) = (pattern.regex()?, pattern.group("extract", group)?);
            if group == 0 {
                return made(texts, |text| regex.find(text).map(|found| found.as_str().into()));
            }
            made(texts, |text| regex.captures(text)?.get(group).map(|found| found.as_str().into()))
        }
        Call::FindAll { pattern } => {
            let regex = pattern.regex()?;
            let lists = texts.iter().map(|text| text.map(|text| matches(regex, text)));
            Ok(Value::Texts(TextLists::collect::<&str>(lists)?))
        }
        other => Err(Error::internal(format!("{other} has no pattern"))),
    }
}

/// Returns the matches in a text, or the group of each if the pattern has one; a group that took no part is empty.
fn matches<'t>(regex: &Regex, text: &'t str) -> Vec<Option<&'t str>> {
    if regex.captures_len() == 1 {
        return regex.find_iter(text).map(|found| Some(found.as_str())).collect();
    }
    regex.captures_iter(text).map(|found| Some(found.get(1).map_or("", |group| group.as_str()))).collect()
}

fn replaced<'t>(regex: &Regex, new: &Replacement, text: &'t str) -> Cow<'t, str> {
    regex.replace_all(text, |found: &Captures<'_>| {
        let mut out = String::new();
        for (before, group) in &new.parts {
            out.push_str(before);
            out.push_str(found.get(*group).map_or("", |group| group.as_str()));
        }
        out + &new.last
    })
}

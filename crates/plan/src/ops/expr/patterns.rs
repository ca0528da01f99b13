//! Patterns of texts, and the replacements of their matches. A pattern is compiled once, for all clones of its expression.
//!
//! Bounds: a compiled pattern has at most 1 MiB, and every search takes time linear in the length of a text.

use std::sync::{Arc, OnceLock};

use forebay_core::{Error, Result};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize, Serializer};

/// The most bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A pattern in the syntax of the regex crate.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
    compiled: Arc<OnceLock<Regex>>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: Arc::default() }
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl Pattern {
    /// Returns the compiled pattern.
    ///
    /// # Errors
    /// Invalid when the pattern is not valid, or takes more than 1 MiB compiled.
    pub fn regex(&self) -> Result<&Regex> {
        if let Some(regex) = self.compiled.get() {
            return Ok(regex);
        }
        self.check_classes()?;
        let regex = RegexBuilder::new(&self.text).size_limit(PATTERN_BYTES_MAX).build().map_err(|e| {
            let why = e.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Error::invalid(format!("{self} is no pattern: {why}")).hint(match self.text.contains("\\Z") {
                true => "the end of a text is \\z",
                false => {
                    "patterns are matched in linear time: look-around and back-references need a function, as in map"
                }
            })
        })?;
        Ok(self.compiled.get_or_init(|| regex))
    }

    /// Refuses letters within brackets that are operators of sets here, and letters in Python.
    fn check_classes(&self) -> Result<()> {
        let mut letters = self.text.chars().peekable();
        let mut is_class = false;
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied();
            match letter {
                '\\' => drop(letters.next()),
                '[' if !is_class => {
                    is_class = true;
                    // A bracket that comes first is a letter of the class.
                    letters.next_if_eq(&'^');
                    letters.next_if_eq(&']');
                }
                ']' => is_class = false,
                '[' if next != Some(':') => return Err(self.in_class("[")),
                '&' | '~' | '-' if is_class && next == Some(letter) => {
                    return Err(self.in_class(&format!("{letter}{letter}")));
                }
                '[' => drop(letters.by_ref().find(|letter| *letter == ']')),
                _ => {}
            }
        }
        Ok(())
    }

    fn in_class(&self, operator: &str) -> Error {
        let escaped: String = operator.chars().flat_map(|letter| ['\\', letter]).collect();
        Error::invalid(format!("{self} is no pattern: {operator} within brackets would be an operator of sets"))
            .hint(format!("write {escaped} for the letters"))
    }

    /// Returns the number of a group.
    ///
    /// # Errors
    /// Invalid when the pattern is not valid, or has no such group.
    pub fn group(&self, name: &str, group: &Group) -> Result<usize> {
        let regex = self.regex()?;
        let found = match group {
            Group::Number(number) => Some(*number).filter(|number| *number < regex.captures_len()),
            Group::Name(name) => regex.capture_names().position(|own| own == Some(name)),
        };
        found.ok_or_else(|| {
            let groups = regex.captures_len() - 1;
            Error::invalid(format!("{name}: {self} has no group {group}, but {groups} groups"))
                .hint("a group is in parentheses, as (\\d+) or (?P<year>\\d+); group=0 is the whole match")
        })
    }

    /// Returns the replacement of a match, from the form of Python's `re.sub`: `\1`, `\g<1>` and `\g<name>` are groups.
    ///
    /// # Errors
    /// Invalid when the pattern is not valid, or the replacement names no group of it.
    pub fn replacement(&self, new: &str) -> Result<Replacement> {
        self.regex()?;
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = new.chars().peekable();
        while let Some(next) = rest.next() {
            let group = match (next, rest.peek().copied()) {
                ('$', Some('0'..='9' | '{')) => {
                    return Err(Error::invalid(format!("replace: {new:?} has a group in another form"))
                        .hint("write \\1 for group 1, \\g<name> for a named one, and \\$ for the dollar sign"));
                }
                ('\\', Some('\\' | '$' | 'n' | 't' | 'r')) => {
                    let escaped = rest.next();
                    text.push(escaped.map_or('\\', |c| match c {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    }));
                    continue;
                }
                ('\\', Some('g')) => {
                    rest.next();
                    let mut name = String::new();
                    let mut ends_name = |letter: char| {
                        name.extend((letter != '>').then_some(letter));
                        letter == '>'
                    };
                    if rest.next() != Some('<') || !rest.any(&mut ends_name) || name.is_empty() {
                        return Err(self.escape(new, "\\g"));
                    }
                    name.parse().map_or(Group::Name(name), Group::Number)
                }
                ('\\', Some(digit @ '1'..='9')) => {
                    rest.next();
                    let second = rest.next_if(char::is_ascii_digit);
                    let number = [Some(digit), second].into_iter().flatten().filter_map(|c| c.to_digit(10));
                    Group::Number(number.fold(0, |number, digit| number * 10 + digit as usize))
                }
                ('\\', Some(letter)) if letter.is_ascii_alphanumeric() => {
                    return Err(self.escape(new, &format!("\\{letter}")));
                }
                ('\\', None) => return Err(self.escape(new, "\\")),
                (other, _) => {
                    text.push(other);
                    continue;
                }
            };
            parts.push((std::mem::take(&mut text), self.group("replace", &group)?));
        }
        Ok(Replacement { parts, last: text })
    }

    fn escape(&self, new: &str, escape: &str) -> Error {
        Error::invalid(format!("replace: {new:?} has {escape}, which stands for nothing"))
            .hint("groups are \\1, \\g<1> and \\g<name>; a backslash is \\\\")
    }
}

/// A group of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Group {
    /// By its number; 0 is the whole match.
    Number(usize),
    /// By its name.
    Name(String),
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Group::Number(number) => write!(f, "{number}"),
            Group::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// The replacement of a match: texts, each before a group of the match, and a last text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Texts, each with the number of the group behind it.
    pub parts: Vec<(String, usize)>,
    /// The text behind the last group.
    pub last: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_those_of_pythons_sub() {
        let pattern = Pattern::from("(a)(?P<b>b)".to_owned());
        let made = pattern.replacement("<\\2\\g<1>\\\\\\g<b>$\\$5>\\n").expect("groups that are there");
        let parts = [("<", 2), ("", 1), ("\\", 2)].map(|(text, group)| (text.to_owned(), group));
        assert_eq!(made, Replacement { parts: parts.into(), last: "$$5>\n".to_owned() });
        for wrong in ["\\3", "\\g<c>", "\\g<", "\\gb", "\\d", "\\", "$1", "${b}", "\\g<>", "\\g<1", "\\12"] {
            assert!(pattern.replacement(wrong).is_err(), "{wrong}");
        }
    }
}

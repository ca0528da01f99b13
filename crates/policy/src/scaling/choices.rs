//! The table of a service's policies, and a policy that a user has chosen by name.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Error, Result};

use super::policy::{Choice, ScalingPolicy};
use super::{fixed, forebay};

/// The policies of a service.
pub const CHOICES: &[Choice] = &[forebay::CHOICE, fixed::CHOICE];

/// A chosen policy: its name as the user wrote it, and its state for a job that begins. Default: `forebay`.
#[derive(Debug, Clone)]
pub struct Policy {
    name: String,
    initial: Box<dyn ScalingPolicy>,
}

impl Policy {
    /// Makes a policy that need not be in a table of choices.
    pub fn new(name: impl Into<String>, initial: Box<dyn ScalingPolicy>) -> Self {
        Self { name: name.into(), initial }
    }

    /// Makes `static:N`: this number of workers, always.
    pub fn fixed(workers: u32) -> Self {
        Self::new(format!("static:{workers}"), Box::new(fixed::Fixed { workers }))
    }

    /// Finds a policy by its name.
    ///
    /// # Errors
    /// Invalid, with all usages, if none of the tables has it.
    pub fn parse(text: &str, tables: &[&[Choice]]) -> Result<Self> {
        let choices = || tables.iter().copied().flatten();
        let found = choices().find_map(|choice| (choice.parse)(text));
        found.map(|initial| Self::new(text, initial)).ok_or_else(|| {
            let usages: Vec<_> = choices().map(|choice| choice.usage).collect();
            Error::invalid(format!("{text:?} is no policy")).hint(format!("use {}", usages.join(", or ")))
        })
    }

    /// Returns the policy for a job that begins.
    pub fn start(&self) -> Box<dyn ScalingPolicy> {
        self.initial.boxed()
    }

    /// Returns the policy for a job that begins, to ask for its properties.
    pub fn initial(&self) -> &dyn ScalingPolicy {
        &*self.initial
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new("forebay", Box::new(forebay::Previous::default()))
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, &[CHOICES])
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for name in ["forebay", "static:7"] {
            assert_eq!(name.parse::<Policy>().expect("a policy").to_string(), name);
        }
        assert_eq!(Policy::fixed(7), "static:7".parse().expect("a policy"));
        for name in ["", "static", "static:", "static:0", "static:-1", "static:x", "cachew", "Forebay"] {
            let error = name.parse::<Policy>().expect_err("refused").to_string();
            assert!(error.contains("use forebay, or static:N with N from 1 on"), "{error}");
        }
    }
}

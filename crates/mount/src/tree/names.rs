//! The sources of a command line: `SOURCE`, or `NAME=SOURCE` for each of several.

use std::collections::HashSet;

use forebay_core::{Error, Result};

/// A source, and its folder in the mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSource {
    /// Name of its folder; empty if the source is the root of the mount.
    pub name: String,
    /// Its path or URL.
    pub source: String,
}

impl NamedSource {
    /// Parses the sources of a command line. A single source without a name is the root; each of several needs a name.
    ///
    /// # Errors
    /// Invalid without a source, for an impossible or repeated folder name, and for a source without a name beside
    /// others.
    pub fn parse(texts: &[String]) -> Result<Vec<Self>> {
        let sources: Vec<Self> = texts.iter().map(|text| Self::one(text)).collect();
        let mut names = HashSet::new();
        for Self { name, source } in &sources {
            if name.is_empty() && sources.len() > 1 {
                return Err(Error::invalid("each of several sources needs a name")
                    .with("source", source)
                    .hint(format!("name its folder in the mount: NAME={source}")));
            }
            if source.is_empty() {
                return Err(Error::invalid("a source is empty").hint("name a folder, or a url: s3://bucket/prefix"));
            }
            if name == "." || name == ".." {
                return Err(Error::invalid(format!("no folder can be called {name:?}")).with("source", source));
            }
            if !names.insert(name) {
                return Err(Error::invalid(format!("two sources are called {name:?}")).with("source", source));
            }
        }
        if sources.is_empty() { Err(Error::invalid("no source is named")) } else { Ok(sources) }
    }

    /// A name has no slash, so an `=` after a slash belongs to the path or URL.
    fn one(text: &str) -> Self {
        match text.split_once('=') {
            Some((name, source)) if !name.is_empty() && !name.contains('/') => {
                Self { name: name.to_owned(), source: source.to_owned() }
            }
            _ => Self { name: String::new(), source: text.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sources_are_told_apart() {
        let parse = |texts: &[&str]| NamedSource::parse(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        let named = |name: &str, source: &str| NamedSource { name: name.to_owned(), source: source.to_owned() };
        assert_eq!(parse(&["s3://b/year=2024"]), Ok(vec![named("", "s3://b/year=2024")]));
        assert_eq!(parse(&["a=s3://b/x=1", "b=/data"]), Ok(vec![named("a", "s3://b/x=1"), named("b", "/data")]));
        for (texts, wrong) in [
            (&["s3://b", "a=/data"][..], "needs a name"),
            (&["a=/x", "a=/y"], "two sources are called"),
            (&["..=/x"], "no folder can be called"),
            (&["a="], "a source is empty"),
            (&[], "no source"),
        ] {
            assert!(parse(texts).expect_err(wrong).message().contains(wrong), "{texts:?}");
        }
    }
}

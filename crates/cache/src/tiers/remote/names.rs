//! The names of objects. The name of a block has its version and its prefix, so that other objects are ignored.

use crate::FORMAT;
use crate::key::PrefixKey;
use crate::tiers::block::name::{Kind, Name};

const MARK: &str = "used";

/// Returns the name of the object whose age is the time since a prefix was last used.
pub(crate) fn mark_of(prefix: PrefixKey) -> String {
    format!("{FORMAT}/{prefix}/{MARK}")
}

/// Parses the name of [`mark_of`].
pub(crate) fn parse_mark(name: &str) -> Option<PrefixKey> {
    let (format, rest) = name.split_once('/')?;
    let (prefix, mark) = rest.split_once('/')?;
    PrefixKey::parse(prefix).ok().filter(|_| format == FORMAT.to_string() && mark == MARK)
}

/// Parses the name of a block. `None` for a name of another form or version.
pub(crate) fn parse_name(name: &str) -> Option<Name> {
    let (format, rest) = name.split_once('/')?;
    let (prefix, file) = rest.split_once('/')?;
    let prefix = PrefixKey::parse(prefix).ok().filter(|_| format == FORMAT.to_string())?;
    let name = file.strip_suffix(".arrow").filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(Name { kind: Kind::Rows, prefix, name: name.to_owned() })
}

/// Returns the name of a block's object.
pub(crate) fn object_of(name: &Name) -> String {
    format!("{FORMAT}/{}/{}.arrow", name.prefix, name.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_no_others_do() {
        let name = Name { kind: Kind::Rows, prefix: PrefixKey([7; 32]), name: "0a1b".to_owned() };
        assert_eq!(parse_name(&object_of(&name)), Some(name.clone()));
        let prefix = name.prefix;
        for other in [
            format!("{FORMAT}/{prefix}/used"),
            format!("{FORMAT}/{prefix}/.arrow"),
            format!("{FORMAT}/{prefix}/a/b.arrow"),
            format!("9/{prefix}/a.arrow"),
            format!("{FORMAT}/no prefix/a.arrow"),
            "a.arrow".to_owned(),
        ] {
            assert_eq!(parse_name(&other), None, "{other}");
        }
    }
}

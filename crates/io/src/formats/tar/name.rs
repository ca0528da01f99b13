//! Splits the name of a member into key and extension.

/// Splits a name into key and extension, if it is part of a sample.
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    let last = name.rfind('/').map_or(0, |i| i + 1);
    let dot = last + name[last..].find('.').filter(|&d| d > 0)?;
    Some((&name[..dot], &name[dot + 1..]))
}

//! Braces in paths: `{0000..1023}` (with zero padding, as the shell), `{a..e}` and `{x,y}`, nested or side by side.

use forebay_core::{Error, Result};

/// The most paths that one pattern may expand to.
const PATHS_MAX: usize = 1 << 24;
/// The deepest nesting of braces.
const DEPTH_MAX: usize = 8;

/// Returns every path that `pattern` expands to, in order. Braces that are neither a list nor a range stay as they are.
///
/// # Errors
/// Invalid when there are more than 2^24 paths or braces nest deeper than 8.
pub(crate) fn expand(pattern: &str) -> Result<Vec<String>> {
    nested(pattern, 0)
}

fn nested(pattern: &str, depth: usize) -> Result<Vec<String>> {
    if depth > DEPTH_MAX {
        return Err(Error::invalid(format!("braces nest deeper than {DEPTH_MAX}")).with("pattern", pattern));
    }
    let mut paths = vec![String::new()];
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let Some((close, commas)) = group(&rest[open..]) else { break };
        let inside = &rest[open + 1..open + close];
        let before = &rest[..open];
        let alternatives = if commas.is_empty() {
            range(inside, pattern)?.unwrap_or_else(|| vec![format!("{{{inside}}}")])
        } else {
            let mut parts = Vec::new();
            let mut from = 0;
            for end in commas.into_iter().map(|c| c - 1).chain([inside.len()]) {
                parts.extend(nested(&inside[from..end], depth + 1)?);
                from = end + 1;
            }
            parts
        };
        if paths.len().saturating_mul(alternatives.len()) > PATHS_MAX {
            return Err(too_many(pattern));
        }
        paths = paths.iter().flat_map(|p| alternatives.iter().map(move |a| format!("{p}{before}{a}"))).collect();
        rest = &rest[open + close + 1..];
    }
    paths.iter_mut().for_each(|p| p.push_str(rest));
    Ok(paths)
}

fn too_many(pattern: &str) -> Error {
    Error::invalid(format!("a pattern stands for more than {PATHS_MAX} paths")).with("pattern", pattern)
}

/// Returns the end of the group that begins `text`, and its own commas.
fn group(text: &str) -> Option<(usize, Vec<usize>)> {
    let (mut depth, mut commas) = (0, Vec::new());
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some((i, commas)),
            b'}' => depth -= 1,
            b',' if depth == 1 => commas.push(i),
            _ => {}
        }
    }
    None
}

/// Expands `a..b`.
fn range(text: &str, pattern: &str) -> Result<Option<Vec<String>>> {
    let Some((a, b)) = text.split_once("..") else { return Ok(None) };
    if let ([a @ b'a'..=b'z', ..], [b @ b'a'..=b'z', ..]) | ([a @ b'A'..=b'Z', ..], [b @ b'A'..=b'Z', ..]) =
        (a.as_bytes(), b.as_bytes())
        && text.len() == 4
    {
        let letters = |i: u8, j: u8| (i..=j).map(|c| char::from(c).to_string());
        return Ok(Some(if a <= b { letters(*a, *b).collect() } else { letters(*b, *a).rev().collect() }));
    }
    let number = |s: &str| s.bytes().all(|c| c.is_ascii_digit()).then(|| s.parse::<u64>().ok()).flatten();
    let (Some(first), Some(last)) = (number(a), number(b)) else { return Ok(None) };
    if first.abs_diff(last) >= PATHS_MAX as u64 {
        return Err(too_many(pattern));
    }
    let padded = |s: &str| s.len() > 1 && s.starts_with('0');
    let width = if padded(a) || padded(b) { a.len().max(b.len()) } else { 0 };
    let write = |n: u64| format!("{n:0width$}");
    Ok(Some(if first <= last {
        (first..=last).map(write).collect()
    } else {
        (last..=first).rev().map(write).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> String {
        expand(pattern).expect("valid").join(" ")
    }

    #[test]
    fn braces_expand_as_in_the_shell() {
        assert_eq!(of("t-{008..011}.tar"), "t-008.tar t-009.tar t-010.tar t-011.tar");
        assert_eq!(of("{9..11}"), "9 10 11");
        assert_eq!(of("{3..1}"), "3 2 1");
        assert_eq!(of("{a,b{1..2}}/{x,y}"), "a/x a/y b1/x b1/y b2/x b2/y");
        assert_eq!(of("{a..c}"), "a b c");
        assert_eq!(of("a{}b{c}d{e"), "a{}b{c}d{e");
        assert_eq!(of("{,x}"), " x");
    }

    #[test]
    fn what_would_not_fit_is_refused_before_it_is_made() {
        let deep = format!("{}{}", "{a,".repeat(20), "}".repeat(20));
        for pattern in ["{0..99999999999}", "{0..9999}{0..9999}", &deep] {
            assert!(expand(pattern).is_err(), "{pattern}");
        }
    }

    proptest::proptest! {
        #[test]
        fn expansion_never_panics_and_padding_keeps_the_width(text in "[{},.a0-9]{0,24}", a in 0u64..2000, n in 0u64..50) {
            let _ = expand(&text);
            let b = a + n;
            let paths = expand(&format!("{{{a:05}..{b:05}}}")).expect("valid");
            proptest::prop_assert_eq!(paths, (a..=b).map(|i| format!("{i:05}")).collect::<Vec<_>>());
        }
    }
}

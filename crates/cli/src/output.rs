//! Data on stdout: tables as text, or JSON.

use std::io::Write;

use forebay_core::{Error, Result};
use serde::Serialize;

/// Prints a line.
///
/// # Errors
/// Those of writing; a closed pipe (`| head`) is not an error.
pub(crate) fn line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`line`].
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value).map_err(|e| Error::internal(e.to_string()))?)
}

/// Prints rows under their headings, columns aligned.
///
/// # Errors
/// As [`line`].
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Result<()> {
    line(&layout(headings, rows))
}

/// Returns a text without control characters, because a terminal runs escape sequences, and without characters that
/// reverse the direction of text. A middle dot replaces each of them.
pub(crate) fn harmless(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { '·' } else { c }).collect()
}

/// Formats a number of bytes in binary units.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(power, _)| bytes >> power > 0) {
        Some((power, unit)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << power) as f64),
        None => format!("{bytes} B"),
    }
}

fn layout<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).chain([headings[i].len()]).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let show = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| show(std::array::from_fn(|i| row[i].as_str())));
    std::iter::once(show(headings)).chain(body).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        assert_eq!([0, 1023, 1536, 5 << 40].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(harmless("a\u{1b}[31mb\u{9b}c\r\n\u{202e}d é 日本"), "a·[31mb·c···d é 日本");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let table = layout(["NAME", "N"], &[row("résumé", "1"), row("x", "100")]);
        assert_eq!(table, "NAME    N\nrésumé  1\nx       100");
    }
}

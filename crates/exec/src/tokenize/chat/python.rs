//! Values and dates as Python writes them: `json.dumps`, and `strftime` of a fixed date.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::methods::TEXT_MAX;

/// The most levels of nested lists and objects in JSON that a template writes.
const DEPTH_MAX: usize = 128;

/// The arguments of `json.dumps` that the filter `tojson` has.
struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sorted: bool,
}

/// The filter `tojson` of Hugging Face's chat templates, which escapes no HTML.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        Some(indent) if indent.as_str().is_some() => indent.as_str().map(str::to_owned),
        Some(indent) if !indent.is_none() && !indent.is_undefined() => {
            Some(" ".repeat(usize::try_from(indent)?.min(DEPTH_MAX)))
        }
        _ => None,
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators= has two texts")),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut json = String::new();
    Style { ascii, indent, item, key, sorted }.write(value, 0, &mut json)?;
    Ok(Value::from(json))
}

impl Style {
    fn write(&self, value: &Value, depth: usize, to: &mut String) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: the value is nested too deeply"));
        }
        // A template may put one text into a list many times.
        if to.len() > TEXT_MAX {
            return Err(Error::from(ErrorKind::OutOfFuel));
        }
        match value.kind() {
            ValueKind::None => to.push_str("null"),
            ValueKind::Bool => to.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => to.push_str(&number(value)?),
            ValueKind::String => self.text(value.as_str().unwrap_or_default(), to),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.items(('{', '}'), depth, keys.into_iter(), to, |key, to| {
                    match key.as_str() {
                        Some(key) => self.text(key, to),
                        None => self.text(&key.to_string(), to),
                    }
                    to.push_str(&self.key);
                    self.write(&value.get_item(&key)?, depth + 1, to)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.items(('[', ']'), depth, value.try_iter()?, to, |item, to| self.write(&item, depth + 1, to))?;
            }
            other => {
                let message = format!("tojson: a value of type {other} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn items(
        &self,
        around: (char, char),
        depth: usize,
        items: impl Iterator<Item = Value>,
        to: &mut String,
        mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        to.push(around.0);
        let mut any = false;
        for item in items {
            if any {
                to.push_str(&self.item);
            }
            any = true;
            self.line(depth + 1, to);
            write(item, to)?;
        }
        if any {
            self.line(depth, to);
        }
        to.push(around.1);
        Ok(())
    }

    fn line(&self, depth: usize, to: &mut String) {
        if let Some(indent) = &self.indent {
            to.push('\n');
            (0..depth).for_each(|_| to.push_str(indent));
        }
    }

    fn text(&self, text: &str, to: &mut String) {
        to.push('"');
        for char in text.chars() {
            match char {
                '"' => to.push_str("\\\""),
                '\\' => to.push_str("\\\\"),
                '\n' => to.push_str("\\n"),
                '\r' => to.push_str("\\r"),
                '\t' => to.push_str("\\t"),
                '\u{8}' => to.push_str("\\b"),
                '\u{c}' => to.push_str("\\f"),
                c if c < ' ' || (self.ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(to, "\\u{unit:04x}");
                    }
                }
                c => to.push(c),
            }
        }
        to.push('"');
    }
}

/// Returns a number as Python's `repr` writes it.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let number = f64::try_from(value.clone())?;
    Ok(if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number < 0.0 { "-Infinity" } else { "Infinity" }.to_owned()
    } else {
        float(number)
    })
}

/// Returns a finite float as Python's `repr` writes it: the shortest digits, with an exponent for very large and very
/// small ones.
pub(super) fn float(number: f64) -> String {
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// A day of the calendar, which a pipeline names instead of reading a clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    year: i64,
    month: usize,
    day: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Day {
    /// Reads `YYYY-MM-DD`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let in_year = (1..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1;
        let date = Self { year, month: usize::try_from(month).ok()?, day };
        (in_year && text.len() == 10 && day <= date.days_of_month()).then_some(date)
    }

    fn is_leap(self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    fn days_of_month(self) -> i64 {
        match self.month {
            2 => 28 + i64::from(self.is_leap()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Returns the days of the year before it.
    fn before(self) -> i64 {
        (1..self.month).map(|month| Self { month, ..self }.days_of_month()).sum::<i64>() + self.day - 1
    }

    /// Returns its place in the week, from Monday.
    fn weekday(self) -> usize {
        let years = self.year - 1;
        ((years * 365 + years / 4 - years / 100 + years / 400 + self.before()) % 7) as usize
    }

    /// Formats the day's first moment as Python's `strftime` does.
    ///
    /// # Errors
    /// InvalidOperation for a directive that is not known here.
    pub(super) fn strftime(self, format: &str) -> Result<String, Error> {
        let (month, weekday) = (MONTHS[self.month - 1], WEEKDAYS[self.weekday()]);
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(char) = chars.next() {
            if char != '%' {
                text.push(char);
                continue;
            }
            let directive = chars.next();
            let plain = directive == Some('-');
            let directive = if plain { chars.next() } else { directive };
            let mut number = |n: i64, width: usize| {
                let _ = if plain { write!(text, "{n}") } else { write!(text, "{n:0width$}") };
            };
            match directive {
                Some('Y') => number(self.year, 4),
                Some('y') => number(self.year % 100, 2),
                Some('m') => number(self.month as i64, 2),
                Some('d') => number(self.day, 2),
                Some('j') => number(self.before() + 1, 3),
                Some('H' | 'M' | 'S') => number(0, 2),
                Some('I') => number(12, 2),
                Some('p') => text.push_str("AM"),
                Some('B') => text.push_str(month),
                Some('b') => text.push_str(&month[..3]),
                Some('A') => text.push_str(weekday),
                Some('a') => text.push_str(&weekday[..3]),
                Some('F') => {
                    let _ = write!(text, "{:04}-{:02}-{:02}", self.year, self.month, self.day);
                }
                Some('%') => text.push('%'),
                other => {
                    let named = other.map_or(String::new(), String::from);
                    let message = format!("strftime_now: the directive %{named} is not known");
                    return Err(Error::new(ErrorKind::InvalidOperation, message));
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let day = |text| Day::parse(text).expect("a day");
        assert_eq!(
            day("2024-07-26").strftime("%A %d %b %Y, %B %-m, %j, %F %H:%M").expect("known"),
            "Friday 26 Jul 2024, July 7, 208, 2024-07-26 00:00"
        );
        assert_eq!(day("2000-02-29").strftime("%a %y").expect("known"), "Tue 00");
        assert_eq!(day("1999-12-31").strftime("%a %j").expect("known"), "Fri 365");
        assert!(day("2024-07-26").strftime("%Q").is_err());
        for wrong in ["2023-02-29", "2024-13-01", "2024-7-26", "now", "2024-07-00", ""] {
            assert!(Day::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn floats_are_written_as_by_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
        ];
        for (number, want) in cases {
            assert_eq!(float(number), want);
        }
    }
}

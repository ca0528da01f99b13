//! Formats of times, as Python's `strptime` and `strftime` have them: `%d/%m/%Y %H:%M`. Names are English.

use forebay_core::{Error, Result};

/// The most bytes of a format.
const FORMAT_BYTES_MAX: usize = 1024;

/// The names of months.
pub const MONTHS: [&str; 12] = [
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
/// The names of the days of a week.
pub const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeItem {
    /// A character that stands for itself.
    Literal(char),
    /// White space; any white space when a text is read.
    Space(String),
    /// `%Y`: the year, in four digits.
    Year,
    /// `%y`: the year in two digits; 69 to 99 are before 2000.
    YearOfCentury,
    /// `%m`: the month.
    Month,
    /// `%B`, or with `short` `%b`: the name of the month.
    MonthName {
        /// Whether it has three letters.
        short: bool,
    },
    /// `%d`: the day of the month.
    Day,
    /// `%j`: the day of the year.
    OrdinalDay,
    /// `%A`, or with `short` `%a`: the name of the day.
    WeekdayName {
        /// Whether it has three letters.
        short: bool,
    },
    /// `%H`: the hour, from 0 to 23.
    Hour,
    /// `%I`: the hour, from 1 to 12.
    Hour12,
    /// `%p`: AM or PM.
    AmPm,
    /// `%M`: the minute.
    Minute,
    /// `%S`: the second.
    Second,
    /// `%f`: the fraction of the second; microseconds when a time is written.
    Fraction,
    /// `%z`: the offset from UTC.
    Offset,
    /// `%Z`: UTC by its name.
    Zone,
}

/// Returns the parts of a format.
///
/// # Errors
/// Invalid for a letter behind `%` that stands for nothing here, and for a format of more than 1,024 bytes.
pub fn time_items(function: &str, format: &str) -> Result<Vec<TimeItem>> {
    if format.len() > FORMAT_BYTES_MAX {
        return Err(Error::invalid(format!("{function}: a format of {} bytes", format.len()))
            .hint(format!("write at most {FORMAT_BYTES_MAX}")));
    }
    let mut items = Vec::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            match items.last_mut() {
                Some(TimeItem::Space(space)) => space.push(letter),
                _ => items.push(TimeItem::Space(letter.to_string())),
            }
            continue;
        }
        if letter != '%' {
            items.push(TimeItem::Literal(letter));
            continue;
        }
        let directive = letters.next();
        items.push(match directive {
            Some('%') => TimeItem::Literal('%'),
            Some('Y') => TimeItem::Year,
            Some('y') => TimeItem::YearOfCentury,
            Some('m') => TimeItem::Month,
            Some('B') => TimeItem::MonthName { short: false },
            Some('b' | 'h') => TimeItem::MonthName { short: true },
            Some('d') => TimeItem::Day,
            Some('j') => TimeItem::OrdinalDay,
            Some('A') => TimeItem::WeekdayName { short: false },
            Some('a') => TimeItem::WeekdayName { short: true },
            Some('H') => TimeItem::Hour,
            Some('I') => TimeItem::Hour12,
            Some('p') => TimeItem::AmPm,
            Some('M') => TimeItem::Minute,
            Some('S') => TimeItem::Second,
            Some('f') => TimeItem::Fraction,
            Some('z') => TimeItem::Offset,
            Some('Z') => TimeItem::Zone,
            other => {
                let what = other.map_or("%".to_owned(), |letter| format!("%{letter}"));
                let short = match other {
                    Some('F') => "; write %Y-%m-%d",
                    Some('T') => "; write %H:%M:%S",
                    Some('R') => "; write %H:%M",
                    Some('D') => "; write %m/%d/%y",
                    Some('e') => "; write %d, which reads one digit, too",
                    _ => "",
                };
                return Err(Error::invalid(format!("{function}: {format:?} has {what}, which stands for nothing"))
                    .hint(format!("use %Y %y %m %b %B %d %j %a %A %H %I %p %M %S %f %z %Z %%{short}")));
            }
        });
    }
    Ok(items)
}

/// Checks that texts in a format tell a day, and none of its parts twice.
///
/// # Errors
/// Invalid as [`time_items`]; and without a year, with a day and no month, with a part twice, or with both numbers of an
/// hour.
pub(in crate::ops::expr) fn check_read_format(format: &str) -> Result<()> {
    let items = time_items("to_time", format)?;
    let wrong = |why: &str, hint: &str| Err(Error::invalid(format!("to_time: {format:?} {why}")).hint(hint.to_owned()));
    let count = |any: &[TimeItem]| items.iter().filter(|item| any.contains(item)).count();
    use TimeItem::{
        AmPm, Day, Fraction, Hour, Hour12, Minute, Month, MonthName, Offset, OrdinalDay, Second, Year, YearOfCentury,
    };
    let month = [Month, MonthName { short: true }, MonthName { short: false }];
    let groups: [&[TimeItem]; 10] = [
        &[Year, YearOfCentury],
        &month,
        &[Day],
        &[OrdinalDay],
        &[Hour, Hour12],
        &[AmPm],
        &[Minute],
        &[Second],
        &[Fraction],
        &[Offset],
    ];
    if groups.iter().any(|group| count(group) > 1) {
        return wrong("has a part of a time twice", "leave one of them out");
    }
    if count(&[Year, YearOfCentury]) == 0 {
        return wrong("has no year", "a time is a day and an hour: write %Y-%m-%d");
    }
    match (count(&month), count(&[Day]), count(&[OrdinalDay])) {
        (0, 1, _) => wrong("has a day and no month", "write %m, or %j for the day of the year"),
        (1, _, 1) | (_, 1, 1) => wrong("has the day of the year and of the month", "leave one of them out"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_tell_no_day_are_refused() {
        for good in ["%Y", "%Y-%m", "%d %B %y", "%Y%j", "%a, %d %b %Y %H:%M:%S GMT", "%Y %% %m"] {
            assert_eq!(check_read_format(good), Ok(()), "{good}");
        }
        for bad in ["", "%H:%M", "%Y %d", "%Y %m %b", "%Y %m %j", "%Y %H %I", "%F", "%", "%Y %Y", &"x".repeat(1025)] {
            assert!(check_read_format(bad).is_err(), "{bad}");
        }
        let space = TimeItem::Space(" \t".to_owned());
        assert_eq!(time_items("x", "% \t").ok(), None);
        assert_eq!(time_items("x", "%p \t%%"), Ok(vec![TimeItem::AmPm, space, TimeItem::Literal('%')]));
    }
}

//! Times in texts of a format: reading them as Python's `strptime`, and writing them as `strftime`.
//!
//! Numbers have one digit up to their width, `%Y` has four. A part of the day that the format lacks is 1, one of the time
//! is 0. A day of the week is read and not compared, as in Python.

use std::fmt::Write;

use forebay_plan::{MONTHS, TimeItem, TimeUnit, WEEKDAYS};

use super::time::{date, days, last_day, ticks};

/// The parts of a time while its text is read.
#[derive(Default)]
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    ordinal_day: Option<i64>,
    hour: i64,
    /// The hour counts from 1 to 12.
    of_half: bool,
    is_afternoon: bool,
    minute: i64,
    second: i64,
    nanos: i64,
    /// Seconds east of UTC.
    offset: i64,
}

/// Reads a time; `None` if the text has another format, or is beyond 64 bits.
pub(super) fn read(items: &[TimeItem], text: &str, unit: TimeUnit) -> Option<i64> {
    let mut parts = Parts::default();
    let rest = items.iter().try_fold(text, |rest, item| parts.take(item, rest))?;
    if !rest.is_empty() || parts.hour > 23 || parts.minute > 59 || parts.second > 59 {
        return None;
    }
    if parts.of_half {
        parts.hour = (1..=12).contains(&parts.hour).then_some(parts.hour % 12)?;
        parts.hour += if parts.is_afternoon { 12 } else { 0 };
    }
    let day = match parts.ordinal_day {
        Some(ordinal) => {
            let first = days(parts.year, 1, 1);
            (1..=days(parts.year + 1, 1, 1) - first).contains(&ordinal).then_some(first + ordinal - 1)?
        }
        None => {
            let (month, day) = (parts.month.unwrap_or(1), parts.day.unwrap_or(1));
            (1..=last_day(parts.year, month)?).contains(&day).then(|| days(parts.year, month, day))?
        }
    };
    ticks(day, parts.hour * 3600 + parts.minute * 60 + parts.second - parts.offset, parts.nanos, unit)
}

impl Parts {
    /// Reads the part of an item; returns the text behind it.
    fn take<'t>(&mut self, item: &TimeItem, text: &'t str) -> Option<&'t str> {
        let (number, rest) = match item {
            TimeItem::Literal(letter) => {
                let mut rest = text.chars();
                let same = rest.next()?.eq_ignore_ascii_case(letter);
                return same.then_some(rest.as_str());
            }
            TimeItem::Space(_) => {
                let rest = text.trim_start();
                return (rest.len() < text.len()).then_some(rest);
            }
            TimeItem::MonthName { short } => name(&MONTHS, *short, text)?,
            TimeItem::WeekdayName { short } => return name(&WEEKDAYS, *short, text).map(|(_, rest)| rest),
            TimeItem::AmPm => name(&["AM", "PM"], false, text)?,
            TimeItem::Zone => return name(&["UTC", "GMT"], false, text).map(|(_, rest)| rest),
            TimeItem::Offset => return self.take_offset(text),
            TimeItem::Fraction => {
                let (_, rest) = number(text, 1, 9)?;
                let digits = &text[..text.len() - rest.len()];
                (format!("{digits:0<9}").parse().ok()?, rest)
            }
            TimeItem::Year => number(text, 4, 4)?,
            TimeItem::YearOfCentury => number(text, 2, 2)?,
            TimeItem::OrdinalDay => number(text, 1, 3)?,
            _ => number(text, 1, 2)?,
        };
        match item {
            TimeItem::Year => self.year = number,
            TimeItem::YearOfCentury => self.year = number + if number < 69 { 2000 } else { 1900 },
            TimeItem::Month => self.month = Some(number),
            TimeItem::MonthName { .. } => self.month = Some(number + 1),
            TimeItem::Day => self.day = Some(number),
            TimeItem::OrdinalDay => self.ordinal_day = Some(number),
            TimeItem::Hour => self.hour = number,
            TimeItem::Hour12 => (self.hour, self.of_half) = (number, true),
            TimeItem::AmPm => self.is_afternoon = number == 1,
            TimeItem::Minute => self.minute = number,
            TimeItem::Second => self.second = number,
            _ => self.nanos = number,
        }
        Some(rest)
    }

    /// Reads `Z`, `+0130`, `+01:30` or `-01:30:00`.
    fn take_offset<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if let Some(rest) = text.strip_prefix(['Z', 'z']) {
            return Some(rest);
        }
        let rest = text.strip_prefix(['+', '-'])?;
        let (hours, rest) = number(rest, 2, 2)?;
        let (minutes, rest) = number(rest.strip_prefix(':').unwrap_or(rest), 2, 2)?;
        let seconds = |rest: &'t str| number(rest.strip_prefix(':').unwrap_or(rest), 2, 2);
        let (seconds, rest) = seconds(rest).unwrap_or((0, rest));
        let offset = hours * 3600 + minutes * 60 + seconds;
        self.offset = if text.starts_with('-') { -offset } else { offset };
        (hours < 24 && minutes < 60 && seconds < 60).then_some(rest)
    }
}

/// Reads a whole number of so many digits.
fn number(text: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    (digits >= least).then(|| text.split_at(digits)).and_then(|(number, rest)| Some((number.parse().ok()?, rest)))
}

/// Reads a name in any case; returns its place.
fn name<'t>(names: &[&str], short: bool, text: &'t str) -> Option<(i64, &'t str)> {
    names.iter().enumerate().find_map(|(place, name)| {
        let name = if short { &name[..3] } else { name };
        let (start, rest) = text.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some((place as i64, rest))
    })
}

/// Writes a time.
pub(super) fn write(items: &[TimeItem], time: i64, unit: TimeUnit) -> String {
    let (day, tick) = (time.div_euclid(unit.in_day()), time.rem_euclid(unit.in_day()));
    let in_second = unit.in_second().unwrap_or(1);
    let (second, micros) = (tick / in_second, (tick % in_second) as i128 * 1_000_000 / i128::from(in_second));
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let (year, month, of_month) = date(day);
    let weekday = ((day.rem_euclid(7) + 3) % 7) as usize;
    let shortened = |name: &'static str, short: bool| if short { &name[..3] } else { name };
    let mut out = String::new();
    for item in items {
        // Writing to a string never fails.
        let _ = match item {
            TimeItem::Literal(letter) => write!(out, "{letter}"),
            TimeItem::Space(space) => write!(out, "{space}"),
            TimeItem::Year => write!(out, "{year:04}"),
            TimeItem::YearOfCentury => write!(out, "{:02}", year.rem_euclid(100)),
            TimeItem::Month => write!(out, "{month:02}"),
            TimeItem::MonthName { short } => write!(out, "{}", shortened(MONTHS[month as usize - 1], *short)),
            TimeItem::Day => write!(out, "{of_month:02}"),
            TimeItem::OrdinalDay => write!(out, "{:03}", day - days(year, 1, 1) + 1),
            TimeItem::WeekdayName { short } => write!(out, "{}", shortened(WEEKDAYS[weekday], *short)),
            TimeItem::Hour => write!(out, "{hour:02}"),
            TimeItem::Hour12 => write!(out, "{:02}", (hour + 11) % 12 + 1),
            TimeItem::AmPm => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
            TimeItem::Minute => write!(out, "{minute:02}"),
            TimeItem::Second => write!(out, "{:02}", second % 60),
            TimeItem::Fraction => write!(out, "{micros:06}"),
            TimeItem::Offset => write!(out, "+0000"),
            TimeItem::Zone => write!(out, "UTC"),
        };
    }
    out
}

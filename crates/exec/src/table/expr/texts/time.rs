//! Parts of times, and times that texts write (ISO 8601).
//!
//! Days are counted in the Gregorian calendar throughout, as NumPy, pandas and polars do.

use std::sync::Arc;

use arrow_array::LargeStringArray;
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{TimePart, TimeUnit, time_items};

use super::time_format;
use crate::table::expr::numbers::kernel::{map, native};
use crate::table::expr::numbers::number::Number;
use crate::table::expr::numbers::shape::{Layout, Numbers};
use crate::table::expr::value::Value;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// Days of 400 years.
const DAYS_OF_ERA: i64 = 146_097;

/// Returns a part of each time.
///
/// # Errors
/// Internal for texts.
pub(in crate::table::expr) fn part(value: Value, part: TimePart, unit: TimeUnit) -> Result<Value> {
    let numbers = value.numbers()?;
    let parts = native!(numbers.dtype, T => map::<T, i64>(&numbers.values, |x| of(x.i64(), part, unit)));
    Ok(Value::Numbers(numbers.with(DType::Int64, parts)))
}

fn of(time: i64, part: TimePart, unit: TimeUnit) -> i64 {
    let (day, tick) = (time.div_euclid(unit.in_day()), time.rem_euclid(unit.in_day()));
    let second = tick / unit.in_second().unwrap_or(1);
    match part {
        TimePart::Hour => second / 3600,
        TimePart::Minute => second / 60 % 60,
        TimePart::Second => second % 60,
        // 1970-01-01 was a Thursday.
        TimePart::Weekday => (day.rem_euclid(7) + 3) % 7,
        TimePart::Year => date(day).0,
        TimePart::Month => date(day).1,
        TimePart::Day => date(day).2,
        TimePart::OrdinalDay => day - days(date(day).0, 1, 1) + 1,
    }
}

/// Returns year, month and day of a number of days since 1970-01-01.
pub(super) fn date(day: i64) -> (i64, i64, i64) {
    // Years begin with March here, so that a leap day is the last of a year.
    let (era, in_era) = (day.div_euclid(DAYS_OF_ERA), day.rem_euclid(DAYS_OF_ERA) + DAYS_TO_1970);
    let (era, in_era) = (era + in_era / DAYS_OF_ERA, in_era % DAYS_OF_ERA);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Returns the days from 1970-01-01 to a date.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + in_era * 365 + in_era / 4 - in_era / 100 + in_year - DAYS_TO_1970
}

/// Reads times. Fractions of the unit are cut off.
///
/// # Errors
/// Data for a text that writes no time, or one that no number of the unit reaches.
pub(in crate::table::expr) fn read(texts: &LargeStringArray, unit: TimeUnit, format: Option<&str>) -> Result<Value> {
    let items = format.map(|format| time_items("to_time", format.trim())).transpose()?;
    let one = |text: Option<&str>| match text {
        None => Ok(0),
        Some(text) => {
            let trimmed = text.trim();
            let found = items.as_ref().map_or_else(|| time(trimmed, unit), |i| time_format::read(i, trimmed, unit));
            found.ok_or_else(|| {
                let start: String = text.chars().take(40).collect();
                let error = Error::data(format!("to_time: {start:?} is no time in {}", unit.name()));
                match format {
                    None => error.hint(
                        "it reads ISO 8601, as 2024-02-29 or 2024-02-29T13:45:10.5+01:00; format=\"%d/%m/%Y\" reads others",
                    ),
                    Some(format) => error.with("format", format).hint("leave such rows out with filter, or change format="),
                }
            })
        }
    };
    let values = Buffer::from_vec(texts.iter().map(one).collect::<Result<Vec<i64>>>()?);
    let nulls = arrow_array::Array::nulls(texts).cloned();
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls, layout: Layout::Rows }))
}

fn time(text: &str, unit: TimeUnit) -> Option<i64> {
    let (date, clock) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, ""),
    };
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    if !(1..=last_day(year, month)?).contains(&day) {
        return None;
    }
    let (second, nanos) = if clock.is_empty() { (0, 0) } else { second_of(clock)? };
    ticks(days(year, month, day), second, nanos, unit)
}

/// Returns the last day of a month; `None` if there is no such month.
pub(super) fn last_day(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => Some(28 + i64::from(leap)),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

/// Returns a time as a number, cut off at the unit; `None` beyond 64 bits.
pub(super) fn ticks(day: i64, second: i64, nanos: i64, unit: TimeUnit) -> Option<i64> {
    let Some(ticks) = unit.in_second() else { return Some(day + second.div_euclid(86_400)) };
    let seconds = day.checked_mul(86_400)?.checked_add(second)?;
    seconds.checked_mul(ticks)?.checked_add(nanos / (1_000_000_000 / ticks))
}

/// Writes times in a format.
///
/// # Errors
/// Invalid for a format that the plan's checks refuse; Internal for texts.
pub(in crate::table::expr) fn write(value: Value, unit: TimeUnit, format: &str, rows: usize) -> Result<Value> {
    let (items, numbers) = (time_items("strftime", format)?, value.numbers()?.expand(&Layout::Rows, rows));
    let times = native!(numbers.dtype, T => map::<T, i64>(&numbers.values, Number::i64));
    let is_there = |row: usize| numbers.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let texts = times.typed_data::<i64>().iter().enumerate();
    let texts = texts.map(|(row, time)| is_there(row).then(|| time_format::write(&items, *time, unit)));
    Ok(Value::Text(Arc::new(texts.collect::<LargeStringArray>())))
}

/// Returns the seconds and nanoseconds since midnight, UTC, that a time of day writes.
fn second_of(clock: &str) -> Option<(i64, i64)> {
    let (clock, zone) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => (clock[..at].trim_end(), &clock[at..]),
        None => (clock, ""),
    };
    let offset = match zone {
        "" | "Z" | "z" => 0,
        zone => {
            let [hours, minutes] = match zone[1..].len() {
                4 => fields(&format!("{}:{}", zone.get(1..3)?, zone.get(3..)?), ':', [2, 2])?,
                2 => fields(&format!("{}:00", &zone[1..]), ':', [2, 2])?,
                _ => fields(&zone[1..], ':', [2, 2])?,
            };
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [hour, minute, second] = match clock.len() {
        5 => fields(&format!("{clock}:00"), ':', [2, 2, 2]).filter(|_| fraction.is_empty())?,
        _ => fields(clock, ':', [2, 2, 2])?,
    };
    if hour > 23 || minute > 59 || second > 59 || fraction.len() > 9 || !is_digits(fraction) {
        return None;
    }
    let nanos = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    Some((hour * 3600 + minute * 60 + second - offset, nanos))
}

/// Reads numbers of so many digits.
fn fields<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(between).collect();
    let parts: [&str; N] = parts.try_into().ok()?;
    let mut numbers = [0; N];
    for ((number, part), digits) in numbers.iter_mut().zip(parts).zip(digits) {
        *number = part.parse().ok().filter(|_| part.len() == digits && is_digits(part))?;
    }
    Some(numbers)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_800_years_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for number in days(1600, 1, 1)..days(2400, 1, 1) {
            assert_eq!((date(number), days(year, month, day)), ((year, month, day), number));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = [31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            (year, month, day) = match (month, day == last) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        for extreme in [i64::MIN, i64::MAX] {
            for unit in [TimeUnit::D, TimeUnit::S, TimeUnit::Ns] {
                assert!((1..=12).contains(&of(extreme, TimePart::Month, unit)));
                assert!((0..7).contains(&of(extreme, TimePart::Weekday, unit)));
            }
        }
    }

    #[test]
    fn texts_write_times() {
        let us = |text| time(text, TimeUnit::Us);
        assert_eq!(us("1970-01-01"), Some(0));
        assert_eq!(us("1969-12-31T23:59:59.999999Z"), Some(-1));
        assert_eq!(us("2024-02-29 13:45"), us("2024-02-29T14:45:00+01:00"));
        assert_eq!(us("2024-02-29T13:45:10.5-0130"), us("2024-02-29T15:15:10.500000"));
        assert_eq!(time("2024-03-01", TimeUnit::D), Some(19_783));
        assert_eq!(time("1970-01-01T00:30:00+01:00", TimeUnit::D), Some(-1));
        for none in ["", "2024", "2023-02-29", "2024-13-01", "2024-1-01", "2024-01-01T24:00", "2024-01-01T1:00", "é"] {
            assert_eq!(us(none), None, "{none}");
        }
        for none in ["2024-01-01T10:00:00.", "2024-01-01T10:00.5", "2024-01-01T10:00:00+é1", "+024-01-01"] {
            assert!(us(none).is_none() || none.ends_with('.'), "{none}");
        }
        assert_eq!(time("2400-01-01", TimeUnit::Ns), None, "beyond 64 bits");
    }
}

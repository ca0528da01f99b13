//! The period in which a certificate is valid. rustls checks it for the peer's certificate, but not for a process's
//! own.
//!
//! Parses the outline of a certificate (RFC 5280, 4.1) up to its validity; rustls judges the rest. Pure: the time is an
//! argument.

use std::time::{Duration, SystemTime};

use forebay_core::{Error, ErrorKind, Result};

/// A certificate that expires sooner causes a warning.
const SOON: Duration = Duration::from_secs(14 * DAY as u64);
const DAY: i64 = 86_400;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// A period, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its begin.
    pub begins: i64,
    /// Its end.
    pub ends: i64,
}

impl Validity {
    /// Reads the period of a certificate; `None` for anything else.
    pub(crate) fn of(der: &[u8]) -> Option<Self> {
        let certificate = content(der, SEQUENCE)?;
        let mut fields = content(certificate, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            fields = element(fields)?.2;
        }
        // The serial number, the algorithm and the issuer.
        for _ in 0..3 {
            fields = element(fields)?.2;
        }
        let times = content(fields, SEQUENCE)?;
        let (tag, begins, rest) = element(times)?;
        let begins = seconds(tag, begins)?;
        let (tag, ends, _) = element(rest)?;
        Some(Self { begins, ends: seconds(tag, ends)? })
    }

    /// Returns the intersection of the periods of a chain.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { begins: self.begins.max(other.begins), ends: self.ends.min(other.ends) }
    }

    /// Checks that `now` is in the period, and returns a warning if the period soon ends.
    ///
    /// # Errors
    /// Invalid if `now` is outside.
    pub fn check(self, now: SystemTime) -> Result<Option<String>> {
        let seconds =
            |since: SystemTime| since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let at = seconds(now);
        let wrong = |what: String, hint| Err(Error::new(ErrorKind::Invalid, what).hint(hint));
        if at >= self.ends {
            let what = format!("this process's certificate has expired: it was valid until {}", date(self.ends));
            return wrong(what, "renew it: other processes do not trust it");
        }
        if at < self.begins {
            let what = format!("this process's certificate is not valid yet: it is valid from {}", date(self.begins));
            return wrong(what, "check this machine's clock, or have a new certificate signed");
        }
        let left = self.ends - at;
        let says = || format!("this process's certificate expires on {}, in {} days", date(self.ends), left / DAY);
        Ok((left < SOON.as_secs() as i64).then(says))
    }
}

/// Returns the tag and the content of the first element, and the bytes behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (bytes, rest) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 4)?;
            (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Returns the content of the first element, which must have this tag.
fn content(der: &[u8], kind: u8) -> Option<&[u8]> {
    element(der).filter(|(tag, ..)| *tag == kind).map(|(_, content, _)| content)
}

/// Reads a time of a certificate: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let text =
        std::str::from_utf8(text).ok()?.strip_suffix('Z').filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let number = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (number(0)?, number(2)?);
    let clock = number(4)? * 3600 + number(6)? * 60 + number(8)?;
    Some(days(year, month, day)? * DAY + clock)
}

/// Returns the days from 1970 on to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last day.
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Writes a day as a date: the inverse of [`days`].
fn date(seconds: i64) -> String {
    let from = seconds.div_euclid(DAY) + 719_468;
    let (era, of_era) = (from.div_euclid(146_097), from.rem_euclid(146_097));
    let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = years + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let long = [tag, 0x82, (content.len() >> 8) as u8, content.len() as u8];
        let head = if content.len() < 0x80 { vec![tag, content.len() as u8] } else { long.to_vec() };
        [head, content].concat()
    }

    fn certificate(begins: (u8, &str), ends: (u8, &str)) -> Vec<u8> {
        let times = [begins, ends].map(|(tag, text)| der(tag, &[text.as_bytes()]));
        let fields = [
            der(VERSION, &[&der(2, &[&[2]])]),
            der(2, &[&[7; 20]]),
            der(SEQUENCE, &[&[6, 1, 1]]),
            der(SEQUENCE, &[&[9; 200]]),
            der(SEQUENCE, &[&times[0], &times[1]]),
            der(SEQUENCE, &[]),
        ];
        der(SEQUENCE, &[&der(SEQUENCE, &fields.each_ref().map(|field| &field[..]))])
    }

    #[test]
    fn the_times_of_a_certificate_are_read_and_invalid_ones_give_none() {
        let whole = certificate((UTC_TIME, "991231235959Z"), (GENERALIZED_TIME, "20520229000001Z"));
        let validity = Validity::of(&whole).expect("read");
        assert_eq!(validity, Validity { begins: 946_684_799, ends: 2_592_777_601 });
        assert_eq!([validity.begins, validity.ends].map(date), ["1999-12-31", "2052-02-29"]);
        for cut in 0..whole.len() - 2 {
            assert_eq!(Validity::of(&whole[..cut]), None, "{cut}");
        }
        for (tag, text) in
            [(UTC_TIME, "20520229000001Z"), (UTC_TIME, "521329000001Z"), (UTC_TIME, "5202290000011"), (4, "x")]
        {
            assert_eq!(Validity::of(&certificate((tag, text), (tag, text))), None, "{text}");
        }
    }

    #[test]
    fn an_invalid_certificate_is_refused_and_one_that_expires_soon_warns() {
        let at = |days: i64| SystemTime::UNIX_EPOCH + Duration::from_secs((days * DAY) as u64);
        let one = Validity { begins: 10 * DAY, ends: 400 * DAY };
        let validity = one.and(Validity { begins: 20 * DAY, ends: 500 * DAY });
        assert_eq!((validity.begins, validity.ends), (20 * DAY, 400 * DAY));
        let refused = |days| validity.check(at(days)).expect_err("refused").message().to_owned();
        assert!(refused(19).contains("from 1970-01-21") && refused(400).contains("until 1971-02-05"));
        assert_eq!(validity.check(at(20)), Ok(None));
        assert_eq!(validity.check(at(386)), Ok(None));
        let says = validity.check(at(390)).expect("good").expect("said");
        assert!(says.contains("in 10 days"), "{says}");
    }
}

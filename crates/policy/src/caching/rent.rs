//! The cost of a store that is paid by the byte, in time of the threads that would compute its rows.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Error, Result};

/// Prices are for a GiB.
const GIB: f64 = (1u64 << 30) as f64;
/// A month of 30 days, and an hour, in nanoseconds.
const MONTH_NANOS: f64 = 30.0 * 24.0 * HOUR_NANOS;
const HOUR_NANOS: f64 = 3600e9;
/// The highest accepted price: a higher one is a mistake.
const PRICE_MAX: f64 = 1e9;

/// The prices that an operator pays, in any currency: written `month=0.023,write=0.005,worker=0.38`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StorePrices {
    /// A GiB kept in the store for a month.
    pub month: f64,
    /// A GiB written to it.
    pub write: f64,
    /// A worker for an hour: the store is weighed against it.
    pub worker: f64,
}

impl StorePrices {
    /// Returns the cost of the store in time of one of the worker's threads.
    pub fn rent(&self, threads: usize) -> Rent {
        let thread_nanos = self.worker / threads.max(1) as f64 / HOUR_NANOS;
        Rent { written: self.write / GIB / thread_nanos, held: self.month / GIB / MONTH_NANOS / thread_nanos }
    }
}

impl FromStr for StorePrices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::invalid(format!("{text:?} are no prices of a store: {what}"))
                .hint("use month=PRICE (a GiB for a month), write=PRICE (a GiB written) and worker=PRICE (an hour): month=0.023,worker=0.38")
        };
        let mut prices = Self { month: 0.0, write: 0.0, worker: 0.0 };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, price) = part.split_once('=').ok_or_else(|| wrong(format!("{part:?} has no =")))?;
            let price: f64 = price.trim().parse().map_err(|_| wrong(format!("{price:?} is no number")))?;
            if !(0.0..=PRICE_MAX).contains(&price) {
                return Err(wrong(format!("{price} is no price")));
            }
            match name.trim() {
                "month" => prices.month = price,
                "write" => prices.write = price,
                "worker" => prices.worker = price,
                other => return Err(wrong(format!("nothing is called {other:?}"))),
            }
        }
        if prices.worker == 0.0 {
            return Err(wrong("what a worker costs is missing, or nothing".to_owned()));
        }
        Ok(prices)
    }
}

impl fmt::Display for StorePrices {
    /// Writes the text that `from_str` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "month={},write={},worker={}", self.month, self.write, self.worker)
    }
}

/// The same prices in nanoseconds of a thread for each byte; 0 if the user does not pay by the byte.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rent {
    /// Writing the byte.
    pub written: f64,
    /// Keeping it for a nanosecond.
    pub held: f64,
}

impl Rent {
    /// Returns whether the store costs nothing.
    pub fn is_free(&self) -> bool {
        self.written == 0.0 && self.held == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_as_they_are_written_and_weighed_against_a_thread() {
        let prices: StorePrices = "month=0.0216, worker=0.36".parse().expect("prices");
        assert_eq!(prices.to_string().parse::<StorePrices>(), Ok(prices));
        // A thread of a worker with ten costs 1e-14 a nanosecond; a GiB for an hour costs 3e-5.
        let rent = prices.rent(10);
        let hour = rent.held * HOUR_NANOS * GIB;
        assert!((hour / (3e-5 / 1e-14) - 1.0).abs() < 1e-9, "{hour}");
        assert!(rent.written == 0.0 && !rent.is_free() && Rent::default().is_free());
        let written = "write=0.01,worker=0.36".parse::<StorePrices>().expect("prices").rent(10).written;
        assert!((written * GIB / (0.01 / 1e-14) - 1.0).abs() < 1e-9, "{written}");
    }

    #[test]
    fn what_are_no_prices_is_refused_with_what_to_write() {
        for text in
            ["", "month=1", "month=1,worker=0", "worker=x", "worker=-1", "disk=1,worker=1", "worker", "worker=nan"]
        {
            let error = text.parse::<StorePrices>().expect_err(text);
            assert!(error.message().contains("no prices") && error.get("hint").is_some(), "{error}");
        }
    }
}

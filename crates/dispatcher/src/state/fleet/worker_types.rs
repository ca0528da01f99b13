//! Worker types and their prices. A type is a name that workers report. Bounds: at most [`TYPES_MAX`] labels; further
//! types count as [`OTHERS`].

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_policy::placement::PRICE_MAX;

/// The most types that have labels of their own.
pub(in crate::state) const TYPES_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 63;
/// The type of workers that report none.
const UNNAMED: &str = "fleet";
/// The type of local workers.
const LOCAL: &str = "local";
/// All types beyond the first [`TYPES_MAX`].
pub(in crate::state) const OTHERS: &str = "others";

/// Checks the name of a worker type; an empty name is allowed and means none.
///
/// # Errors
/// Invalid, with a hint on the allowed names.
pub fn check_worker_type(name: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain) && ![UNNAMED, LOCAL, OTHERS].contains(&name) {
        return Ok(());
    }
    let hint = format!("use 1 to {NAME_BYTES_MAX} letters, digits, -, _ and ., but not {UNNAMED}, {LOCAL} or {OTHERS}");
    Err(Error::invalid(format!("{name:?} is no kind of workers")).hint(hint))
}

/// Checks the price of a worker per hour; 0 means unknown.
///
/// # Errors
/// Invalid, with a hint on the allowed prices.
pub fn check_price(price: f64) -> Result<()> {
    if (0.0..=PRICE_MAX).contains(&price) {
        return Ok(());
    }
    Err(Error::invalid(format!("{price} is no price of a worker")).hint(format!("use a number from 0 to {PRICE_MAX}")))
}

/// The type that a worker reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WorkerType {
    name: Arc<str>,
    /// Per hour; 0 if unknown.
    price: f64,
    spot: bool,
}

impl WorkerType {
    /// Checks a worker's report of its type.
    ///
    /// # Errors
    /// Errors of [`check_worker_type`] and [`check_price`].
    pub(crate) fn new(name: &str, price: f64, spot: bool) -> Result<Self> {
        check_worker_type(name)?;
        check_price(price)?;
        Ok(Self { name: name.into(), price, spot })
    }

    pub(in crate::state) fn name(&self) -> &str {
        if self.name.is_empty() { UNNAMED } else { &self.name }
    }

    pub(in crate::state) fn price(&self) -> f64 {
        self.price
    }

    pub(in crate::state) fn is_spot(&self) -> bool {
        self.spot
    }
}

/// The labels of the present types: the first names in sorted order.
#[derive(Debug, Default)]
pub(in crate::state) struct Labels(BTreeSet<Arc<str>>);

impl Labels {
    /// Takes the types of the workers that are not local.
    pub(in crate::state) fn of<'a>(types: impl Iterator<Item = &'a WorkerType>) -> Self {
        let mut names = BTreeSet::new();
        for worker_type in types {
            names.insert(Arc::from(worker_type.name()));
            if names.len() > TYPES_MAX {
                names.pop_last();
            }
        }
        Self(names)
    }

    pub(in crate::state) fn label(&self, worker_type: &WorkerType, is_local: bool) -> Arc<str> {
        match self.0.get(worker_type.name()) {
            _ if is_local => LOCAL.into(),
            Some(name) => name.clone(),
            None => OTHERS.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_type_or_price_is_refused() {
        for name in ["", "n2-standard-8", "c5.large", "A_1"] {
            assert!(WorkerType::new(name, 0.5, true).is_ok(), "{name}");
        }
        for name in ["local", "fleet", "others", "a b", "a/b", "é", &"x".repeat(64)] {
            assert!(WorkerType::new(name, 0.5, true).is_err(), "{name}");
        }
        assert!(
            [-1.0, f64::NAN, f64::INFINITY, 1.1 * PRICE_MAX]
                .iter()
                .all(|price| WorkerType::new("a", *price, false).is_err())
        );
    }

    #[test]
    fn labels_are_bounded() {
        let of = |n| WorkerType::new(&format!("kind-{n}"), 0.0, false).expect("a kind");
        let types: Vec<_> = (10..40).map(of).collect();
        let labels = Labels::of(types.iter());
        let of: BTreeSet<_> = types.iter().map(|t| labels.label(t, false)).collect();
        assert_eq!((of.len(), of.contains(OTHERS), &*labels.label(&types[0], false)), (TYPES_MAX + 1, true, "kind-10"));
        assert_eq!(&*labels.label(&types[0], true), LOCAL);
    }
}

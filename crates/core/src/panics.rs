//! Runs code of other libraries that reports bad input by a panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is an answer, and no bug.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, and returns its panic as an error. The text of such a panic is not printed, because the caller makes an
/// error of it. Panics of other threads, and those outside of `work`, are printed as before.
///
/// # Errors
/// The value of the panic.
pub fn expect_panics<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_EXPECTED.get() {
                before(info);
            }
        }));
    });
    let outer = IS_EXPECTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(outer);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_panics_are_silent() {
        assert_eq!(expect_panics(|| 7).ok(), Some(7));
        let inner = expect_panics(|| {
            let inner = expect_panics(|| panic!("inner"));
            assert!(IS_EXPECTED.get(), "the outer work still runs");
            inner.is_err()
        });
        assert_eq!(inner.ok(), Some(true));
        assert!(!IS_EXPECTED.get());
    }
}

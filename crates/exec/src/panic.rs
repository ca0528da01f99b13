//! Panics that a thread caught, as errors.

use std::any::Any;

use forebay_core::Error;

/// Turns a panic, which is a bug of Forebay, into an error without a backtrace.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned());
    Error::internal(format!("a part of forebay failed: {text}")).hint("please report this as a bug")
}

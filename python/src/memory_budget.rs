//! The user's limit for the memory of a pipeline in this process.

use forebay_core::{Error, Result};
use forebay_plan::{EpochPlan, Stages};
use forebay_server::parse_bytes;

/// The variable that applies if the user gives no limit.
const NAME: &str = "FOREBAY_MEMORY";

/// Reads a size, or else the environment's.
///
/// # Errors
/// Invalid when it is no size.
pub(crate) fn said(memory: Option<&str>) -> Result<Option<u64>> {
    if let Some(text) = memory {
        return parse_bytes(text).map(Some).map_err(|e| e.with("argument", "memory"));
    }
    let text = std::env::var(NAME).ok().filter(|text| !text.is_empty());
    text.map(|text| parse_bytes(&text)).transpose().map_err(|e| e.with("variable", NAME))
}

/// Refuses a limit that the windows of a shuffle exceed: their size is part of the order, so they cannot be made
/// smaller.
///
/// # Errors
/// Invalid, with the size of the windows.
pub(crate) fn check(said: Option<u64>, stages: &Stages, plan: &EpochPlan) -> Result<()> {
    let Some(said) = said else { return Ok(()) };
    let of_parts = plan.combination().map_or(0, |combination| combination.window_memory());
    let windows = plan.sizing().window_memory(stages, plan.extent())?.saturating_add(of_parts);
    if windows <= said {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let message = format!(
        "the windows of the shuffle that are read at once take about {} MiB, and {} MiB of memory are allowed",
        mib(windows),
        mib(said)
    );
    Err(Error::invalid(message).hint(format!("say more (memory=, {NAME}), or shuffle over a smaller window (window=)")))
}

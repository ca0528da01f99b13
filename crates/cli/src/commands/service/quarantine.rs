//! `forebay quarantine`

use forebay_core::Result;

use crate::arguments::{Quarantine, QuarantineAction};
use crate::host::Host;
use crate::output;

pub(crate) fn run(arguments: &Quarantine, host: &dyn Host) -> Result<i32> {
    let action = match arguments.action {
        QuarantineAction::Ls => "ls",
        QuarantineAction::Show => "show",
        QuarantineAction::Retry => "retry",
    };
    let (text, code) = host.quarantine(action, &arguments.files, arguments.sample.as_deref(), arguments.json)?;
    output::line(text.trim_end())?;
    Ok(code)
}

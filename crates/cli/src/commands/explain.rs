//! `forebay explain`

use forebay_core::Result;

use crate::arguments::Explain;
use crate::host::Host;
use crate::output;

pub(crate) fn run(arguments: &Explain, host: &dyn Host) -> Result<()> {
    output::line(host.explain_file(&arguments.file, arguments.splits, arguments.json)?.trim_end())
}

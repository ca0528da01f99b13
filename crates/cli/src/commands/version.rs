//! `forebay version`

use forebay_core::{Result, VERSION};

use crate::arguments::Version;
use crate::output;

pub(crate) fn run(arguments: &Version) -> Result<()> {
    match arguments.json {
        true => output::json(&std::collections::BTreeMap::from([("version", VERSION)])),
        false => output::line(&format!("forebay {VERSION}")),
    }
}

//! `forebay run`

use forebay_core::Result;
use forebay_server::{CacheConfig, UpOptions};

use crate::arguments::Run;
use crate::host::Host;

/// Returns the script's exit code.
pub(crate) fn run(arguments: &Run, host: &dyn Host) -> Result<i32> {
    let Some(workers) = arguments.workers else {
        return host.run_file(&arguments.file, &arguments.args, arguments.service.as_deref());
    };
    let cache = CacheConfig::from_env()?;
    let options = UpOptions { workers: workers as usize, cache, ..UpOptions::new(host.command()) };
    let up = super::start(options)?;
    let service = format!("forebay://{}", up.address());
    let code = host.run_file(&arguments.file, &arguments.args, Some(&service));
    up.close();
    code
}

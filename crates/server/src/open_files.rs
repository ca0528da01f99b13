//! The limit of open files and sockets of a process: as high as the system allows, and at least the number that it
//! needs.

use forebay_core::{Error, ErrorKind, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer, a process would start, and fail later when it opens one too many.
const FILES_MIN: u64 = 64;
/// No higher limit is requested: some programs that functions start check every possible descriptor.
const FILES_WANTED: u64 = 1 << 16;

/// Raises the limit of this process as far as allowed.
///
/// # Errors
/// Exhausted when that is too few.
pub fn allow_files() -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(FILES_WANTED).min(FILES_WANTED);
    let mut may = current.unwrap_or(u64::MAX);
    if may < most && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }).is_ok() {
        may = most;
    }
    if may >= FILES_MIN {
        return Ok(());
    }
    let message = format!("this process may have {may} files and sockets open, and needs {FILES_MIN} at least");
    Err(Error::new(ErrorKind::Exhausted, message)
        .hint("raise the limit of open files: `ulimit -n 65536`, or LimitNOFILE= of the service"))
}

//! The status of a running mount, by an `ioctl` on its folder: it needs no file, no socket and no rights besides those
//! to open the folder, and works in a container that has the mount.
//!
//! Why no extended attribute: the kernel would ask the mount for attributes of each file that `ls -l` shows.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use forebay_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::point::top_mount;
use crate::prefetch::PrefetchProgress;

/// The bytes of an answer: JSON, then zeros.
pub(crate) const ANSWER_BYTES: usize = 1024;
/// The number of the call: it reads [`ANSWER_BYTES`] bytes, of the type `F`, number 1.
pub(crate) const CALL: u32 = (2 << 30) | ((ANSWER_BYTES as u32) << 16) | ((b'F' as u32) << 8) | 1;

/// The status of a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The progress of the prefetch; `None` without one.
    pub prefetch: Option<PrefetchProgress>,
}

impl MountStatus {
    /// Asks the mount at a folder, or at a folder above it.
    ///
    /// # Errors
    /// NotFound for a folder that is in no mount of Forebay, or of a version without status; errors of the system.
    pub fn of(folder: &Path) -> Result<Self> {
        let absent = |message: &str| {
            Error::new(ErrorKind::NotFound, message)
                .with("folder", folder.display())
                .hint("name the folder of a running `forebay mount`")
        };
        if top_mount(folder).is_some_and(|line| !line.is_ours()) {
            return Err(absent("this is a mount of another program"));
        }
        let opened = File::open(folder).map_err(|e| Error::from(e).with("folder", folder.display()))?;
        let mut answer = [0u8; ANSWER_BYTES];
        // SAFETY: the number of the call has the size of the buffer, which outlives the call.
        let done = unsafe { libc::ioctl(opened.as_raw_fd(), CALL.into(), answer.as_mut_ptr()) };
        if done < 0 {
            let e = std::io::Error::last_os_error();
            return Err(match e.raw_os_error() {
                Some(libc::ENOTTY | libc::ENOSYS | libc::EINVAL) => absent("this folder is in no mount of Forebay"),
                _ => Error::from(e).with("folder", folder.display()),
            });
        }
        let text = answer.split(|&byte| byte == 0).next().unwrap_or_default();
        serde_json::from_slice(text).map_err(|e| absent(&format!("this mount answers in another way: {e}")))
    }

    /// Returns the answer to the call.
    pub(crate) fn answer(self) -> [u8; ANSWER_BYTES] {
        let mut answer = [0; ANSWER_BYTES];
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let len = text.len().min(ANSWER_BYTES - 1);
        answer[..len].copy_from_slice(&text[..len]);
        answer
    }
}

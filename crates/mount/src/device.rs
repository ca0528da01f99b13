//! FUSE devices that outlive the process that serves them.
//!
//! One process mounts a device ([`mount_device`]) and keeps it open; another gets a copy of the descriptor and serves
//! it ([`Device`]). If the serving process dies, the mount stays, and requests of programs wait until a third process
//! takes over. Invariants: the kernel sends FUSE_INIT once for each device, so this module writes that request for a
//! process that takes over. A request that a dead process had read is resent to the next process (Linux 6.9 and later),
//! or fails with ECONNABORTED; no request stays without an answer.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use fuser::{Config, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, mount};

use crate::adapter::Adapter;
use crate::serve::DEVICE;

/// First version of Linux that resends unanswered requests to the next process.
const RESENDING_SINCE: (u32, u32) = (6, 9);
/// The notification that triggers it (`FUSE_NOTIFY_RESEND`): 16 bytes without a request id.
const RESEND: [u8; 16] = [16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The ioctl that clones a device for the same mount (`FUSE_DEV_IOC_CLONE`).
const CLONE: u32 = 0x8004_e500;
/// Opcode of the kernel's first request (`FUSE_INIT`), and the protocol version in it.
const GREETING: u32 = 26;
const VERSION: [u32; 2] = [7, 31];
/// Lengths of that request's header, and of the whole request.
const HEAD_BYTES: usize = 40;
const GREETING_BYTES: usize = 104;

/// A mounted device that this process serves, and that another process keeps open.
#[derive(Debug)]
pub struct Device {
    /// The device.
    pub fd: OwnedFd,
    /// Whether a process has served it before.
    pub is_taken_over: bool,
    /// The folder with the journal of open files (`opens`), and with the lock of the serving process (`keeper`).
    pub folder: PathBuf,
}

/// Mounts a new device at a folder, read-only. Requests of programs wait until a process serves the device.
///
/// # Errors
/// NotFound and PermissionDenied for a system without FUSE or a process without the right to mount.
pub fn mount_device(folder: &Path, name: &str) -> Result<OwnedFd> {
    let device: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|e| Error::from(e).with("file", DEVICE).hint("load the module: modprobe fuse"))?
        .into();
    let ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions,subtype=forebay",
        device.as_raw_fd(),
        ids.0,
        ids.1
    );
    let options = std::ffi::CString::new(options).map_err(|e| Error::internal(e.to_string()))?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    mount(name, folder, "fuse", flags, &*options).map_err(|e| {
        let e = io::Error::from(e);
        let kind = if e.kind() == io::ErrorKind::PermissionDenied {
            ErrorKind::PermissionDenied
        } else {
            ErrorKind::Unavailable
        };
        Error::new(kind, format!("cannot mount: {e}")).with("folder", folder.display())
    })?;
    Ok(device)
}

/// Whether the mount of a device exists. The kernel ends it when it is unmounted everywhere, or was aborted.
pub fn is_mounted(device: &impl AsFd) -> bool {
    let mut looked = [PollFd::new(device, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut looked, Some(&at_once)).is_ok() && !looked[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// Creates the session of a device: of a new device, or of one that another process has served.
pub(crate) fn session(adapter: Adapter, device: &Device, mut config: Config) -> io::Result<Session<Adapter>> {
    let resends = resends();
    // Requests read through a cloned device end with this process; requests of the shared device stay for the next one.
    config.clone_fd = !resends;
    let own = device.fd.try_clone()?;
    let session = if device.is_taken_over {
        if resends && let Err(e) = rustix::io::write(&own, &RESEND) {
            tracing::warn!("requests of the process before get no answer: {e}");
        }
        let (mut greeter, greeted) = UnixStream::pair()?;
        greeter.write_all(&greeting())?;
        Session::from_fd(adapter, greeted.into(), config.acl, config)?
    } else {
        Session::from_fd(adapter, own.try_clone()?, config.acl, config)?
    };
    let serving = if resends { own } else { clone(&own)? };
    // SAFETY: the session owns this descriptor, and no thread reads it before the session runs. After dup3 it owns the
    // device.
    match unsafe { libc::dup3(serving.as_raw_fd(), session.as_fd().as_raw_fd(), libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(session),
    }
}

fn resends() -> bool {
    version(&rustix::system::uname().release().to_string_lossy()) >= Some(RESENDING_SINCE)
}

/// Parses major and minor of a release, as `6.18.44-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn clone(device: &OwnedFd) -> io::Result<OwnedFd> {
    let own: OwnedFd = OpenOptions::new().read(true).write(true).open(DEVICE)?.into();
    let mut of = device.as_raw_fd();
    // SAFETY: the call reads one integer, which outlives it.
    match unsafe { libc::ioctl(own.as_raw_fd(), CLONE as _, &mut of) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(own),
    }
}

/// FUSE_INIT, which the previous process has answered already.
fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    put(0, GREETING_BYTES as u32);
    put(4, GREETING);
    put(8, 1);
    put(HEAD_BYTES, VERSION[0]);
    put(HEAD_BYTES + 4, VERSION[1]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_system_are_compared() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("6.9-rc1"), Some((6, 9)));
        assert_eq!(version("none"), None);
        assert!(version("6.10.1") >= Some(RESENDING_SINCE) && version("6.8.0-51-generic") < Some(RESENDING_SINCE));
    }
}

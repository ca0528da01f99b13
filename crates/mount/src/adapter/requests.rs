//! The requests of the kernel, one method each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use forebay_core::Clock;
use forebay_io::EntryKind;
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, Request,
};

use super::{Adapter, BLOCK_SIZE, failed, is_changed};
use crate::open::Open;
use crate::prefetch::Shared;
use crate::reader::told;
use crate::status::{self, MountStatus};

/// Most background requests (read-ahead) of the kernel at the same time.
const BACKGROUND_MAX: u16 = 64;
const GENERATION: Generation = Generation(0);

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            // Always, without the kernel's heuristic: a program that lists a folder of samples reads all attributes.
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HAS_IOCTL_DIR,
        ];
        // A kernel without one of these ignores it.
        wanted.into_iter().for_each(|flag| _ = config.add_capabilities(flag));
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.node(parent).and_then(|folder| {
            self.tree.lookup(&folder, name, self.clock.now()).map_err(|e| failed(&e, &folder.path.join(name)))
        });
        match found {
            Ok(Some((node, age))) => reply.entry(&age, &self.attr(&node, node.attributes), GENERATION),
            Ok(None) => reply.error(Errno::ENOENT),
            Err(number) => reply.error(number),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.tree.forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let known = self.node(ino).and_then(|node| {
            let (attributes, age) = self.tree.attributes(&node).map_err(|e| failed(&e, &node.path))?;
            Ok((self.attr(&node, attributes), age))
        });
        match known {
            Ok((attr, age)) => reply.attr(&age, &attr),
            Err(number) => reply.error(number),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.node(ino) {
            Ok(node) => match &node.kind {
                EntryKind::Link(target) => reply.data(target.as_os_str().as_bytes()),
                _ => reply.error(Errno::EINVAL),
            },
            Err(number) => reply.error(number),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        match self.open_file(ino) {
            // An inode has one content, so the kernel's cached pages stay valid.
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(number) => reply.error(number),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let opened = match self.opened(fh) {
            Ok(Open::File(opened)) => opened,
            Ok(Open::Folder(..)) => return reply.error(Errno::EISDIR),
            Err(number) => return reply.error(number),
        };
        let mut reply = Some(reply);
        let read = opened.file.read(offset, size as usize, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let Err(e) = read {
            if is_changed(&e) {
                self.tree.changed(&opened.node);
            }
            if !opened.was_told.swap(true, Ordering::Relaxed) {
                tracing::warn!(offset, "{}; readers of it get EIO", told(opened.file.uri(), &e));
            }
            if let Some(reply) = reply {
                reply.error(Errno::EIO);
            }
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.remove(fh.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_folder(ino) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(number) => reply.error(number),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let (folder, listed) = match self.folder(fh, offset) {
            Ok(open) => open,
            Err(number) => return reply.error(number),
        };
        for (at, name) in [(1, "."), (2, "..")] {
            if offset < at && reply.add(ino, at, FileType::Directory, name) {
                return reply.ok();
            }
        }
        let entries = listed.list.entries.iter().enumerate().skip(offset.saturating_sub(2) as usize);
        for (at, entry) in entries {
            let number = INodeNo(self.tree.number(&folder, entry));
            if reply.add(number, at as u64 + 3, kind_of(&entry.kind), &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let (folder, listed) = match self.folder(fh, offset) {
            Ok(open) => open,
            Err(number) => return reply.error(number),
        };
        let age = self.tree.age(&folder, &listed, self.clock.now());
        for (at, name) in [(1, "."), (2, "..")] {
            let attr = self.attr(&folder, folder.attributes);
            if offset < at && reply.add(ino, at, name, &age, &attr, GENERATION) {
                return reply.ok();
            }
        }
        let entries = listed.list.entries.iter().enumerate().skip(offset.saturating_sub(2) as usize);
        for (at, entry) in entries {
            let node = self.tree.hold(&folder, entry);
            let attr = self.attr(&node, node.attributes);
            if reply.add(INodeNo(node.ino), at as u64 + 3, &entry.name, &age, &attr, GENERATION) {
                self.tree.forget(node.ino, 1);
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.open.remove(fh.0);
        reply.ok();
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        call: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        if call != status::CALL {
            return reply.error(Errno::ENOTTY);
        }
        let prefetch = self.prefetch.as_ref().map(Shared::get);
        reply.ioctl(0, &MountStatus { prefetch }.answer());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // Stores report no size, so only local sources have blocks.
        let known: Vec<(u64, u64)> = self.tree.sources().filter_map(|source| source.tree.space()).collect();
        let block = u64::from(BLOCK_SIZE);
        let all = known.iter().map(|(all, _)| all / block).sum();
        reply.statfs(all, 0, 0, 0, 0, BLOCK_SIZE, 255, BLOCK_SIZE);
    }
}

fn kind_of(kind: &EntryKind) -> FileType {
    match kind {
        EntryKind::Folder => FileType::Directory,
        EntryKind::File(_) => FileType::RegularFile,
        EntryKind::Link(_) => FileType::Symlink,
    }
}

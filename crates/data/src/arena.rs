//! Memory for large columns: reusable blocks, in one mapping that another process can share.
//!
//! A fresh allocation of tens of megabytes costs a page fault and a cleared page for every 4 KiB; a batch of images
//! that reuses the blocks of the last one costs none. An arena reserves addresses once, hands out blocks of them and
//! takes them back; a shared arena is a memfd, so a process with its descriptor sees the same blocks at the same
//! offsets.
//!
//! Invariants: a block belongs to one owner until it is dropped, together with the [`Buffer`] made of it; a new block
//! has arbitrary content, so its owner writes all of it; a process that maps another's arena maps it twice: to write
//! blocks that were lent to it alone, and to read blocks that others read, too. Bounds: [`RESERVED_BYTES`] of
//! addresses, after which there are no more blocks; [`MemoryBudget::spare`] and [`SMALL_SPARE_BYTES_MAX`] of free
//! blocks that keep their pages. This module requests only memory from the system: no process reads or writes a block
//! but its owner.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;
use rustix::mm::{MapFlags, ProtFlags};

use crate::budget::MemoryBudget;

/// Addresses of one arena. Only written pages take memory.
const RESERVED_BYTES: usize = 64 << 30;
/// The most bytes of small free blocks that keep their pages. Small blocks come and go with each batch, so large ones
/// must not crowd them out.
const SMALL_SPARE_BYTES_MAX: usize = 32 << 20;
/// Blocks below this are small.
const SMALL_BYTES: usize = 128 << 10;
/// Blocks are multiples of this.
const BLOCK_BYTES_MIN: usize = 4 << 10;
/// Blocks of at least this begin on a multiple of it, so that the kernel may use huge pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A mapping of this process. See the module's documentation.
pub struct Arena {
    mapping: Mapping,
    fd: Option<OwnedFd>,
    state: Mutex<State>,
}

struct State {
    /// The first address that was never handed out.
    end: usize,
    /// Free blocks by size; blocks that keep their pages come last.
    free: BTreeMap<usize, Vec<Free>>,
    spare_bytes: usize,
    small_spare_bytes: usize,
    /// Free blocks beyond this give their pages back.
    spare_bytes_max: usize,
}

impl Default for State {
    fn default() -> Self {
        let spare_bytes_max = MemoryBudget::default().spare();
        Self { end: 0, free: BTreeMap::new(), spare_bytes: 0, small_spare_bytes: 0, spare_bytes_max }
    }
}

struct Free {
    offset: usize,
    has_pages: bool,
}

impl State {
    /// Returns the bytes of free blocks in this size class that keep their pages, and their limit.
    fn spare(&mut self, size: usize) -> (&mut usize, usize) {
        match size < SMALL_BYTES {
            true => (&mut self.small_spare_bytes, SMALL_SPARE_BYTES_MAX),
            false => (&mut self.spare_bytes, self.spare_bytes_max),
        }
    }
}

impl Arena {
    /// Sets how many bytes of free blocks keep their pages.
    pub(crate) fn keep_spare(&self, bytes: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).spare_bytes_max = bytes;
    }

    /// Reserves an arena of this process alone.
    ///
    /// # Errors
    /// Errors of the system when no addresses are left, or this process may not have as many.
    pub fn private() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { mapping: Mapping::private(RESERVED_BYTES)?, fd: None, state: Mutex::default() }))
    }

    /// Reserves an arena that another process can map.
    ///
    /// # Errors
    /// Errors of [`Arena::private`]; Unsupported if the system has no anonymous files (other than Linux).
    pub fn shared() -> io::Result<Arc<Self>> {
        let fd = anonymous_file(RESERVED_BYTES)?;
        let mapping = Mapping::of(fd.as_fd(), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Arc::new(Self { mapping, fd: Some(fd), state: Mutex::default() }))
    }

    /// Returns the file of a shared arena.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns a block of `len` bytes with arbitrary content; `None` when no addresses are left.
    pub fn block(self: &Arc<Self>, len: usize) -> Option<Block> {
        let size = block_size(len)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let offset = match state.free.get_mut(&size).and_then(Vec::pop) {
            Some(free) => {
                *state.spare(size).0 -= if free.has_pages { size } else { 0 };
                free.offset
            }
            None => {
                let align = if size >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { BLOCK_BYTES_MIN };
                let offset = state.end.next_multiple_of(align);
                let end = offset.checked_add(size).filter(|&end| end <= self.mapping.len)?;
                state.end = end;
                offset
            }
        };
        Some(Block { arena: self.clone(), offset, size, len })
    }

    /// Returns the offset of a buffer in the arena; `None` if it is elsewhere.
    pub fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.mapping.base.as_ptr() as usize)?;
        (offset.checked_add(bytes.len())? <= self.mapping.len).then_some(offset)
    }

    fn release(&self, offset: usize, size: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (spare, max) = state.spare(size);
        let has_pages = *spare + size <= max;
        if has_pages {
            *spare += size;
        } else {
            self.give_back(offset, size);
        }
        let free = state.free.entry(size).or_default();
        let place = if has_pages { free.len() } else { 0 };
        free.insert(place, Free { offset, has_pages });
    }

    fn give_back(&self, offset: usize, size: usize) {
        let usage = if self.fd.is_some() { Usage::NoneOfFile } else { Usage::None };
        self.mapping.advise(offset, size, usage);
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("shared", &self.fd.is_some()).finish_non_exhaustive()
    }
}

/// Rounds up, in eight steps for each doubling, so that sizes that are nearly equal share their blocks.
fn block_size(len: usize) -> Option<usize> {
    let step = (len.checked_next_power_of_two()? / 8).max(BLOCK_BYTES_MIN);
    len.max(1).checked_next_multiple_of(step)
}

/// A part of an arena with one owner.
#[derive(Debug)]
pub struct Block {
    arena: Arc<Arena>,
    offset: usize,
    size: usize,
    len: usize,
}

impl Block {
    /// Returns the bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `offset..offset + len` is within the mapping, which is readable, writable and initialised (by zeros
        // or by an earlier owner); the block has no other owner.
        unsafe { std::slice::from_raw_parts_mut(self.arena.mapping.base.as_ptr().add(self.offset), self.len) }
    }

    /// Makes an Arrow buffer of the block; the block returns to the arena when the buffer's last owner is gone.
    pub fn into_buffer(self) -> Buffer {
        let (start, len) = (self.as_ptr(), self.len);
        // SAFETY: the bytes live as long as the block, which the buffer owns.
        unsafe { Buffer::from_custom_allocation(start, len, Arc::new(self)) }
    }

    fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.arena.mapping.base.add(self.offset) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.release(self.offset, self.size);
    }
}

/// A mapping of another process's arena, with the same bytes.
#[derive(Debug)]
pub struct SharedMemory(Mapping);

impl SharedMemory {
    /// Maps the file of a shared arena for reading and writing.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self(Mapping::of(fd, ProtFlags::READ | ProtFlags::WRITE)?)))
    }

    /// Maps the file of a shared arena for reading only: the system ends a process that writes there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_to_read(fd: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self(Mapping::of(fd, ProtFlags::READ)?)))
    }

    /// Returns whether bytes are in this mapping.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.0.range().contains(&(bytes.as_ptr() as usize))
    }

    /// Makes an Arrow buffer of bytes that are lent to this process while `owner` lives; `None` if they are out of
    /// range.
    ///
    /// # Safety
    /// No other code writes these bytes as long as `owner` lives, and `owner` keeps this mapping.
    pub unsafe fn buffer(&self, offset: usize, len: usize, owner: Arc<dyn Allocation>) -> Option<Buffer> {
        offset.checked_add(len).filter(|&end| end <= self.0.len)?;
        // SAFETY: within the mapping, which `owner` keeps.
        Some(unsafe { Buffer::from_custom_allocation(self.0.base.add(offset), len, owner) })
    }
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range without an owner of its own; blocks hand out disjoint parts of it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
// A block that a panic left half written is only ever read by its next owner, who writes it first.
impl std::panic::UnwindSafe for Mapping {}
impl std::panic::RefUnwindSafe for Mapping {}

impl Mapping {
    fn private(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        Self::new(base.cast(), len, true)
    }

    fn of(fd: BorrowedFd<'_>, access: ProtFlags) -> io::Result<Self> {
        let len = usize::try_from(rustix::fs::fstat(fd)?.st_size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice; the file never shrinks.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, fd, 0)? };
        Self::new(base.cast(), len, access.contains(ProtFlags::WRITE))
    }

    fn new(base: *mut u8, len: usize, is_writable: bool) -> io::Result<Self> {
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { base, len };
        if is_writable {
            mappings().push(mapping.range());
        }
        mapping.advise(0, len, Usage::Large);
        Ok(mapping)
    }

    fn range(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len
    }

    /// Tells the kernel how a range without an owner will be used. If the kernel ignores it, access is slower, or free
    /// pages stay allocated.
    #[cfg(target_os = "linux")]
    fn advise(&self, offset: usize, len: usize, usage: Usage) {
        use rustix::mm::Advice;
        // The kernel rounds a length up to whole pages, which may be a neighbour's if pages are larger than blocks.
        let page = rustix::param::page_size();
        let (start, end) = (offset.next_multiple_of(page), (offset + len) / page * page);
        if end <= start {
            return;
        }
        let advice = match usage {
            Usage::Large => Advice::LinuxHugepage,
            Usage::None => Advice::LinuxDontNeed,
            Usage::NoneOfFile => Advice::LinuxRemove,
        };
        // SAFETY: within the mapping, and no owner's bytes are lost.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().add(start).cast(), end - start, advice) };
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(&self, _: usize, _: usize, _: Usage) {}
}

/// The address ranges of all arenas that this process has mapped for writing, its own and others'.
static MAPPINGS: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

fn mappings() -> MutexGuard<'static, Vec<Range<usize>>> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether bytes are in an arena: memory that its one owner may write.
pub fn is_in_arena(bytes: &[u8]) -> bool {
    mappings().iter().any(|range| range.contains(&(bytes.as_ptr() as usize)))
}

/// How a range of addresses will be used.
#[derive(Clone, Copy)]
enum Usage {
    Large,
    None,
    NoneOfFile,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        mappings().retain(|range| *range != self.range());
        // SAFETY: nothing refers to the mapping: every block and buffer kept it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(target_os = "linux")]
fn anonymous_file(len: usize) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let fd = rustix::fs::memfd_create("forebay", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, len as u64)?;
    // Processes that map it rely on its length.
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}

#[cfg(not(target_os = "linux"))]
fn anonymous_file(_: usize) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        let arena = Arena::private().expect("addresses");
        let mut blocks: Vec<_> = [1, 70_000, 3 << 20, 3 << 20].map(|n| arena.block(n).expect("a block")).into();
        for (i, block) in blocks.iter_mut().enumerate() {
            block.as_mut_slice().fill(i as u8 + 1);
        }
        for (i, block) in blocks.iter_mut().enumerate() {
            assert!(block.as_mut_slice().iter().all(|&b| b == i as u8 + 1));
            assert_eq!(block.as_ptr().as_ptr() as usize % 64, 0);
        }
        let last = blocks.pop().expect("a block");
        let (at, buffer) = (last.offset, last.into_buffer());
        let slice = buffer.slice_with_length(5, 7);
        drop(buffer);
        assert_ne!(arena.block(3 << 20).expect("a block").offset, at, "a slice still owns the block");
        drop(slice);
        assert_eq!(arena.block((3 << 20) - 5).expect("a block").offset, at);
    }

    #[test]
    fn no_more_than_the_spare_pages_are_kept() {
        let arena = Arena::private().expect("addresses");
        let max = MemoryBudget::default().spare();
        let size = max / 2;
        let mut blocks: Vec<_> = (0..3).map(|_| arena.block(size).expect("a block")).collect();
        blocks.iter_mut().for_each(|b| b.as_mut_slice()[0] = 7);
        drop(blocks);
        assert_eq!(arena.state.lock().expect("no panic").spare_bytes, max);
        // Blocks with pages are used first; the third block is zero again.
        let mut again: Vec<_> = (0..3).map(|_| arena.block(size).expect("a block")).collect();
        assert_eq!(again.iter_mut().map(|b| b.as_mut_slice()[0]).collect::<Vec<_>>(), [7, 7, 0]);
        assert!(arena.block(RESERVED_BYTES).is_none() && arena.block(usize::MAX).is_none());
    }

    #[test]
    fn large_blocks_leave_small_ones_their_pages() {
        let arena = Arena::private().expect("addresses");
        let large = [(); 2].map(|()| arena.block(MemoryBudget::default().spare()).expect("a block"));
        let mut small = arena.block(SMALL_BYTES / 2).expect("a block");
        small.as_mut_slice()[0] = 7;
        drop((large, small));
        assert_eq!(arena.block(SMALL_BYTES / 2).expect("a block").as_mut_slice()[0], 7);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_mapping_sees_the_same_bytes() {
        let arena = Arena::shared().expect("a memfd");
        let mut block = arena.block(1 << 20).expect("a block");
        block.as_mut_slice().fill(9);
        let buffer = block.into_buffer();
        let at = arena.offset_of(&buffer).expect("in the arena");
        let other = SharedMemory::open(arena.fd().expect("a file")).expect("a mapping");
        // SAFETY: no thread writes; the mapping is its own owner.
        let seen = unsafe { other.buffer(at, 1 << 20, other.clone()) }.expect("in range");
        let to_read = SharedMemory::open_to_read(arena.fd().expect("a file")).expect("a mapping");
        // SAFETY: as above.
        let read = unsafe { to_read.buffer(at, 1 << 20, to_read.clone()) }.expect("in range");
        assert!(seen.as_slice() == buffer.as_slice() && read.as_slice() == buffer.as_slice());
        assert_ne!(seen.as_ptr(), buffer.as_ptr());
        assert!(to_read.contains(&read) && !to_read.contains(&seen) && !to_read.contains(&buffer));
        assert!(
            is_in_arena(&seen) && is_in_arena(&buffer) && !is_in_arena(&read),
            "an arena never writes to memory that it maps for reading"
        );
        // SAFETY: refused.
        assert!(unsafe { other.buffer(RESERVED_BYTES, 1, other.clone()) }.is_none());
        assert_eq!(arena.offset_of(&[0; 8]), None);
    }
}

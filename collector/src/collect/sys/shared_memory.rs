//! The segment of a process: its object, and our mapping of it.

use super::{checked, owned};
use gpuspy_wire::segment::{LayoutError, Segment};
use std::ffi::c_void;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Returns the size of a file, bytes. It takes no descriptor of its own, of which there may be none left.
///
/// # Errors
/// As fstat(2).
pub(crate) fn size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: a plain struct for which zeros are a value.
    let mut about: libc::stat = unsafe { zeroed() };
    // SAFETY: fills the struct.
    if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut about) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(about.st_size).unwrap_or(0))
}

/// Checks that an object's pages can neither vanish under a mapping nor fail to appear: it must be a memfd of
/// ordinary pages that is sealed against shrinking and growing. The error completes a sentence that begins with "the
/// object".
pub(crate) fn check_sealed(fd: BorrowedFd<'_>) -> Result<(), &'static str> {
    // linux/fcntl.h (F_SEAL_SHRINK, F_SEAL_GROW): without both, ftruncate by the other side could raise SIGBUS here.
    let needed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: queries a descriptor.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 {
        return Err("is not a memfd");
    }
    if seals & needed != needed {
        return Err("is not sealed against changes of size");
    }
    // SAFETY: a plain struct for which zeros are a value.
    let mut kind: libc::statfs = unsafe { zeroed() };
    // SAFETY: fills the struct.
    let result = unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut kind) };
    // A memfd of huge pages can run out of them, which also raises SIGBUS.
    if result == -1 || kind.f_type != libc::TMPFS_MAGIC {
        return Err("is not made of ordinary pages");
    }
    Ok(())
}

/// Locks a file for as long as this opening of it lasts, however this process ends. Others may lock it, too.
///
/// # Errors
/// As fcntl(2), with F_OFD_SETLK.
pub(crate) fn lock(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a plain struct for which zeros are a value: a lock on the whole file.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = libc::F_RDLCK as libc::c_short;
    // SAFETY: reads the struct.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).map(|_| ())
}

/// A whole shared object, mapped into our memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is plain memory, and all access to it goes through `Segment`, which is Sync.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of an object that [`check_sealed`] accepts. This touches and reserves no page.
    pub(crate) fn new(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<Mapping> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Mapping { base, bytes }) }
    }

    /// Checks and returns the segment in it.
    pub(crate) fn segment(&self) -> Result<Segment<'_>, LayoutError> {
        // SAFETY: `bytes` bytes from the page-aligned `base` stay mapped while `self` lives, which the result borrows;
        // the object is sealed, so every page exists; nothing on this side makes a `&mut` into it.
        unsafe { Segment::attach(self.base.cast(), self.bytes as u64) }
    }
}

impl Mapping {
    /// Takes the pages that were read out of our memory. Their contents stay in the object, and they come back when
    /// they are read again.
    pub(crate) fn release(&self) {
        // SAFETY: our own shared mapping. MADV_DONTNEED discards nothing of a shared object (madvise(2)), so whatever
        // borrows the mapping goes on reading the same values.
        unsafe { libc::madvise(self.base, self.bytes, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is our own mapping, which nothing borrows any more.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

/// Creates a segment's object of `bytes` as the agent does, maps it, and drops it. Do not call this if the file size
/// limit is below `bytes`: growing an object beyond it ends the process.
pub(crate) fn try_segment(bytes: u64) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the name is terminated; the other calls use our own descriptor.
    let fd = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = owned(libc::memfd_create(c"gpuspy-doctor".as_ptr(), flags))?;
        checked(libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t))?;
        checked(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        fd
    };
    check_sealed(fd.as_fd()).map_err(io::Error::other)?;
    Mapping::new(fd.as_fd(), bytes).map(drop)
}

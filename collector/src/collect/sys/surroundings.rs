//! Where this process runs: its user, its terminal, and the descriptors that it inherited.

use super::checked;
use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The user whose permissions this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: this cannot fail.
    unsafe { libc::geteuid() }
}

/// Checks that this process may write into a directory.
pub(crate) fn is_writable(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: the string ends with NUL. AT_EACCESS: check as the effective user, which will write.
    checked(unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS)
    })
    .map(drop)
}

/// The columns and lines of the terminal that a stream is, if it is one.
pub(crate) fn terminal_size(stream: BorrowedFd<'_>) -> Option<(usize, usize)> {
    // SAFETY: a plain struct for which zeros are a value.
    let mut size: libc::winsize = unsafe { zeroed() };
    // SAFETY: fills the struct.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Whether a stream is our terminal and another process group has it: we were started with `&`, or stopped and
/// continued.
pub(crate) fn is_in_background(stream: BorrowedFd<'_>) -> bool {
    // SAFETY: both only query. tcgetpgrp fails if the stream is not a terminal, or not ours.
    let (foreground, ours) = unsafe { (libc::tcgetpgrp(stream.as_raw_fd()), libc::getpgrp()) };
    foreground != -1 && foreground != ours
}

/// Takes an inherited descriptor by its number and sets close-on-exec. `None` if there is none.
///
/// Call this at most once per number, before anything opens descriptors.
pub(crate) fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: sets a flag of a descriptor, if it is open.
    let known = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: it is open, and by the function's contract nothing in this process owns it yet.
    (number > 2 && known == 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes or replaces everything inherited that could keep the starting process or its pipes alive: descriptors except
/// `keep`, standard streams, terminal, working directory. Call this before anything else opens descriptors.
pub(crate) fn leave_everything_but(keep: &OwnedFd) {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<RawFd> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|&fd| fd > 2 && fd != keep.as_raw_fd()) {
        // SAFETY: by the function's contract, nothing in this process owns it. (The directory's own is closed by now.)
        unsafe { libc::close(fd) };
    }
    // SAFETY: replaces the standard streams, which nothing uses any more, by descriptors that stay open.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for stream in 0..3 {
            libc::dup2(null, stream);
        }
        if null > 2 {
            libc::close(null);
        }
        // This fails if we lead a group already, which serves the same purpose.
        libc::setsid();
        libc::chdir(c"/".as_ptr());
    }
}

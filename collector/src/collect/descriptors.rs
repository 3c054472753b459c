//! How many descriptors may the collector have? A session takes about eight, and one for each thread whose time is sampled, so that
//! the usual limit of 1024 is that of a dozen busy programs.

use super::sys;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The limit that this process was started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited(libc::rlimit);

/// Raises the limit of this process to the highest that it may set. (What is kept low for `select(2)` is no matter here.)
pub(crate) fn raise_limit() -> Inherited {
    let (rlim_cur, rlim_max) = sys::limit(libc::RLIMIT_NOFILE);
    if rlim_cur < rlim_max {
        set(libc::rlimit { rlim_cur: rlim_max, rlim_max });
    }
    Inherited(libc::rlimit { rlim_cur, rlim_max })
}

impl Inherited {
    /// Makes `command` start with this limit.
    pub(crate) fn restore_in(self, command: &mut Command) {
        let restore = move || {
            set(self.0);
            Ok(())
        };
        // SAFETY: the closure makes one system call and neither allocates nor locks.
        unsafe { command.pre_exec(restore) };
    }
}

/// If it fails, the limit stays as it is.
fn set(limit: libc::rlimit) {
    // SAFETY: reads the struct.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// Whether a descriptor leaves half of all numbers to sessions, which cannot begin without theirs.
pub(crate) fn is_spare(descriptor: BorrowedFd<'_>) -> bool {
    (descriptor.as_raw_fd() as u64) < sys::limit(libc::RLIMIT_NOFILE).0 / 2
}

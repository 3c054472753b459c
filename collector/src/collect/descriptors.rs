//! How many descriptors may the collector have? A session takes about eight, and one for each thread whose time is sampled, so that
//! the usual limit of 1024 is that of a dozen busy programs.

use super::sys;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
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

/// The most descriptors that a session takes before it records: its connection, its segment (twice for a moment), its process, what is
/// read of that in `/proc`, and its trace, with one more for what others may take meanwhile.
pub(crate) const OF_A_SESSION: usize = 8;

/// Those that each session takes more while it records: to read how long a thread has run, and for a moment what else is in `/proc`.
pub(crate) const OF_A_RUNNING_SESSION: usize = 2;

/// Whether this many descriptors can be opened: copies of this one are, for a moment.
pub(crate) fn are_free(count: usize, descriptor: BorrowedFd<'_>) -> bool {
    let copies: io::Result<Vec<OwnedFd>> = (0..count).map(|_| descriptor.try_clone_to_owned()).collect();
    !copies.is_err_and(|e| e.raw_os_error() == Some(libc::EMFILE))
}

/// Whether a descriptor leaves half of all numbers to sessions, which cannot begin without theirs.
pub(crate) fn is_spare(descriptor: BorrowedFd<'_>) -> bool {
    (descriptor.as_raw_fd() as u64) < sys::limit(libc::RLIMIT_NOFILE).0 / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// A process was accepted for which there were no descriptors, and lost its trace.
    #[test]
    fn more_descriptors_than_the_limit_are_not_free() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(are_free(OF_A_SESSION, null.as_fd()));
        // Without the memory for all of them: the system's own limit on one process is far below.
        let most = sys::limit(libc::RLIMIT_NOFILE).0 as usize;
        if most <= 1 << 20 {
            assert!(!are_free(most, null.as_fd()), "some are open");
            assert!(are_free(1, null.as_fd()), "none of the copies is left");
        }
    }
}

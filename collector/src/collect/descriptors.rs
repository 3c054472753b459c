//! How many descriptors may the collector have? A session takes about eight, and one for each thread whose time is sampled, so that
//! the usual limit of 1024 is that of a dozen busy programs.

use super::sys;
use std::ffi::c_int;
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

/// The most descriptors that a session takes before it records: its connection, its segment (twice for a moment), its process, what is
/// read of that in `/proc`, and its trace, with one more for what others may take meanwhile.
pub(crate) const OF_A_SESSION: usize = 8;

/// Those that each session takes more while it records: to read how long a thread has run, and for a moment what else is in `/proc`.
pub(crate) const OF_A_RUNNING_SESSION: usize = 2;

/// Whether this many descriptors can be opened. None is, not even for a moment: a session that begins could miss it then.
pub(crate) fn are_free(count: usize) -> bool {
    // The system gives the lowest number that is free, so that the highest ones mostly are.
    let numbers = (0..sys::limit(libc::RLIMIT_NOFILE).0.min(c_int::MAX as u64) as c_int).rev();
    // SAFETY: fails for a number that is no descriptor, and changes nothing.
    let is_free = |number: &c_int| unsafe { libc::fcntl(*number, libc::F_GETFD) } == -1;
    numbers.filter(is_free).take(count).count() == count
}

/// Whether a descriptor leaves half of all numbers to sessions, which cannot begin without theirs.
pub(crate) fn is_spare(descriptor: BorrowedFd<'_>) -> bool {
    (descriptor.as_raw_fd() as u64) < sys::limit(libc::RLIMIT_NOFILE).0 / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A process was accepted for which there were no descriptors, and lost its trace.
    #[test]
    fn more_descriptors_than_the_limit_are_not_free() {
        assert!(are_free(OF_A_SESSION));
        let open: Vec<File> = (0..100).map(|_| File::open("/dev/null").unwrap()).collect();
        limit_to(open[99].as_raw_fd() as u64 + 5);
        assert!(are_free(4) && !are_free(5));
        drop(open);
        assert!(are_free(104) && !are_free(120));
    }

    /// It was found out by opening as many, and a session that received its segment at that moment lost its trace.
    #[test]
    fn nobody_lacks_a_descriptor_while_it_is_found_out_whether_there_are_some() {
        let last = File::open("/dev/null").unwrap();
        limit_to(last.as_raw_fd() as u64 + 9);
        std::thread::scope(|threads| {
            let asking = threads.spawn(|| (0..20_000).filter(|_| are_free(8)).count());
            while !asking.is_finished() {
                File::open("/dev/null").unwrap();
            }
        });
    }

    fn limit_to(most: u64) {
        let hard = sys::limit(libc::RLIMIT_NOFILE).1;
        set(libc::rlimit { rlim_cur: most, rlim_max: hard });
    }
}

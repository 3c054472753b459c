//! The agent's own descriptors: the shared memory, and the connection to the collector.
//!
//! The app may close one and put a file of its own at the number, so what is there is looked at before each use. A forked child
//! has copies. They would keep the connection open when its parent has ended or has become another program, so the child
//! closes them.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// A descriptor of ours.
pub struct Own {
    /// Its number; -1 = there is none. Release by the thread that opens it, acquire by others: the rest.
    number: AtomicI32,
    /// The device and the inode of its file. Relaxed: published by `number`.
    file: [AtomicU64; 2],
    /// The process that has opened it. Relaxed: as above.
    owner: AtomicU32,
}

/// That of the shared memory.
pub static SEGMENT: Own = Own::none();
/// That of the connection to the collector.
pub static CONNECTION: Own = Own::none();

impl Own {
    const fn none() -> Own {
        Own { number: AtomicI32::new(-1), file: [const { AtomicU64::new(0) }; 2], owner: AtomicU32::new(0) }
    }

    /// Keeps the number of one that was opened.
    pub fn keep(&self, number: c_int) {
        let Some((device, inode)) = identity(number) else { return };
        for (place, value) in self.file.iter().zip([device, inode]) {
            place.store(value, Ordering::Relaxed);
        }
        self.owner.store(sys::pid(), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    /// Returns its number, if it is still open.
    pub fn number(&self) -> Option<c_int> {
        let number = self.number.load(Ordering::Acquire);
        let [device, inode] = self.file.each_ref().map(|place| place.load(Ordering::Relaxed));
        (number >= 0 && identity(number) == Some((device, inode))).then_some(number)
    }

    /// Whether it is a connection that the other end has closed.
    pub fn is_hung_up(&self) -> bool {
        let Some(fd) = self.number() else { return false };
        let mut polled = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one struct of ours.
        let count = unsafe { libc::poll(&mut polled, 1, 0) };
        count == 1 && polled.revents & libc::POLLHUP != 0
    }

    /// Whether another process holds a lock on the file (F_OFD_GETLK, fcntl(2)). `None`: nobody can tell, as where it is closed.
    pub fn is_locked(&self) -> Option<bool> {
        let number = self.number()?;
        // SAFETY: all-zero is a lock on the whole file.
        let mut lock: libc::flock = unsafe { core::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as i16;
        // SAFETY: only looks which lock is in the way of this one, and writes the struct of ours.
        let result = unsafe { libc::fcntl(number, libc::F_OFD_GETLK, &mut lock) };
        (result == 0).then_some(lock.l_type != libc::F_UNLCK as i16)
    }

    /// Closes the copy that this process has of its parent's.
    fn close_copy(&self) {
        if self.owner.load(Ordering::Relaxed) == sys::pid() {
            return; // a handler of the app's has called CUDA before ours has run
        }
        if let Some(number) = self.number() {
            // SAFETY: ours, and this process has one thread.
            unsafe { libc::close(number) };
        }
        self.number.store(-1, Ordering::Relaxed);
    }
}

/// Has forked children close their copies from now on.
pub fn close_in_children() {
    static HANDLED: AtomicBool = AtomicBool::new(false);
    extern "C" fn child() {
        let errno = sys::Errno::save();
        let _whole = sys::Uncancelled::new();
        [&SEGMENT, &CONNECTION].into_iter().for_each(Own::close_copy);
        errno.restore();
    }
    // Without memory for the handler, they keep them.
    sys::handle_children(&HANDLED, child);
}

/// Returns the device and inode of a descriptor's file. `None`: it is closed.
pub fn identity(fd: c_int) -> Option<(u64, u64)> {
    // SAFETY: all-zero is a stat.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: writes the struct we own.
    (unsafe { libc::fstat(fd, &mut stat) } == 0).then_some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no Unix sockets")]
    fn a_connection_is_hung_up_when_its_other_end_is_closed_and_not_when_a_line_waits_there() {
        let own = Own::none();
        assert!(own.number().is_none() && !own.is_hung_up());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        own.keep(ours.as_raw_fd());
        assert_eq!(own.number(), Some(ours.as_raw_fd()));
        std::io::Write::write_all(&mut theirs, b"begun\n").unwrap();
        assert!(!own.is_hung_up());
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!own.is_hung_up(), "only our side is closed");
        drop(theirs);
        assert!(own.is_hung_up());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no locks of files")]
    fn a_lock_is_seen_as_long_as_its_holder_has_the_file_open() {
        let own = Own::none();
        assert_eq!(own.is_locked(), None);
        // SAFETY: makes a descriptor of ours.
        let number = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
        own.keep(number);
        assert_eq!(own.is_locked(), Some(false));
        let path = format!("/proc/self/fd/{number}");
        let holder = std::fs::File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: all-zero is a lock on the whole file, and the descriptor is open.
        unsafe {
            let mut lock: libc::flock = core::mem::zeroed();
            lock.l_type = libc::F_RDLCK as i16;
            assert_eq!(libc::fcntl(holder.as_raw_fd(), libc::F_OFD_SETLK, &lock), 0);
        }
        assert_eq!(own.is_locked(), Some(true));
        drop(holder);
        assert_eq!(own.is_locked(), Some(false));
        // SAFETY: the test's own.
        unsafe { libc::close(number) };
        assert_eq!(own.is_locked(), None);
    }

    /// It kept the connection of a parent that had become another program.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fork(2)")]
    fn a_child_closes_its_copy_and_nothing_that_has_the_number_since() {
        let own = Own::none();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let number = ours.into_raw_fd();
        own.keep(number);
        own.close_copy();
        assert_eq!(own.number(), Some(number), "it is this process's own");
        // Runs in a child, and returns whether the number is open there afterwards.
        let is_open_in_child = |before: &dyn Fn()| {
            // SAFETY: the child makes a few system calls and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    before();
                    own.close_copy();
                    libc::_exit(i32::from(identity(number).is_some()));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                libc::WEXITSTATUS(status) == 1
            }
        };
        assert!(!is_open_in_child(&|| {}));
        // SAFETY: takes numbers.
        assert!(is_open_in_child(&|| unsafe { _ = libc::dup2(theirs.as_raw_fd(), number) }));
        // SAFETY: the test's own.
        unsafe { libc::close(number) };
    }
}

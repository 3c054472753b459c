//! Which system calls does collecting need beyond the standard library? Each is behind a safe function here, and all
//! unsafe code of collecting is in this module.

mod aborts;
mod children;
mod clocks;
mod limits;
mod shared_memory;
mod signals;
mod sockets;
mod surroundings;

pub(crate) use aborts::{end_as, last_words, watch_over, watched_ended};
pub use children::ended;
pub(crate) use children::{pidfd_open, reap_all_but, wait_status};
pub(crate) use clocks::{counter, monotonic_raw, tick};
pub(crate) use limits::{be_the_first_without_memory, bound_free_memory, limit, lower_priority, trim_memory};
pub(crate) use shared_memory::{Mapping, check_sealed, lock, size, try_segment};
pub(crate) use signals::{
    Arrived, Mask, Signals, end_by, ignore_signals, is_ignored, keep_statuses, send_signal,
    survive_size_limit,
};
pub(crate) use sockets::{is_hung_up, is_listened_on, listen, peer_pid, peer_pidfd, receive};
pub(crate) use surroundings::{
    inherited, is_in_background, is_writable, leave_everything_but, terminal_size, user,
};

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The result of a system call that returns −1 on error.
fn checked(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just made this descriptor for us, and nothing else owns it.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A timeout of [`wait`] that nothing but what is waited for ends.
pub(crate) const FOREVER: Duration = Duration::from_secs(3600);

/// Waits until one of the descriptors is readable or closed by its other end, or until the timeout; returns which
/// ones are. A signal ends the wait like the timeout.
pub(crate) fn wait<const N: usize>(
    descriptors: [Option<BorrowedFd<'_>>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    // The kernel ignores negative descriptors.
    let mut polled = descriptors.map(|fd| libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    let milliseconds = timeout.as_millis().min(c_int::MAX as u128) as c_int;
    // SAFETY: the length passed is that of the array.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, milliseconds) };
    match checked(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok([false; N]),
        Ok(_) => Ok(polled.map(|p| p.revents != 0)),
    }
}

/// Makes a pipe that is never written to: its reading end becomes readable when [`Stop`] is dropped, for any number
/// of waiters.
pub(crate) fn stop() -> io::Result<(Stop, Stopped)> {
    let (reader, writer) = io::pipe()?;
    Ok((Stop(writer.into()), Stopped(reader.into())))
}

/// Ends all waits on its [`Stopped`] when dropped.
#[derive(Debug)]
pub(crate) struct Stop(#[expect(dead_code, reason = "held for its drop")] OwnedFd);

/// Readable once its [`Stop`] has been dropped.
#[derive(Debug)]
pub(crate) struct Stopped(OwnedFd);

impl AsFd for Stopped {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

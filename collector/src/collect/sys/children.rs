//! Other processes: whether they have ended, and how.

use super::owned;
use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

/// Opens a descriptor that becomes readable when the process ends.
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers; the descriptor it returns has close-on-exec set.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) } as c_int)
}

/// The wait(2) status of the process behind a pidfd, once its parent has waited for it. `None` before that, and if
/// the kernel does not support it (before Linux 6.15).
pub(crate) fn wait_status(pidfd: BorrowedFd<'_>) -> Option<c_int> {
    /// `struct pidfd_info` of linux/pidfd.h in its first version, 64 bytes.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<Info>() == 64);
    /// PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info).
    const GET_INFO: libc::Ioctl = libc::_IOWR::<Info>(0xff, 11);
    /// PIDFD_INFO_EXIT.
    const EXIT: u64 = 1 << 3;
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: the request number contains the struct's size; the kernel fills the struct and keeps no pointer.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    (result == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

/// How a child has ended, or `None` while it runs. It stays a zombie, to be waited for.
pub fn ended(pid: u32) -> io::Result<Option<ExitStatus>> {
    let found = one_that_ended(libc::P_PID, pid, libc::WNOHANG)?;
    Ok(found.map(|(_, status)| ExitStatus::from_raw(status)))
}

/// Waits until a child has ended, which stays a zombie. Returns its status of wait(2), or `None` if it is no child. It is
/// async-signal-safe.
pub(super) fn wait_for_end(pid: u32) -> Option<c_int> {
    loop {
        match one_that_ended(libc::P_PID, pid, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            found => return found.ok().flatten().map(|(_, status)| status),
        }
    }
}

/// Waits for all children that have ended, except for this one, if any: others were inherited from processes that have ended.
pub(crate) fn reap_all_but(pid: Option<u32>) {
    while let Ok(Some((other, _))) = one_that_ended(libc::P_ALL, 0, libc::WNOHANG)
        && Some(other) != pid
    {
        // SAFETY: it asks for no status.
        unsafe { libc::waitpid(other as libc::pid_t, ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Returns one of these children that has ended, if there is one, and its status of wait(2). It stays a zombie. `how` is WNOHANG, or 0
/// to wait for one.
fn one_that_ended(which: libc::idtype_t, id: libc::id_t, how: c_int) -> io::Result<Option<(u32, c_int)>> {
    // SAFETY: all zeros are a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: fills the struct, which we own.
    if unsafe { libc::waitid(which, id, &mut info, libc::WEXITED | libc::WNOWAIT | how) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid has filled it in, or left it zero if all of them still run.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    // wait(2): what waitid tells apart is one number there.
    let status = match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Ok((pid != 0).then_some((pid as u32, status)))
}

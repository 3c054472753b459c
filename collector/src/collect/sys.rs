//! Which system calls does collecting need beyond the standard library? Each is behind a safe function here, and all
//! unsafe code of collecting is in this module.

use gpuspy_wire::segment::{LayoutError, Segment};
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The result of a system call that returns −1 on error.
fn checked(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just made this descriptor for us, and nothing else owns it.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The most descriptors that a message may bring; the kernel discards further ones.
const MOST_DESCRIPTORS: usize = 4;

/// Calls `recvmsg` once: fills `buffer` from its start and takes the descriptors that came with the message.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    /// Room for a control message, aligned as one.
    #[repr(C)]
    union Control {
        header: libc::cmsghdr,
        room: [u8; 64],
    }
    // SAFETY: only computes a number.
    let space = unsafe { libc::CMSG_SPACE((MOST_DESCRIPTORS * size_of::<c_int>()) as u32) } as usize;
    assert!(space <= size_of::<Control>());
    let mut control = Control { room: [0; 64] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a plain struct for which zeros are a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = space as _;
    // SAFETY: `message` points at a buffer and a control area that outlive the call and are as long as it says.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has filled the control area with `msg_controllen` bytes of well-formed control messages, which
    // is what the CMSG macros walk; a SCM_RIGHTS message holds descriptors that are now ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for n in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(n).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((count as usize, descriptors))
}

/// The process at the other end of a Unix socket, by `SO_PEERCRED`: its pid in our namespace, 0 if it has none there.
pub(crate) fn peer_pid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the option is a `ucred`, which any bytes are.
    let peer: libc::ucred = unsafe { socket_option(socket, libc::SO_PEERCRED) }?;
    Ok(peer.pid.max(0) as u32)
}

/// A descriptor as [`pidfd_open`] opens it, of the process at the other end of a Unix socket. Since Linux 6.5; since 6.16
/// also of one that has ended and been waited for.
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// `SO_PEERPIDFD` of asm-generic/socket.h, which x86-64 and aarch64 use.
    const PEER_PIDFD: c_int = 77;
    // SAFETY: the option is a new descriptor, which has close-on-exec set.
    owned(unsafe { socket_option(socket, PEER_PIDFD) }?)
}

/// Whether a process listens on the Unix socket at a path. This does not wait until the process accepts: it may have been stopped.
///
/// # Errors
/// Fails if there is no such socket, or if this process may not connect to it.
pub(crate) fn is_listened_on(path: &Path) -> io::Result<bool> {
    // SAFETY: a plain struct for which zeros are a value.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // One byte stays zero: it terminates the path.
    if bytes.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes three numbers.
    let ours = owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the length passed is that of the struct.
    let result = unsafe { libc::connect(ours.as_raw_fd(), (&raw const address).cast(), length) };
    match checked(result) {
        Ok(_) => Ok(true),
        // As many connections wait to be accepted as may (connect(2): EAGAIN).
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads an option of a socket.
///
/// # Safety
/// The kernel fills a `T` for it, or a part of one, and zeros are a `T`.
unsafe fn socket_option<T>(socket: BorrowedFd<'_>, option: c_int) -> io::Result<T> {
    // SAFETY: as the caller promises.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: `value` is as long as `length` says.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut length)
    })?;
    Ok(value)
}

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

/// Bounds what libc keeps of freed memory, for the rest of the process's life. By itself it makes eight heaps for each
/// processor, and keeps up to 64 MiB of each: it raises its threshold with every large block that is freed.
pub(crate) fn bound_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        // Each heap reserves 64 MiB of address space.
        let heaps = if limit(libc::RLIMIT_AS).0 < 1 << 30 { 1 } else { 8 };
        const KEPT: c_int = 1 << 20;
        for (parameter, value) in
            [(libc::M_ARENA_MAX, heaps), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_MMAP_THRESHOLD, KEPT)]
        {
            // SAFETY: takes numbers, and locks the heap itself.
            unsafe { libc::mallopt(parameter, value) };
        }
    }
}

/// Gives memory that is free back to the system: libc keeps what the threads of a session have freed.
pub(crate) fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and locks each of libc's arenas itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is our own mapping, which nothing borrows any more.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
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

/// Whether the other end of a connection was closed, and not only for sending.
pub(crate) fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one struct of ours.
    let count = unsafe { libc::poll(&raw mut polled, 1, 0) };
    count == 1 && polled.revents & libc::POLLHUP != 0
}

/// `CLOCK_MONOTONIC_RAW`, ns.
pub(crate) fn monotonic_raw() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct. The clock exists on every Linux that runs CUDA, so this cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The length of the kernel's tick, ns: the resolution of its coarse clocks (clock_getres(2)). If it does not say, 10 ms,
/// the longest.
pub(crate) fn tick() -> u64 {
    let mut length = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut length) };
    if result == 0 { length.tv_sec as u64 * 1_000_000_000 + length.tv_nsec as u64 } else { 10_000_000 }
}

/// Reads the counter that [`gpuspy_wire::segment::HostClock::Counter`] names, after everything before it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn counter() -> u64 {
    // SAFETY: both instructions exist on every x86-64.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

/// Reads the counter that [`gpuspy_wire::segment::HostClock::Counter`] names, after everything before it.
#[cfg(target_arch = "aarch64")]
pub(crate) fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user space read CNTVCT_EL0.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Signals that are delivered through a descriptor instead of a handler.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    numbers: Vec<c_int>,
    before: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) number: c_int,
    /// Whether the kernel sent it: if for a key of the terminal, it went to the whole foreground group; if for a limit, that is
    /// this process's.
    pub(crate) from_kernel: bool,
}

impl Signals {
    /// Blocks the signals in the calling thread and in threads that it starts later. Call this before any other
    /// thread exists.
    pub(crate) fn block(numbers: &[c_int]) -> io::Result<Signals> {
        // SAFETY: signal sets are plain; each call gets a valid one.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            let mut before: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            for &number in numbers {
                libc::sigaddset(&raw mut set, number);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            let fd = owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(Signals { fd, numbers: numbers.to_vec(), before })
        }
    }

    /// Waits for a signal.
    pub(crate) fn wait(&self) -> io::Result<Arrived> {
        loop {
            if let Some(arrived) = self.next()? {
                return Ok(arrived);
            }
            wait([Some(self.fd.as_fd())], FOREVER)?;
        }
    }

    /// The next signal, if one has arrived. One that the descriptor was readable for may be gone: threads that others start
    /// in this process do not block it.
    pub(crate) fn next(&self) -> io::Result<Option<Arrived>> {
        // SAFETY: a plain struct for which zeros are a value.
        let mut info: libc::signalfd_siginfo = unsafe { zeroed() };
        let length = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the length passed is that of the struct.
        let count = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), length) };
        if count == length as isize {
            // sigaction(2): SI_KERNEL for signals from the terminal driver, 0 or less for signals from a process.
            return Ok(Some(Arrived { number: info.ssi_signo as c_int, from_kernel: info.ssi_code > 0 }));
        }
        match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            error => Err(error),
        }
    }

    /// Makes `command` start with the signal mask from before [`block`](Signals::block).
    pub(crate) fn restore_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let before = self.before;
        let restore = move || {
            // SAFETY: `before` is a signal set; the call is async-signal-safe.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: the closure makes one async-signal-safe call and neither allocates nor locks.
        unsafe { command.pre_exec(restore) }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    /// Discards pending signals. Later ones do what they did before [`block`](Signals::block): nothing if this process was started
    /// with them ignored, as SIGHUP by nohup.
    fn drop(&mut self) {
        for &number in &self.numbers {
            // SAFETY: a plain struct for which zeros are a value, filled before it is used. Ignoring a signal runs no code of ours,
            // and discards it if it is pending.
            unsafe {
                let mut action: libc::sigaction = zeroed();
                if libc::sigaction(number, ptr::null(), &raw mut action) == 0 {
                    libc::signal(number, libc::SIG_IGN);
                    libc::sigaction(number, &raw const action, ptr::null_mut());
                }
            }
        }
        // SAFETY: `before` is a signal set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

/// Sends a signal. It is no error if the process has already ended.
pub(crate) fn send_signal(pid: u32, number: c_int) {
    // SAFETY: takes two numbers.
    unsafe { libc::kill(pid as libc::pid_t, number) };
}

/// Ends this process by a signal, so that its parent sees a program that was ended by it: a shell ends a script or a loop after
/// Ctrl-C only then. Returns if the signal ends nothing, as PID 1 is not ended by those that it sends to itself.
pub(crate) fn end_by(number: c_int) {
    // SAFETY: the default action runs no code of ours; a signal set for which zeros are storage, made empty before it is used; the
    // thread's own mask.
    unsafe {
        // No core dump of this process, as timeout(1) does it: a limit of 0 does not keep it from a program (core(5)).
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(number, libc::SIG_DFL);
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, number);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(number);
    }
}

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(number: c_int) -> bool {
    // SAFETY: a plain struct for which zeros are a value.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: fills the struct, and changes nothing.
    let result = unsafe { libc::sigaction(number, ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Whether this process was started with SIGPIPE ignored. Relaxed: it is set before the process has a second thread.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`: what comes first there is Rust's runtime, which ignores SIGPIPE in this process and no longer knows what
/// was inherited.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        PIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    }
    before_main
};

/// The signals that this process was started to ignore or not, and treats as it needs itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    is_pipe_ignored: bool,
    is_child_ignored: bool,
}

impl Inherited {
    /// Makes `command` ignore them or not as this process was started to. The standard library would have it not ignore SIGPIPE.
    pub(crate) fn restore_in(self, command: &mut Command) {
        let restore = move || {
            for (number, ignore) in
                [(libc::SIGPIPE, self.is_pipe_ignored), (libc::SIGCHLD, self.is_child_ignored)]
            {
                // SAFETY: neither runs code of ours; the call is async-signal-safe.
                unsafe { libc::signal(number, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }) };
            }
            Ok(())
        };
        // SAFETY: the closure makes two async-signal-safe calls and neither allocates nor locks.
        unsafe { command.pre_exec(restore) };
    }
}

/// Lets children leave their status, which they do not where SIGCHLD was inherited as ignored. Returns what a program is to inherit.
pub(crate) fn keep_statuses() -> Inherited {
    let is_child_ignored = is_ignored(libc::SIGCHLD);
    // SAFETY: restores the default action, which interrupts nothing.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    Inherited { is_pipe_ignored: PIPE_WAS_IGNORED.load(Ordering::Relaxed), is_child_ignored }
}

/// Ignores signals for the rest of the process's life.
pub(crate) fn ignore_signals(numbers: &[c_int]) {
    for &number in numbers {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// The signals that a thread blocks.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl Mask {
    /// Blocks all signals in this thread, so that those to the process reach a thread that waits for them. Returns what it
    /// blocked before.
    pub(crate) fn block_all() -> Mask {
        // SAFETY: signal sets are plain; each call gets a valid one, and changes the thread's own mask alone.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Mask(before)
        }
    }

    /// Has this thread block these, and no others.
    pub(crate) fn restore(self) {
        // SAFETY: a signal set; the thread's own mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Makes the kernel end this process before others when memory runs out (proc_pid_oom_score_adj(5)), unless others would be ended
/// with it.
pub(crate) fn be_the_first_without_memory() {
    let ours = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !ends_together(Path::new("/sys/fs/cgroup"), &ours) {
        // Any process may raise its own. Where there is no /proc, the kernel chooses as it would.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
}

/// Whether the kernel ends a process together with all others of its group, or of one above, when memory runs out: such a group has
/// `memory.oom.group` set, as containers of Kubernetes have (Linux, cgroup-v2.rst). `ours`: the process's `/proc/PID/cgroup`.
///
/// A container sees its own group as the root of the hierarchy, whatever the path in `ours` is; the machine's root has no such file.
fn ends_together(hierarchy: &Path, ours: &str) -> bool {
    let path = ours.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let group = hierarchy.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|folder| folder.starts_with(hierarchy));
    groups.chain([hierarchy]).any(|folder| {
        std::fs::read_to_string(folder.join("memory.oom.group")).is_ok_and(|value| value.trim() == "1")
    })
}

/// Lets a write beyond the file size limit (RLIMIT_FSIZE) fail in this thread instead of ending the process.
pub(crate) fn survive_size_limit() {
    // SAFETY: a signal set for which zeros are storage, made empty by the first call; the thread's own mask.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

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

/// A limit of this process: the present value, and the maximum. `RLIM_INFINITY` if the system does not say.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills the struct.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
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

/// The width in columns of the terminal that a stream is, if it is one.
pub(crate) fn terminal_width(stream: BorrowedFd<'_>) -> Option<usize> {
    // SAFETY: a plain struct for which zeros are a value.
    let mut size: libc::winsize = unsafe { zeroed() };
    // SAFETY: fills the struct.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col.into())
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

/// Lowers this process's priority a little.
pub(crate) fn lower_priority() {
    // SAFETY: takes numbers. If it fails, only scheduling differs.
    unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, 5) };
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

/// Whether a child has ended. It stays a zombie, to be waited for.
pub fn has_ended(pid: u32) -> io::Result<bool> {
    Ok(one_that_ended(libc::P_PID, pid)?.is_some())
}

/// Waits for all children that have ended, except for this one: others were inherited from processes that have ended.
pub(crate) fn reap_all_but(pid: u32) {
    while let Ok(Some(other)) = one_that_ended(libc::P_ALL, 0)
        && other != pid
    {
        // SAFETY: it asks for no status.
        unsafe { libc::waitpid(other as libc::pid_t, ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Returns one of these children that has ended, if there is one. It stays a zombie.
fn one_that_ended(which: libc::idtype_t, id: libc::id_t) -> io::Result<Option<u32>> {
    // SAFETY: all zeros are a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: fills the struct, which we own.
    if unsafe { libc::waitid(which, id, &mut info, options) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid has filled it in, or left it zero if all of them still run.
    let pid = unsafe { info.si_pid() };
    Ok((pid != 0).then_some(pid as u32))
}

#[cfg(test)]
mod tests {
    use super::{Signals, ends_together, ignore_signals, is_ignored, is_listened_on};
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Connecting waited for the collector of another run that was stopped (Ctrl-Z), and no further run began.
    #[test]
    fn who_listens_is_known_without_waiting_until_a_full_queue_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        assert!(is_listened_on(&socket).is_err(), "there is no socket");
        let listener = UnixListener::bind(&socket).unwrap();
        // SAFETY: lets one connection wait to be accepted.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let waiting = UnixStream::connect(&socket).unwrap();
        assert!(is_listened_on(&socket).unwrap(), "the queue is full");
        drop(waiting);
        drop(listener);
        assert!(!is_listened_on(&socket).unwrap(), "nobody listens");
    }

    /// Under nohup, a hangup ended gpuspy while it made the report.
    #[test]
    fn a_signal_that_was_ignored_is_ignored_again_when_it_is_no_longer_watched_for() {
        // No other test uses it.
        let number = libc::SIGWINCH;
        for was_ignored in [false, true] {
            if was_ignored {
                ignore_signals(&[number]);
            }
            let signals = Signals::block(&[number]).unwrap();
            // SAFETY: the signal is blocked in this thread.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(signals.wait().unwrap().number, number, "it arrives all the same");
            // SAFETY: as above.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            drop(signals);
            assert_eq!(is_ignored(number), was_ignored);
        }
    }

    /// The kernel would have ended the whole container if the collector asked to be the first without memory.
    #[test]
    fn a_collector_in_a_group_that_ends_together_is_seen() {
        let hierarchy = tempfile::tempdir().unwrap();
        let root = hierarchy.path();
        let set = |group: &str, value: &str| {
            let folder = root.join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.oom.group"), value).unwrap();
        };
        let machine = "9:memory:/elsewhere\n0::/pods/pod/train\n";
        assert!(!ends_together(root, machine), "no such group");
        for group in ["pods", "pods/pod", "pods/pod/train", "elsewhere"] {
            set(group, "0\n");
        }
        assert!(!ends_together(root, machine), "no group has it set");
        set("elsewhere", "1\n");
        assert!(!ends_together(root, machine), "another group has it set");
        set("pods/pod", "1\n");
        assert!(ends_together(root, machine), "the group above has it set");
        set("pods/pod", "0\n");
        set("pods/pod/train", "1\n");
        assert!(ends_together(root, machine), "the process's own group has it set");
        // A container: its own group is the root, and the path may be one of the machine's, which it does not see.
        for ours in ["0::/\n", "0::/kubepods/pod/container\n", "0::/../..\n", "9:memory:/elsewhere\n", ""] {
            assert!(!ends_together(root, ours), "{ours:?}");
        }
        set("", "1\n");
        for ours in ["0::/\n", "0::/kubepods/pod/container\n", "0::/../..\n", "9:memory:/elsewhere\n", ""] {
            assert!(ends_together(root, ours), "{ours:?}");
        }
    }
}

//! Signals: which arrive, which are ignored, and what children inherit of that.

use super::{FOREVER, owned, wait};
use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

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
        end_without_poll();
    }
    before_main
};

/// Ends this process with a sentence where a filter refuses poll(2). Rust's runtime, which asks it for the standard streams, would end it
/// by SIGABRT.
#[cfg(not(test))]
fn end_without_poll() {
    const SENTENCE: &[u8] = b"gpuspy: this system refuses poll(2), without which gpuspy collects nothing: allow it, or run the program without gpuspy\n";
    let tolerated = [libc::EINTR, libc::EINVAL, libc::EAGAIN, libc::ENOMEM];
    // SAFETY: no descriptors; the sentence's bytes; _exit runs nothing.
    unsafe {
        if libc::poll(ptr::null_mut(), 0, 0) == -1 && !tolerated.contains(&*libc::__errno_location()) {
            libc::write(libc::STDERR_FILENO, SENTENCE.as_ptr().cast(), SENTENCE.len());
            libc::_exit(2);
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::{Signals, ignore_signals, is_ignored};

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
}

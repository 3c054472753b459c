//! What the agent needs of the machine and of libc: clocks, ids, waiting, the environment.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use gpuspy_wire::segment::HostClock;
use gpuspy_wire::switch;
use std::ffi::CString;

unsafe extern "C" {
    /// What pthread_atfork(3) calls with the library that the handlers end with. It is in libc, where the other is in
    /// libpthread before glibc 2.34.
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
}

/// Has fork(3) call these functions of ours: before it, and after it in the parent and in the child. Returns false if there is no
/// memory for that.
pub fn handle_forks(
    prepare: Option<extern "C" fn()>,
    parent: Option<extern "C" fn()>,
    child: extern "C" fn(),
) -> bool {
    // SAFETY: libc's function with this prototype; the handlers are functions of this library, which is never unloaded.
    unsafe { __register_atfork(prepare, parent, Some(child), core::ptr::null_mut()) == 0 }
}

/// Has fork(3) call a function of ours in children from now on; `handled` says whether it does already. (What is made by other ways, clone(2),
/// _Fork(3) and vfork(2), calls no handlers.) Returns false if there is no memory for that.
pub fn handle_children(handled: &AtomicBool, child: extern "C" fn()) -> bool {
    // Relaxed: a second handler, which two threads may register, has nothing to do.
    if handled.load(Ordering::Relaxed) {
        return true;
    }
    let is_handled = handle_forks(None, None, child);
    handled.fetch_or(is_handled, Ordering::Relaxed);
    is_handled
}

/// Where a hook was called from.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The return address, which says which library called.
    pub address: u64,
    /// The hook's frame: an outer hook that is still running has a higher one (stacks grow down).
    pub frame: u64,
}

/// Expands to the [`Caller`] of the function that it is used in. That function must have a frame of its own, so it must
/// never be inlined; build.rs turns frame pointers on.
macro_rules! caller {
    () => {{
        let (address, frame): (u64, u64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: with frame pointers forced, rbp is this function's frame and [rbp + 8] its return address.
        unsafe {
            core::arch::asm!("mov {f}, rbp", "mov {a}, [rbp + 8]", a = out(reg) address, f = out(reg) frame,
                options(nostack, readonly, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: with frame pointers forced, x29 is this function's frame record and [x29 + 8] its return address.
        unsafe {
            core::arch::asm!("mov {f}, x29", "ldr {a}, [x29, 8]", a = out(reg) address, f = out(reg) frame,
                options(nostack, readonly, preserves_flags));
        }
        $crate::sys::Caller { address, frame }
    }};
}
pub(crate) use caller;

/// 0 = not decided, else a [`HostClock`]. Relaxed: every thread would decide the same.
static CLOCK: AtomicU8 = AtomicU8::new(0);

/// Returns which clock [`ticks`] reads: the CPU's counter where it is invariant, else the system clock.
pub fn host_clock() -> HostClock {
    match CLOCK.load(Ordering::Relaxed) {
        1 => HostClock::MonotonicRaw,
        2 => HostClock::Counter,
        _ => {
            let clock = if counter_is_invariant() { HostClock::Counter } else { HostClock::MonotonicRaw };
            CLOCK.store(clock as u8, Ordering::Relaxed);
            clock
        }
    }
}

/// Checks CPUID 0x80000007 EDX bit 8 (Intel SDM vol. 3B, "Invariant TSC"; AMD APM vol. 3), and that the kernel uses the
/// counter as its clock source: where the counters of two sockets disagree, it uses another.
#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0007 || __cpuid(0x8000_0007).edx & (1 << 8) == 0 {
        return false;
    }
    let mut source = [0u8; 16];
    let read = read_file(c"/sys/devices/system/clocksource/clocksource0/current_clocksource", &mut source);
    // Where the file cannot be read (in a container without /sys), CPUID decides. kvm-clock is the counter, scaled.
    read.is_none_or(|text| text.starts_with(b"tsc") || text.starts_with(b"kvm-clock"))
}

/// Returns true: CNTVCT_EL0 has a constant frequency by definition (Arm ARM D11, "The Generic Timer").
#[cfg(target_arch = "aarch64")]
fn counter_is_invariant() -> bool {
    true
}

/// Returns the host ticks now, on the clock that the segment's header names.
#[inline(always)]
pub fn ticks() -> u64 {
    if has_counter() { counter() } else { ticks_slow() }
}

/// Whether [`ticks`] are the CPU's [`counter`].
#[inline(always)]
pub fn has_counter() -> bool {
    CLOCK.load(Ordering::Relaxed) == HostClock::Counter as u8
}

/// Returns the host ticks at a moment when all threads see what this one has stored before. (A processor may read its
/// counter before an earlier store is visible: Intel SDM, RDTSC; Arm ARM, CNTVCT_EL0.)
pub fn ticks_after_stores() -> u64 {
    fence(Ordering::SeqCst);
    // SAFETY: waits until the instructions before it are complete; x86-64 has SSE2.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    // SAFETY: waits until the instructions before it are complete; no memory, no state.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("isb", options(nostack));
    }
    ticks()
}

#[cold]
fn ticks_slow() -> u64 {
    match host_clock() {
        HostClock::Counter => counter(),
        HostClock::MonotonicRaw => clock_ns(libc::CLOCK_MONOTONIC_RAW),
    }
}

/// Returns the CPU's counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: reads the counter; no memory, no state.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns the CPU's counter.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter() -> u64 {
    let value: u64;
    // SAFETY: CNTVCT_EL0 is readable from user space on Linux.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

/// Returns roughly the ticks of a tenth of a second: counters of x86-64 run at 1 to 6 GHz.
#[inline]
pub fn tenth_of_a_second() -> u64 {
    if CLOCK.load(Ordering::Relaxed) != HostClock::Counter as u8 {
        return 100_000_000; // ticks are ns
    }
    #[cfg(target_arch = "x86_64")]
    return 1 << 28;
    #[cfg(target_arch = "aarch64")]
    {
        let frequency: u64;
        // SAFETY: CNTFRQ_EL0, the counter's rate in Hz (Arm ARM D11), is readable from user space where the counter is.
        unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        frequency / 10
    }
}

/// clock_gettime(3).
type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

/// libc's own clock_gettime; 0 = not known. Relaxed: code, immutable.
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);

/// Has clocks read by libc's own function from here on, given its address: another preloaded library may replace the one
/// that a call by name reaches, to tell the program another time (libfaketime). The collector reads the true time.
pub fn read_clocks_with(address: usize) {
    CLOCK_GETTIME.store(address, Ordering::Relaxed);
}

/// Reads a system clock, in ns.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let read: ClockGettime = match CLOCK_GETTIME.load(Ordering::Relaxed) {
        0 => libc::clock_gettime,
        // SAFETY: the C library's function with this prototype.
        address => unsafe { core::mem::transmute::<usize, ClockGettime>(address) },
    };
    // SAFETY: writes the struct we own.
    unsafe { read(clock, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Returns the calling thread's Linux id.
pub fn tid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns the process id.
pub fn pid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::getpid() as u32 }
}

/// Sleeps until `word` is no longer `value`, [`futex_wake`] is called, or `ns` have passed.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let timeout = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the word lives for the call; the kernel only reads it. Every way to return is correct here.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &timeout,
        );
    }
}

/// Wakes one thread that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives for the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Gives the calling thread the arithmetic of floating-point numbers that compilers count on. A thread has that of the one which started
/// it, and a program may have its own stopped by a signal at each operation that rounds or is invalid (feenableexcept(3)).
pub fn reset_arithmetic() {
    // SAFETY: changes registers of this thread's own, to what they are when a program starts (System V ABI, "Registers"; Arm's
    // AAPCS64, "FPCR").
    #[cfg(target_arch = "x86_64")]
    unsafe {
        let (vectors, x87) = (0x1f80_u32, 0x037f_u16);
        // Exceptions that are pending in the x87 unit would be raised by the next of its operations.
        core::arch::asm!("fnclex", "fldcw [{0}]", "ldmxcsr [{1}]", in(reg) &x87, in(reg) &vectors, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("msr fpcr, xzr", options(nomem, nostack));
    }
}

/// Takes the calling thread's real-time priority away, if it has one from the thread that started it: what the program does then would wait for
/// ours. It uses system calls only.
pub fn leave_real_time() {
    const REAL_TIME: [c_int; 3] = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE];
    let none: c_int = 0;
    // SAFETY: of the calling thread itself; the parameter is a struct of one int (sched_setscheduler(2)). Where the system refuses
    // it, the priority stays.
    unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, 0) as c_int;
        if REAL_TIME.contains(&policy) {
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const none);
        }
    }
}

/// Sleeps for `ns`.
pub fn sleep_ns(nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: reads the struct we own; a null remainder is allowed.
    unsafe { libc::nanosleep(&time, core::ptr::null_mut()) };
}

/// Reads an environment variable. For slow paths only, which must not keep the result.
pub fn env(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a terminated name; the result is used before anything else could change the environment in our code.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv's answer is null or a terminated string in the environment.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Returns whether a variable is set to something that means yes.
pub fn env_is_on(name: &CStr) -> bool {
    env(name).is_some_and(|value| !switch::is_off(value.to_bytes()))
}

/// Whether the calling thread is the last one of a process whose first thread has left by pthread_exit(3): that one is a
/// zombie then.
pub fn is_last_thread() -> bool {
    let mut buffer = [0u8; 1024];
    read_file(c"/proc/self/stat", &mut buffer).is_some_and(is_left_alone)
}

/// Whether a process's first thread is a zombie, and it has at most one other.
fn is_left_alone(stat: &[u8]) -> bool {
    state_and_threads(stat).is_some_and(|(state, threads)| state == b"Z" && matches!(threads, 1 | 2))
}

/// Whether a thread of this process runs, or would if it got a processor. False if that is not known.
pub fn is_runnable(tid: u32) -> bool {
    let Ok(path) = CString::new(format!("/proc/self/task/{tid}/stat")) else { return false };
    let mut buffer = [0u8; 1024];
    let stat = read_file(&path, &mut buffer);
    stat.and_then(state_and_threads).is_some_and(|(state, _)| state == b"R")
}

/// Returns the state of a process's first thread, or of a thread, and the number of its process's threads (proc(5), `/proc/pid/stat`:
/// fields 3 and 20).
fn state_and_threads(stat: &[u8]) -> Option<(&[u8], u64)> {
    // The command name is in parentheses and may contain anything, so fields are counted from the last ')'.
    let mut parts = stat.rsplitn(2, |byte| *byte == b')');
    let (rest, _name) = (parts.next()?, parts.next()?);
    let mut fields = rest.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    Some((fields.next()?, decimal(fields.nth(16)?)))
}

/// Whether this process has one thread.
fn is_one_thread() -> bool {
    let mut buffer = [0u8; 1024];
    let stat = read_file(c"/proc/self/stat", &mut buffer);
    stat.and_then(state_and_threads).is_some_and(|(_, threads)| threads == 1)
}

/// Reads the start of a file into `buffer`, without allocating and without changing errno.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let errno = Errno::save();
    let _whole = Uncancelled::new();
    // SAFETY: a terminated path.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        errno.restore();
        return None;
    }
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|r| !r.is_empty()) {
        // SAFETY: the buffer is ours and that long.
        let n = unsafe { libc::read(fd, rest.as_mut_ptr().cast::<c_void>(), rest.len()) };
        match n {
            1.. => length += n as usize,
            _ => break,
        }
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    errno.restore();
    buffer.get(..length)
}

/// The calling thread's errno, which our code must leave as the app had it.
#[derive(Clone, Copy)]
pub struct Errno(c_int);

/// Where a thread has its errno. That place stays the same, so it is asked once.
#[derive(Clone, Copy)]
pub struct ErrnoPlace(*mut c_int);

impl ErrnoPlace {
    /// It has not been asked.
    pub const NONE: ErrnoPlace = ErrnoPlace(core::ptr::null_mut());

    /// Asks where the calling thread has it.
    pub fn of_this_thread() -> ErrnoPlace {
        // SAFETY: no arguments that could fail.
        ErrnoPlace(unsafe { libc::__errno_location() })
    }

    /// Returns errno; zero where the place has not been asked.
    #[inline(always)]
    pub fn get(self) -> Errno {
        // SAFETY: null, or the place of a thread that lives, whose state alone has it.
        unsafe { self.0.as_ref() }.map_or(Errno::NONE, |errno| Errno(*errno))
    }

    /// Sets errno.
    #[inline(always)]
    pub fn set(self, errno: Errno) {
        // SAFETY: as in `get`.
        if let Some(place) = unsafe { self.0.as_mut() } {
            *place = errno.0;
        }
    }
}

impl Errno {
    /// No errno has been saved.
    pub const NONE: Errno = Errno(0);

    /// Saves errno.
    #[inline]
    pub fn save() -> Errno {
        // SAFETY: the thread's own location.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// Restores errno.
    #[inline]
    pub fn restore(&self) {
        // SAFETY: the thread's own location.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Keeps the calling thread from being canceled while it lives. Many libc functions that our slow paths call are
/// cancellation points (pthreads(7)), and the app's thread must not be canceled where it would not have been without
/// us.
pub struct Uncancelled(c_int);

unsafe extern "C" {
    // pthread.h; the libc crate lacks it for Linux.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    /// Disables cancellation from here on.
    pub fn new() -> Uncancelled {
        const PTHREAD_CANCEL_DISABLE: c_int = 1; // pthread.h of glibc
        let mut before = 0;
        // SAFETY: the thread's own setting; writes a place of ours.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above; a null place is allowed by glibc and musl.
        unsafe { pthread_setcancelstate(self.0, core::ptr::null_mut()) };
    }
}

/// Returns the soft limit on a resource, `u64::MAX` if there is none. `None`: the system does not say.
pub fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the struct we own. RLIM_INFINITY is u64::MAX.
    (unsafe { libc::getrlimit(resource, &mut limit) } == 0).then_some(limit.rlim_cur)
}

/// Returns whether each mapping costs the app something that it may need: there is a low limit on address space, or all
/// that is mapped is resident at once (mlockall(2) with MCL_FUTURE), as a mapping shows that nobody has touched yet.
pub fn is_memory_tight(untouched: *mut core::ffi::c_void, bytes: usize) -> bool {
    let last_page = untouched.wrapping_byte_add(bytes.saturating_sub(1) & !4095);
    let mut resident = 0u8;
    // SAFETY: a page of a mapping of ours; writes one byte of ours. A refusal leaves it zero.
    unsafe { libc::mincore(last_page, 1, &mut resident) };
    resident & 1 == 1 || is_address_space_low()
}

/// Returns whether there is a limit on address space that a few heaps of libc's would fill. (NVIDIA's driver needs more by
/// far.)
fn is_address_space_low() -> bool {
    const AMPLE: u64 = 1 << 30;
    limit(libc::RLIMIT_AS).is_some_and(|limit| limit < AMPLE)
}

/// Returns whether the app may need all that is left of a limit on data (RLIMIT_DATA), of which a session takes 5 MiB.
pub fn is_data_low() -> bool {
    const ROOM: u64 = 32 << 20;
    let Some(limit) = limit(libc::RLIMIT_DATA).filter(|limit| *limit != libc::RLIM_INFINITY) else {
        return false;
    };
    let mut buffer = [0u8; 256];
    // The sixth number is the pages of data and stacks (proc_pid_statm(5)).
    let text = read_file(c"/proc/self/statm", &mut buffer).unwrap_or(&[]);
    let pages = text.split(|byte| *byte == b' ').nth(5).map_or(0, decimal);
    // SAFETY: takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64;
    limit.saturating_sub(pages.saturating_mul(page)) < ROOM
}

/// Returns the number that a text begins with; 0 without one.
pub fn decimal(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, byte| number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
}

/// Keeps libc from reserving a heap of 64 MiB (and 128 MiB while it does so) for the poller's thread, and for further
/// threads of the app's, where address space is low: they share the first heap, and wait for each other.
pub fn keep_one_heap() {
    if !is_address_space_low() {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: takes numbers, and locks the heap itself.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns for how many descriptors the kernel's table has room (proc(5), `/proc/pid/status`: FDSize).
fn descriptors() -> Option<u64> {
    let mut buffer = [0u8; 1024];
    let status = read_file(c"/proc/self/status", &mut buffer)?;
    let number = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"FDSize:"))?;
    Some(decimal(number.trim_ascii()))
}

/// Moves a descriptor of ours to a number that the app is unlikely to use: not 0 to 2, which an app may have closed and
/// programs write to, and not the lowest free ones, which the app's next files would get after it closed them all.
pub fn out_of_the_way(fd: c_int) -> c_int {
    // Just below the usual limit: the kernel's table of descriptors grows with the highest number.
    const HIGH: u64 = 1000;
    const ROOM: u64 = 24;
    let highest = limit(libc::RLIMIT_NOFILE).unwrap_or(0).saturating_sub(ROOM).clamp(3, HIGH);
    // In a process with several threads the kernel waits for all processors before it enlarges the table (`expand_fdtable`,
    // fs/file.c: synchronize_rcu): milliseconds, in which the app's first call would wait, too.
    let lowest = match descriptors().filter(|_| !is_one_thread()) {
        Some(room) => room.saturating_sub(ROOM).clamp(3, highest),
        None => highest,
    };
    for lowest in [lowest as c_int, 3] {
        // SAFETY: our own descriptors; the copy takes the place of the first.
        unsafe {
            let moved = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest);
            if moved >= 0 {
                libc::close(fd);
                return moved;
            }
        }
    }
    fd
}

/// Returns a line with `?` for what can move a terminal's cursor, end the line, or change the direction of what it shows: a
/// path, or what the system answered, may have such characters.
fn harmless(line: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let text = line.strip_suffix('\n').unwrap_or(line);
    text.chars().map(|c| if is_harmful(c) { '?' } else { c }).chain(['\n']).collect()
}

/// What stderr was when the process started.
#[derive(Clone, Copy)]
enum Stderr {
    /// The system does not say, or has not been asked.
    Unknown,
    Closed,
    /// The file with this device and inode.
    File(u64, u64),
}

/// 0 = unknown, 1 = closed, 2 = open. Release by [`remember_stderr`], acquire by [`say`]: the file.
static STDERR: AtomicU8 = AtomicU8::new(0);
/// The device and the inode of stderr. Relaxed: published by `STDERR`.
static STDERR_FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Remembers what stderr is, when the process starts: where it is closed, the next file that the app opens gets its number.
pub fn remember_stderr() {
    let errno = Errno::save();
    let state = match opened(2) {
        Ok(stat) => {
            for (place, value) in STDERR_FILE.iter().zip([stat.st_dev, stat.st_ino]) {
                place.store(value, Ordering::Relaxed);
            }
            2
        }
        Err(libc::EBADF) => 1,
        Err(_) => 0,
    };
    STDERR.store(state, Ordering::Release);
    errno.restore();
}

/// Returns what was remembered.
fn stderr_at_start() -> Stderr {
    let [device, inode] = &STDERR_FILE;
    match STDERR.load(Ordering::Acquire) {
        1 => Stderr::Closed,
        2 => Stderr::File(device.load(Ordering::Relaxed), inode.load(Ordering::Relaxed)),
        _ => Stderr::Unknown,
    }
}

/// Returns what a descriptor is of, or the error. By number, because sanitizers have a function in place of libc's, which may not
/// be ready when the process starts.
fn opened(fd: c_int) -> Result<libc::stat, c_int> {
    // SAFETY: all-zero is a stat.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: writes the struct we own, which is Linux's own.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut stat) };
    if result == 0 { Ok(stat) } else { Err(Errno::save().0) }
}

/// Whether a line may go to what has stderr's number now. If that is another file than at the start, or a connection, it may be
/// there because stderr was closed, and our line would be among the app's data. A terminal or a pipe is where the app has directed
/// its stderr.
fn takes_lines(at_start: Stderr, now: Option<libc::stat>) -> bool {
    match (at_start, now) {
        (Stderr::Closed, _) => false,
        (Stderr::File(device, inode), Some(now)) if (now.st_dev, now.st_ino) != (device, inode) => {
            matches!(now.st_mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFIFO)
        }
        _ => true,
    }
}

/// Writes one line to stderr in one call, so that it is never split. If stderr is a closed pipe, the app gets no
/// SIGPIPE for it. Writes nothing where what has stderr's number may be something else of the app's.
pub fn say(line: &str) {
    let errno = Errno::save();
    if takes_lines(stderr_at_start(), opened(2).ok()) {
        write_to_stderr(line);
    }
    errno.restore();
}

fn write_to_stderr(line: &str) {
    let line = harmless(line);
    // SAFETY: the thread's own signal mask, put back at the end; the line's own bytes; a failure has no remedy.
    unsafe {
        let mut pipe: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        let mut pending: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        libc::sigpending(&mut pending);
        let written = libc::write(2, line.as_ptr().cast(), line.len());
        // A SIGPIPE that was pending before is the app's; ours would have merged with it.
        if written < 0 && libc::sigismember(&pending, libc::SIGPIPE) == 0 {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, core::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_left_alone_if_its_first_thread_is_a_zombie_and_it_has_one_other() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("71 ({name}) {state} 1 71 71 0 -1 4194304 9 0 0 0 1 2 0 0 20 0 {threads} 0 123 4096 5")
        };
        for name in ["train", "a) Z 1 (b", ") Z"] {
            assert!(is_left_alone(stat(name, "Z", 2).as_bytes()), "{name}");
            assert!(!is_left_alone(stat(name, "Z", 3).as_bytes()), "{name}: another thread runs on");
            assert!(!is_left_alone(stat(name, "S", 2).as_bytes()), "{name}: the first thread waits");
        }
        for damaged in ["", "71", "71 (train)", "71 (train) Z", "71 (train) Z 1 2"] {
            assert!(!is_left_alone(damaged.as_bytes()), "{damaged:?}");
        }
        assert!(!is_last_thread(), "this thread is not");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_thread_that_computes_is_runnable_and_one_that_waits_is_not() {
        assert!(is_runnable(tid()) && !is_runnable(0));
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        let (tells, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tells.send(tid()).unwrap();
            ended.recv().unwrap_err();
        });
        let waits = told.recv().unwrap();
        // It runs until it waits.
        while is_runnable(waits) {
            std::thread::yield_now();
        }
        drop(ends);
        waiting.join().unwrap();
    }

    /// The line was written into the program's file.
    #[test]
    fn a_line_goes_to_no_file_that_has_the_number_of_stderr() {
        let now = |inode: u64, kind: libc::mode_t| {
            // SAFETY: all-zero is a stat.
            let mut stat: libc::stat = unsafe { core::mem::zeroed() };
            (stat.st_dev, stat.st_ino, stat.st_mode) = (7, inode, kind | 0o600);
            Some(stat)
        };
        for kind in [libc::S_IFREG, libc::S_IFSOCK, libc::S_IFIFO, libc::S_IFCHR] {
            assert!(!takes_lines(Stderr::Closed, now(1, kind)));
            assert!(takes_lines(Stderr::Unknown, now(1, kind)));
            assert!(takes_lines(Stderr::File(7, 1), now(1, kind)));
            let is_terminal_or_pipe = kind == libc::S_IFIFO || kind == libc::S_IFCHR;
            assert_eq!(takes_lines(Stderr::File(7, 1), now(2, kind)), is_terminal_or_pipe, "{kind:o}");
        }
        assert!(takes_lines(Stderr::File(7, 1), None), "the system does not say what it is now");
    }
}

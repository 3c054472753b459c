//! The clocks that the agent's times are compared with.

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

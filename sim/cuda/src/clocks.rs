//! The host's clock, the simulated GPU's clock, and waiting.

use std::sync::LazyLock;
use std::time::Duration;

/// Nanoseconds on the host's `CLOCK_MONOTONIC_RAW`.
pub type Ns = u64;

/// clock_gettime(3).
type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// libc's own clock_gettime: a library that tells the program another time (libfaketime) tells no GPU.
static CLOCK_GETTIME: LazyLock<ClockGettime> = LazyLock::new(|| {
    // SAFETY: terminated strings. RTLD_NEXT is relative to this library, which comes behind all preloaded ones.
    let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr(), c"GLIBC_2.17".as_ptr()) };
    // SAFETY: null, or the C library's function with this prototype.
    let found = unsafe { std::mem::transmute::<*mut libc::c_void, Option<ClockGettime>>(found) };
    found.unwrap_or(libc::clock_gettime)
});

/// Now, on the host's clock.
pub fn now() -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-parameter; the clock exists on every Linux that runs this.
    unsafe { CLOCK_GETTIME(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}

/// Busy-waits until `when`, as a driver call does that costs the caller that much.
pub fn spin_until(when: Ns) {
    while now() < when {
        std::hint::spin_loop();
    }
}

/// Blocks until `when`: sleeps for the most part, spins for the rest (a sleep is 50 µs late at best).
pub fn sleep_until(when: Ns) {
    const SPIN: Ns = 60_000;
    loop {
        let left = when.saturating_sub(now());
        if left <= SPIN {
            return spin_until(when);
        }
        std::thread::sleep(Duration::from_nanos(left - SPIN));
    }
}

/// A drift that comes and goes as a sine does.
#[derive(Clone, Copy, Debug)]
pub struct Wander {
    /// The most that it adds to the drift, parts per thousand million. It changes by at most `2π · ppb / period`.
    pub ppb: i64,
    /// Once up and down, ns.
    pub period: Ns,
}

impl Wander {
    /// What it has added to the clock `since` ns after the epoch: the integral of `ppb · sin(2π · t / period)`.
    fn at(self, since: f64) -> f64 {
        let pace = std::f64::consts::TAU / self.period.max(1) as f64;
        self.ppb as f64 / 1e9 / pace * (1.0 - (since * pace).cos())
    }
}

/// The GPU's clock against the host's: `gpu(host) = host + offset + drift · (host − epoch) + wander`.
#[derive(Clone, Copy, Debug)]
pub struct GpuClock {
    /// ns added to the host's clock.
    pub offset: i64,
    /// Parts per thousand million by which it runs fast.
    pub drift_ppb: i64,
    /// How the drift wanders about that.
    pub wander: Wander,
    /// Host ns from which the drift counts.
    pub epoch: Ns,
    /// Time stamps are whole multiples of this many ns.
    pub resolution: u64,
}

impl GpuClock {
    /// The GPU's time at the host's `at`, ns, unquantised.
    pub fn at(&self, at: Ns) -> i64 {
        let since = at as i128 - self.epoch as i128;
        let wandered = self.wander.at(since as f64) as i128;
        (at as i128 + self.offset as i128 + since * self.drift_ppb as i128 / 1_000_000_000 + wandered) as i64
    }

    /// The time stamp that an event takes at the host's `at`.
    pub fn stamp(&self, at: Ns) -> i64 {
        let time = self.at(at);
        time - time.rem_euclid(self.resolution.max(1) as i64)
    }
}

/// Integer GPU ns as the float ms of `cuEventElapsedTime`, correctly rounded or by a float multiplication.
pub fn elapsed_ms(ns: i64, multiplied: bool) -> f32 {
    // Rounding twice is safe: with 1e6 = 2^6 · 15625, no inexact quotient lies within 2^-38 (relative) of a tie between
    // two floats, and the double is within 2^-53 of it.
    if multiplied { ns as f32 * 1e-6_f32 } else { (ns as f64 / 1e6) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_measured_from_the_epoch() {
        let clock = GpuClock { offset: 1_000, drift_ppb: 20_000, wander: STILL, epoch: 500, resolution: 1 };
        assert_eq!(clock.at(500), 1_500);
        assert_eq!(clock.at(500 + 1_000_000_000), 1_500 + 1_000_000_000 + 20_000);
        let coarse = GpuClock { resolution: 32, ..clock };
        assert_eq!(coarse.stamp(500) % 32, 0);
        assert!(coarse.stamp(500) <= 1_500 && coarse.stamp(500) > 1_500 - 32);
    }

    const STILL: Wander = Wander { ppb: 0, period: 1 };
    const S: Ns = 1_000_000_000;

    #[test]
    fn a_wandering_drift_is_the_most_at_a_quarter_and_gone_after_the_period() {
        let wander = Wander { ppb: 1_600, period: 10 * S };
        let clock = GpuClock { offset: 0, drift_ppb: 0, wander, epoch: 0, resolution: 1 };
        // Drift over 10 ms at a time, parts per thousand million.
        let drift = |at: Ns| (clock.at(at + S / 100) - clock.at(at)) * 100 - S as i64;
        assert!((drift(5 * S / 2) - 1_600).abs() <= 100, "{}", drift(5 * S / 2));
        assert!((drift(15 * S / 2) + 1_600).abs() <= 100, "{}", drift(15 * S / 2));
        assert!((clock.at(10 * S) - 10 * S as i64).abs() <= 1, "over a period it evens out");
        let changes = (0..100).map(|tenth| (drift(tenth * S / 10 + S) - drift(tenth * S / 10)).abs());
        let most = changes.max().unwrap();
        assert!((900..=1_200).contains(&most), "about 1 ppm in a second, as set: {most}");
    }

    #[test]
    fn rounded_elapsed_is_exact_below_16_ms_and_the_product_is_not() {
        let exact = |multiplied| {
            (0..16_000_000i64)
                .step_by(7)
                .find(|&ns| (elapsed_ms(ns, multiplied) as f64 * 1e6).round() as i64 != ns)
        };
        assert_eq!(exact(false), None);
        assert!(exact(true).is_some_and(|ns| ns > 4_000_000));
    }
}

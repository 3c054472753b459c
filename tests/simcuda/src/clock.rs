//! The host's clock, the simulated GPU's clock, and waiting.

use std::time::Duration;

/// Nanoseconds on the host's `CLOCK_MONOTONIC_RAW`.
pub type Ns = u64;

/// Now, on the host's clock.
pub fn now() -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-parameter; the clock exists on every Linux that runs this.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
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

/// The GPU's clock against the host's: `gpu(host) = host + offset + drift · (host − epoch)`.
#[derive(Clone, Copy, Debug)]
pub struct GpuClock {
    /// ns added to the host's clock.
    pub offset: i64,
    /// Parts per thousand million by which it runs fast.
    pub drift_ppb: i64,
    /// Host ns from which the drift counts.
    pub epoch: Ns,
    /// Time stamps are whole multiples of this many ns.
    pub resolution: u64,
}

impl GpuClock {
    /// The GPU's time at the host's `at`, ns, unquantised.
    pub fn at(&self, at: Ns) -> i64 {
        let since = at as i128 - self.epoch as i128;
        (at as i128 + self.offset as i128 + since * self.drift_ppb as i128 / 1_000_000_000) as i64
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
        let clock = GpuClock { offset: 1_000, drift_ppb: 20_000, epoch: 500, resolution: 1 };
        assert_eq!(clock.at(500), 1_500);
        assert_eq!(clock.at(500 + 1_000_000_000), 1_500 + 1_000_000_000 + 20_000);
        let coarse = GpuClock { resolution: 32, ..clock };
        assert_eq!(coarse.stamp(500) % 32, 0);
        assert!(coarse.stamp(500) <= 1_500 && coarse.stamp(500) > 1_500 - 32);
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

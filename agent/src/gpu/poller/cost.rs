//! How much CPU time does the poller cost the app, outside driver calls?
//!
//! Reading the thread's CPU time is a system call, which is too expensive around every driver call. Driver
//! calls are measured in ticks instead. A polling pass's own work took no more than its CPU time, and no
//! more than the elapsed time outside driver calls, wherever it was interrupted. The smaller of the two is
//! counted, which is too small by at most the time that an interruption inside the driver hides. The cost
//! of the sleep itself (falling asleep and waking up) is charged to the agent in full.

use core::cell::Cell;

use crate::cuda::{CUDA_ERROR_DEINITIALIZED, CUDA_SUCCESS, CUcontext, CUevent, CUresult};
use crate::driver::Driver;
use crate::gpu::pool::Pool;
use crate::gpu::time_base::Events;
use crate::sys::{self, ticks};

/// The driver as the poller calls it, with the time spent in it counted.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    driver: &'static Driver,
    spent: &'a Cell<u64>,
}

impl Outside<'_> {
    /// Calls the driver.
    pub fn call<T>(&self, call: impl FnOnce(&Driver) -> T) -> T {
        let began = ticks();
        let result = call(self.driver);
        self.spent.set(self.spent.get() + ticks().wrapping_sub(began));
        result
    }

    /// Runs `work`, which calls the driver through this value, with a context current. Returns the driver's
    /// error if the context cannot be made current.
    pub fn within<T>(&self, handle: u64, work: impl FnOnce() -> T) -> Result<T, CUresult> {
        let missing = CUDA_ERROR_DEINITIALIZED; // a driver without these functions cannot be queried
        let (push, pop) = self.driver.context_push.zip(self.driver.context_pop).ok_or(missing)?;
        // SAFETY: a context's handle; the driver refuses one that was destroyed.
        let pushed = self.call(|_| unsafe { push(handle as CUcontext) });
        if pushed != CUDA_SUCCESS {
            return Err(pushed);
        }
        let result = work();
        let mut popped: CUcontext = core::ptr::null_mut();
        // SAFETY: undoes our own push.
        self.call(|_| unsafe { pop(&mut popped) });
        Ok(result)
    }

    /// Calls `cuEventQuery` for an event of the current context's pool.
    pub fn query(&self, event: CUevent) -> Option<CUresult> {
        let query = self.driver.event_query?;
        // SAFETY: an event of the pool, whose context is current and not gone.
        Some(self.call(|_| unsafe { query(event) }))
    }

    /// Calls `cuEventElapsedTime` for two events; the result is in ms. `None`: the driver returned an error.
    pub fn elapsed(&self, from: CUevent, to: CUevent) -> Option<f32> {
        let elapsed = self.driver.event_elapsed?;
        let mut ms = 0f32;
        // SAFETY: events of the pool, whose context is current and not gone; the call writes to a local
        // variable.
        (self.call(|_| unsafe { elapsed(&mut ms, from, to) }) == CUDA_SUCCESS).then_some(ms)
    }
}

/// A pool's events, as a time base queries them.
pub struct PoolEvents<'a> {
    pub outside: Outside<'a>,
    pub pool: &'a Pool,
}

impl Events for PoolEvents<'_> {
    fn elapsed(&self, from: u32, to: u32) -> Option<f32> {
        self.outside.elapsed(self.pool.event(from)?, self.pool.event(to)?)
    }

    fn hold(&self, event: u32) {
        self.pool.hold(event);
    }

    fn give(&self, event: u32) {
        self.pool.give(event);
    }
}

/// The clocks at the start of a polling pass.
#[derive(Default)]
pub struct Meter {
    /// CLOCK_THREAD_CPUTIME_ID in ns, until which the CPU time has been accounted for.
    cpu: u64,
    /// CLOCK_MONOTONIC in ns, and ticks at the same moment.
    wall: u64,
    ticks: u64,
    /// Ticks spent in driver calls since then.
    spent: Cell<u64>,
}

impl Meter {
    /// Returns the driver, with which the time of each call is counted.
    pub fn outside(&self, driver: &'static Driver) -> Outside<'_> {
        Outside { driver, spent: &self.spent }
    }

    /// Starts a polling pass. Returns the CPU time in ns that the sleep before it cost.
    pub fn begin(&mut self) -> u64 {
        let cpu = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let slept = cpu - self.cpu;
        self.cpu = cpu;
        self.wall = sys::clock_ns(libc::CLOCK_MONOTONIC);
        self.ticks = ticks();
        self.spent.set(0);
        slept
    }

    /// Ends the polling pass. Returns its own CPU time in ns.
    pub fn end(&mut self) -> u64 {
        let cpu = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let wall = sys::clock_ns(libc::CLOCK_MONOTONIC) - self.wall;
        let own = own(cpu - self.cpu, wall, ticks().wrapping_sub(self.ticks), self.spent.get());
        self.cpu = cpu;
        own
    }
}

/// The own time of a polling pass in ns, from its CPU time and the elapsed time; `spent` of the elapsed
/// `ticks` went by in driver calls.
fn own(cpu: u64, wall: u64, ticks: u64, spent: u64) -> u64 {
    let outside = 1.0 - spent as f64 / ticks.max(1) as f64;
    cpu.min((wall as f64 * outside.max(0.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_time_and_interruptions_are_not_charged() {
        // Never interrupted: 100 µs, 60 of them in the driver.
        assert_eq!(own(100_000, 100_000, 300_000, 180_000), 40_000);
        // Asleep in the driver for a second: only the time outside counts.
        assert_eq!(own(100_000, 1_100_000, 1_100_000, 1_060_000), 40_000);
        // Interrupted outside the driver: no more than the thread's CPU time counts.
        assert_eq!(own(40_000, 1_000_000, 1_000_000, 0), 40_000);
        assert_eq!(own(0, 0, 0, 0), 0);
    }

    #[test]
    fn work_is_counted_once_and_sleep_is_not_counted() {
        let mut meter = Meter::default();
        meter.begin();
        let until = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + 5_000_000;
        while sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < until {}
        let worked = meter.end();
        assert!(worked >= 4_900_000, "of 5 ms of work, {worked} ns were counted");
        sys::sleep_ns(20_000_000);
        let slept = meter.begin();
        assert!(slept < 10_000_000, "a sleep of 20 ms counted as {slept} ns of CPU time");
    }
}

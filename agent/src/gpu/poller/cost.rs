//! What does the poller cost the app? Its thread's CPU time outside driver calls.
//!
//! The kernel's count of the thread's CPU time costs a system call to read, too much to do around every driver call. Those
//! are measured in ticks. A look's own work took no more than its CPU time, and no more than the time that passed outside
//! driver calls, whichever way it was interrupted: the lesser of the two is counted, which never says too little by more
//! than what an interruption inside the driver hides. The sleep's own cost (falling asleep, waking up) is all ours.

use core::cell::Cell;

use crate::cuda::{CUDA_ERROR_DEINITIALIZED, CUDA_SUCCESS, CUcontext, CUevent, CUresult};
use crate::driver::Driver;
use crate::gpu::pool::Pool;
use crate::gpu::time_base::Events;
use crate::sys::{self, ticks};

/// The driver as the poller calls it: the time in there is counted.
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

    /// Runs `work`, which calls the driver by way of us, with a context current; or says why it cannot be made current.
    pub fn within<T>(&self, handle: u64, work: impl FnOnce() -> T) -> Result<T, CUresult> {
        let missing = CUDA_ERROR_DEINITIALIZED; // a driver without them is none to ask
        let (push, pop) = self.driver.context_push.zip(self.driver.context_pop).ok_or(missing)?;
        // SAFETY: a context's handle; a dead one is refused.
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

    /// `cuEventQuery` of an event of the current context's pool.
    pub fn query(&self, event: CUevent) -> Option<CUresult> {
        let query = self.driver.event_query?;
        // SAFETY: an event of the pool, whose context is current and not gone.
        Some(self.call(|_| unsafe { query(event) }))
    }

    /// `cuEventElapsedTime` of two, ms. `None`: it does not answer.
    pub fn elapsed(&self, from: CUevent, to: CUevent) -> Option<f32> {
        let elapsed = self.driver.event_elapsed?;
        let mut ms = 0f32;
        // SAFETY: events of the pool, whose context is current and not gone; writes a place of ours.
        (self.call(|_| unsafe { elapsed(&mut ms, from, to) }) == CUDA_SUCCESS).then_some(ms)
    }
}

/// A pool's events, as a time base asks for them.
pub struct Asked<'a> {
    pub outside: Outside<'a>,
    pub pool: &'a Pool,
}

impl Events for Asked<'_> {
    fn elapsed(&self, from: u32, to: u32) -> Option<f32> {
        self.outside.elapsed(self.pool.event(from), self.pool.event(to))
    }

    fn hold(&self, event: u32) {
        self.pool.hold(event);
    }

    fn give(&self, event: u32) {
        self.pool.give(event);
    }
}

/// The clocks as they stood at a look's beginning.
#[derive(Default)]
pub struct Meter {
    /// CLOCK_THREAD_CPUTIME_ID, ns, as far as it is counted.
    cpu: u64,
    /// CLOCK_MONOTONIC, ns, and ticks at the same moment.
    wall: u64,
    ticks: u64,
    /// Ticks in driver calls since.
    spent: Cell<u64>,
}

impl Meter {
    /// The driver, its time counted.
    pub fn outside(&self, driver: &'static Driver) -> Outside<'_> {
        Outside { driver, spent: &self.spent }
    }

    /// A look begins. Returns the CPU ns that the sleep before it cost.
    pub fn begin(&mut self) -> u64 {
        let cpu = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let slept = cpu - self.cpu;
        self.cpu = cpu;
        self.wall = sys::clock_ns(libc::CLOCK_MONOTONIC);
        self.ticks = ticks();
        self.spent.set(0);
        slept
    }

    /// It is over. Returns its own CPU ns.
    pub fn end(&mut self) -> u64 {
        let cpu = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let wall = sys::clock_ns(libc::CLOCK_MONOTONIC) - self.wall;
        let own = own(cpu - self.cpu, wall, ticks().wrapping_sub(self.ticks), self.spent.get());
        self.cpu = cpu;
        own
    }
}

/// A look's own ns: of its CPU time and of the time that passed, of which `spent` of `ticks` went by in driver calls.
fn own(cpu: u64, wall: u64, ticks: u64, spent: u64) -> u64 {
    let outside = 1.0 - spent as f64 / ticks.max(1) as f64;
    cpu.min((wall as f64 * outside.max(0.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_time_is_not_ours_and_an_interruption_is_nobodys() {
        // Never interrupted: 100 µs, 60 of them in the driver.
        assert_eq!(own(100_000, 100_000, 300_000, 180_000), 40_000);
        // Asleep in the driver for a second: what is ours is what was outside.
        assert_eq!(own(100_000, 1_100_000, 1_100_000, 1_060_000), 40_000);
        // Interrupted outside it: no more than the thread's CPU time.
        assert_eq!(own(40_000, 1_000_000, 1_000_000, 0), 40_000);
        assert_eq!(own(0, 0, 0, 0), 0);
    }

    #[test]
    fn work_is_counted_once_and_sleep_is_not() {
        let mut meter = Meter::default();
        meter.begin();
        let until = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + 5_000_000;
        while sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < until {}
        let worked = meter.end();
        assert!(worked >= 4_900_000, "{worked}");
        sys::sleep_ns(20_000_000);
        let slept = meter.begin();
        assert!(slept < 10_000_000, "{slept}");
    }
}

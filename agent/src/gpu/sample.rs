//! What time is it on the GPU, without a synchronise?
//!
//! Once a second while a context has work, and at its first, the poller records an event on a stream of its own and asks
//! whether it has fired until it has: it fired after the last question that found it pending (or its record) and before
//! the answer that found it complete. Where the app itself gives no bound for a second, this one ties the clocks.
//!
//! The stream is non-blocking (the legacy default stream waits for no event of ours), of the lowest priority, and never told
//! to the collector. It is made when the context is met, with the events: made while work runs it could wait for that, and
//! would shift the hardware queues that the app's next streams get. It goes with its context; at exit nothing is destroyed.
//! With `CUDA_DEVICE_MAX_CONNECTIONS=1` all streams share one hardware queue, in which even this event would
//! stand before the app's work: there is no sample then.

use gpuspy_wire::record::{ClockSample, Head};

use crate::cuda::*;
use crate::gpu::context::Context;
use crate::gpu::poller::cost::{Asked, Outside};
use crate::gpu::time_base::TimeBase;
use crate::sys::{self, ticks};

/// Between samples: the bounds of two a second apart, with a drift that changes slowly, leave the clocks' offset uncertain
/// by little more than either does.
const EVERY_NS: u64 = 1_000_000_000;
/// How long the poller watches at most: an event on an empty stream fires within a few µs. What has not fired by then is
/// held up by something, and would say little.
const WATCH_NS: u64 = 50_000;

/// A context's samples.
#[derive(Default)]
pub struct Sampler {
    /// CLOCK_MONOTONIC, ns, before which there is none.
    next: u64,
}

impl Sampler {
    /// The sample that is due, if it is and the event fires in time. `may_ask` says whether the context may be touched.
    pub fn sample(
        &mut self,
        outside: Outside<'_>,
        context: &Context,
        time_base: &mut TimeBase,
        may_ask: impl Fn() -> bool,
    ) -> Option<ClockSample> {
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        if now < self.next || !may_ask() {
            return None;
        }
        self.next = now + EVERY_NS;
        if context.samples == 0 {
            return None;
        }
        let stream = context.samples as CUstream;
        let event = context.pool.take()?;
        let sample =
            watch(outside, stream, context.pool.event(event), may_ask).and_then(|(after, before)| {
                let at = time_base.locate(&Asked { outside, pool: &context.pool }, event)?;
                Some(ClockSample {
                    head: Head::new::<ClockSample>(),
                    context: context.number,
                    time_base: at.time_base,
                    gpu: at.ns,
                    error: at.error,
                    reserved: 0,
                    after,
                    before,
                    reserved2: [0; 2],
                })
            });
        // Also where it has not fired: whoever records it next, anew, does not care.
        context.pool.give(event);
        sample
    }
}

/// Records the event and watches it: the ticks between which it fired.
fn watch(
    outside: Outside<'_>,
    stream: CUstream,
    event: CUevent,
    may_ask: impl Fn() -> bool,
) -> Option<(u64, u64)> {
    let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + WATCH_NS;
    let mut after = ticks();
    // SAFETY: an event of the pool and our stream, both of the context, which is current and not gone.
    let recorded = outside.call(|d| d.event_record.map(|record| unsafe { record(event, stream) }));
    if recorded != Some(CUDA_SUCCESS) {
        return None;
    }
    while may_ask() {
        let asked = ticks();
        match outside.query(event)? {
            CUDA_SUCCESS => return Some((after, ticks())),
            CUDA_ERROR_NOT_READY => after = asked,
            _ => return None,
        }
        if sys::clock_ns(libc::CLOCK_MONOTONIC) > until {
            return None;
        }
    }
    None
}

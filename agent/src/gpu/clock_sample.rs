//! What time is it on the GPU, without a synchronization?
//!
//! At a context's first work and once a second while it has work, the poller records an event on a stream of
//! its own and queries it until it has fired. The event fired after the last query that found it pending (or
//! after its record) and before the return of the query that found it complete. Where the app itself gives no
//! bound for a second, this one ties the clocks.
//!
//! The stream is non-blocking (the legacy default stream waits for no event of ours), has the lowest
//! priority, and is never reported to the collector. It is created together with the events when the context
//! is first seen: created while work runs, it could wait for that work, and it would shift the hardware
//! queues that the app's next streams get. It goes away with its context; at process exit nothing is
//! destroyed. With `CUDA_DEVICE_MAX_CONNECTIONS=1` all streams share one hardware queue, in which even this
//! event would delay the app's work, so no sample is taken there.

use gpuspy_wire::record::{ClockSample, Head};

use crate::cuda::*;
use crate::gpu::context::Context;
use crate::gpu::poller::cost::{Outside, PoolEvents};
use crate::gpu::time_base::TimeBase;
use crate::sys::{self, ticks};

/// The time between samples. With bounds from two samples a second apart and a slowly changing drift, the
/// clocks' offset is hardly less certain between them than at either sample.
const EVERY_NS: u64 = 1_000_000_000;
/// How long the poller watches at most. An event on an empty stream fires within a few µs; one that has not
/// fired by then is held up by something and would give a loose bound.
const WATCH_NS: u64 = 50_000;

/// The clock samples of a context.
#[derive(Default)]
pub struct Sampler {
    /// The earliest time of the next sample: CLOCK_MONOTONIC, ns.
    next: u64,
}

impl Sampler {
    /// Takes a sample if one is due; `None` if the event does not fire in time. `may_query` says whether the
    /// context may be touched.
    pub fn sample(
        &mut self,
        outside: Outside<'_>,
        context: &Context,
        time_base: &mut TimeBase,
        may_query: impl Fn() -> bool,
    ) -> Option<ClockSample> {
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        if now < self.next || !may_query() {
            return None;
        }
        self.next = now + EVERY_NS;
        if context.samples == 0 {
            return None;
        }
        let stream = context.samples as CUstream;
        let event = context.pool.take()?;
        let sample =
            context.pool.event(event).and_then(|event| watch(outside, stream, event, may_query)).and_then(
                |(after, before)| {
                    let at = time_base.locate(&PoolEvents { outside, pool: &context.pool }, event)?;
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
                },
            );
        // The event goes back even if it has not fired: the next user records it again, which is allowed at
        // any time.
        context.pool.give(event);
        sample
    }
}

/// Records the event and watches it. Returns the ticks between which it fired.
fn watch(
    outside: Outside<'_>,
    stream: CUstream,
    event: CUevent,
    may_query: impl Fn() -> bool,
) -> Option<(u64, u64)> {
    let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + WATCH_NS;
    let mut after = ticks();
    // SAFETY: the event is the pool's and the stream is ours; both belong to the context, which is current
    // and not gone.
    let recorded = outside.call(|d| d.event_record.map(|record| unsafe { record(event, stream) }));
    if recorded != Some(CUDA_SUCCESS) {
        return None;
    }
    while may_query() {
        let queried = ticks();
        match outside.query(event)? {
            CUDA_SUCCESS => return Some((after, ticks())),
            CUDA_ERROR_NOT_READY => after = queried,
            _ => return None,
        }
        if sys::clock_ns(libc::CLOCK_MONOTONIC) > until {
            return None;
        }
    }
    None
}

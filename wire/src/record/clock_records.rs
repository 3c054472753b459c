//! When did operations run on the GPU's clock, and how are the clocks related?

use super::{CELL_BYTES, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// When an operation ran, on its context's GPU clock. Written only by the poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GpuTime {
    /// The head.
    pub head: Head,
    /// The operation's correlation.
    pub correlation: u64,
    /// The operation's context.
    pub context: u32,
    /// The time base that `start` is measured on; positions on two time bases of a context are not
    /// comparable.
    pub time_base: u32,
    /// For an operation whose end event was recorded after its own record was published: ticks from the
    /// launch's return to the return of that event's record. 0: the operation's record has the value.
    pub tail: u32,
    /// Zero.
    pub reserved: u32,
    /// The start event's position, in ns since the time base's origin.
    pub start: i64,
    /// End event − start event, in ns, as measured: includes the time before and after the operation.
    pub duration: u64,
    /// The largest error of `start` relative to the time base's origin, in ns.
    pub start_error: u32,
    /// The largest error of `duration`, in ns.
    pub duration_error: u32,
    /// Host ticks when the end event was first observed to be complete: it completed before this.
    pub seen: u64,
}

/// One moment on the host's three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Anchor {
    /// The head.
    pub head: Head,
    /// Host ticks, read between the two reads that `uncertainty` is about.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub monotonic_raw: u64,
    /// CLOCK_REALTIME, ns.
    pub realtime: u64,
    /// Ticks between the two reads around the clocks: the largest error of the anchor.
    pub uncertainty: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

/// A sample of the GPU's clock: the poller has recorded an event on a stream of its own and watched it. The
/// event fired between `after` and `before` on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ClockSample {
    /// The head.
    pub head: Head,
    /// The context.
    pub context: u32,
    /// The time base that `gpu` is measured on.
    pub time_base: u32,
    /// The event's position, in ns since the time base's origin.
    pub gpu: i64,
    /// The largest error of `gpu`, in ns.
    pub error: u32,
    /// Zero.
    pub reserved: u32,
    /// Host ticks before the event's record, or before the last query that found it pending: it had not
    /// fired.
    pub after: u64,
    /// Host ticks after the query that found it complete: it had fired.
    pub before: u64,
    /// Zero.
    pub reserved2: [u64; 2],
}

/// The start or end of a window of `--timing auto`, an interval in which everything is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Window {
    /// The head.
    pub head: Head,
    /// The time (ticks).
    pub at: u64,
    /// Ticks that hooks took until then, summed over all of the app's threads.
    pub agent_ticks: u64,
    /// The CPU time of the poller until then, ns.
    pub poller_ns: u64,
    /// The number of calls until then that put something on a stream.
    pub launches: u64,
    /// A [`WindowChange`](super::WindowChange).
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 2],
}

/// The start or end of the part of the run that is recorded (`--capture-range`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct CaptureEdge {
    /// The head.
    pub head: Head,
    /// The time (ticks).
    pub at: u64,
    /// 1 = it starts, 2 = it ends.
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 5],
}

/// When a node of a graph ran in one launch of the graph (`--graph nodes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct NodeTime {
    /// The head.
    pub head: Head,
    /// The correlation of the graph's launch.
    pub correlation: u64,
    /// As in [`GpuTime`].
    pub context: u32,
    /// As in [`GpuTime`].
    pub time_base: u32,
    /// The node's kernel, in [`Namespace::Kernel`](super::Namespace::Kernel); 0 = unknown.
    pub kernel: u32,
    /// The node's number in its graph, from 0.
    pub node: u32,
    /// As in [`GpuTime`].
    pub start: i64,
    /// As in [`GpuTime`].
    pub duration: u64,
    /// As in [`GpuTime`].
    pub start_error: u32,
    /// As in [`GpuTime`].
    pub duration_error: u32,
    /// As in [`GpuTime`].
    pub seen: u64,
}

records! {
    GpuTime = GpuTime, 64;
    Anchor = Anchor, 64;
    ClockSample = ClockSample, 64;
    Window = Window, 64;
    CaptureEdge = CaptureEdge, 64;
    NodeTime = NodeTime, 64;
}

const _: () = {
    assert!(offset_of!(GpuTime, start) == 32);
    assert!(offset_of!(GpuTime, duration) == 40);
    assert!(offset_of!(GpuTime, seen) == 56);
    assert!(offset_of!(ClockSample, gpu) == 16 && offset_of!(ClockSample, after) == 32);
    assert!(offset_of!(Window, agent_ticks) == 16 && offset_of!(Window, change) == 40);
    assert!(offset_of!(NodeTime, start) == 32 && offset_of!(NodeTime, seen) == 56);
};

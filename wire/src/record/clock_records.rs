//! Times: of operations on the GPU's clock, and what ties the clocks together.

use super::{CELL_BYTES, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// When an operation ran, on its context's GPU clock. Written by the poller only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GpuTime {
    /// The head.
    pub head: Head,
    /// Of the operation.
    pub correlation: u64,
    /// Of the operation.
    pub context: u32,
    /// The time base of anchors that `start` is measured on; positions of two time bases of a context do not compare.
    pub time_base: u32,
    /// Of an operation whose end event was recorded after its own record had gone out: ticks from the launch's return to the
    /// return of that event's record. 0: the operation's record says it.
    pub tail: u32,
    /// 0.
    pub reserved: u32,
    /// The start event, ns since the time base's origin.
    pub start: i64,
    /// End event − start event, ns: raw, over-read included.
    pub duration: u64,
    /// `start` is exact to ± this, ns, against the time base's origin.
    pub start_error: u32,
    /// `duration` is exact to ± this, ns.
    pub duration_error: u32,
    /// Host ticks when the end event was first seen complete: it completed before this.
    pub seen: u64,
}

/// One moment on the host's three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Anchor {
    /// The head.
    pub head: Head,
    /// Host ticks, read between the two bounds of `uncertainty`.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub monotonic_raw: u64,
    /// CLOCK_REALTIME, ns.
    pub realtime: u64,
    /// Ticks between the two reads around the clocks: the anchor is no better than this.
    pub uncertainty: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

/// What a look at the GPU's clock told: the poller has recorded an event on a stream of its own and watched it. It fired
/// between `after` and `before` on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ClockSample {
    /// The head.
    pub head: Head,
    /// The context.
    pub context: u32,
    /// The time base of anchors that `gpu` is measured on.
    pub time_base: u32,
    /// The event, ns since the time base's origin.
    pub gpu: i64,
    /// `gpu` is exact to ± this, ns.
    pub error: u32,
    /// Zero.
    pub reserved: u32,
    /// Host ticks before its record, or before the last question that found it pending: it had not fired.
    pub after: u64,
    /// Host ticks after the question that found it complete: it had fired.
    pub before: u64,
    /// Zero.
    pub reserved2: [u64; 2],
}

/// `--timing auto` begins or ends a window, a stretch in which everything is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Window {
    /// The head.
    pub head: Head,
    /// When (ticks).
    pub at: u64,
    /// Ticks that hooks took of the app's threads until then, all of them together.
    pub agent_ticks: u64,
    /// CPU time of the poller until then, ns.
    pub poller_ns: u64,
    /// Launches (of whatever goes onto a stream) until then.
    pub launches: u64,
    /// A [`WindowChange`](super::WindowChange).
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 2],
}

/// The part of the run that is looked at (`--capture-range`) begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Capture {
    /// The head.
    pub head: Head,
    /// When (ticks).
    pub at: u64,
    /// 1 = begins, 2 = ends.
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 5],
}

/// When a node of a graph ran, in one launch of it (`--graph nodes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct NodeTime {
    /// The head.
    pub head: Head,
    /// Of the graph's launch.
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
    Capture = Capture, 64;
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

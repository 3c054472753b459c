//! A burst or run that no event has ended yet, and what a session knows about bursts. [`burst`](super::burst) starts,
//! continues and ends them.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use gpuspy_wire::record::{self, Head, Untimed, flag};

use crate::gpu::context::Context;
use crate::gpu::overlap::Since;
use crate::keyed::Keyed;

/// The number of kernels for which the agent knows what follows them.
const KERNELS: usize = 4096;

/// What a session knows about bursts. Valid when zero.
pub struct Bursts {
    /// Whether a programmatic launch was observed. Before that, none of this costs anything. Relaxed: a
    /// thread that sees it late cuts one sequence.
    pub programmatic_seen: AtomicBool,
    /// The number of bursts without an end event. Relaxed: a thread that waits for a stream has seen its own
    /// launches, and those of other threads that it knows of.
    pub open: AtomicU32,
    /// By CUfunction or CUkernel: [`UNKNOWN`], [`FOLLOWED`] or [`ALONE`]. Relaxed: one word, and only a
    /// prediction.
    kernels: Keyed<AtomicU8, KERNELS>,
    /// By CUfunction or CUkernel: 1 = it has been launched on a deep stream. Relaxed: a thread that sees it
    /// late times one launch more.
    deep: Keyed<AtomicU8, KERNELS>,
}

/// Nothing is known about the kernel.
const UNKNOWN: u8 = 0;
/// A programmatic launch has followed the kernel. The state is final, so that the kernel cuts no second
/// sequence.
pub const FOLLOWED: u8 = 1;
/// Something else followed the kernel each time that was observed.
pub const ALONE: u8 = 2;

/// A burst without an end event.
pub struct OpenBurst {
    pub context: &'static Context,
    /// The thread that made its last launch.
    pub thread: u64,
    /// The start event; the burst holds it.
    pub start: u32,
    pub lead: u32,
    /// The record of its first launch.
    pub first: record::Work,
    pub launches: u32,
    /// The number of its launches that may overlap the launch ahead of them, or that signal in their middle.
    pub programmatic: u32,
    /// Whether it is a single launch that has a record of its own and only lacks its end event.
    pub is_deferred: bool,
    /// The number of launches that a run still takes.
    pub left: u32,
    /// The last kernel launched; 0 = a graph.
    pub function: u64,
    /// Ticks when its launch returned.
    pub last: u64,
    /// The call counts after the last launch; `None` when another call may overlap the burst.
    pub since: Option<Since>,
}

impl OpenBurst {
    /// Whether it consists of several launches, none of them programmatic.
    pub fn is_run(&self) -> bool {
        self.programmatic == 0 && !self.is_deferred
    }

    /// Builds its record; the end event was recorded by `ended` (ticks).
    pub fn record(
        &self,
        correlation: u64,
        ended: u64,
        since: Option<Since>,
        untimed: Untimed,
    ) -> record::Burst {
        let first = self.first;
        let kept = first.head.flags & (flag::SHARED_START | flag::LEGACY_STREAM | flag::PER_THREAD_STREAM);
        let disturbed = if since.is_none() { flag::SHARED_INTERVAL } else { 0 };
        record::Burst {
            work: record::Work {
                head: Head { flags: kept | disturbed | flag::MORE, ..Head::new::<record::Burst>() },
                correlation,
                end: ended,
                lead: self.lead,
                tail: saturated(ended.wrapping_sub(first.submitted)),
                untimed: untimed as u8,
                ..first
            },
            launches: self.launches,
            programmatic: self.programmatic,
            last: self.last,
            reserved: [0; 5],
        }
    }
}

impl Bursts {
    fn kernel(&self, function: u64) -> Option<&AtomicU8> {
        self.kernels.get(function)
    }

    /// Takes note that a programmatic launch follows this kernel.
    pub fn set_followed(&self, function: u64) {
        if let Some(kernel) = self.kernel(function) {
            kernel.store(FOLLOWED, Ordering::Relaxed);
        }
    }

    /// Takes note that something else follows this kernel.
    pub fn set_alone(&self, function: u64) {
        if let Some(kernel) = self.kernel(function) {
            let _ = kernel.compare_exchange(UNKNOWN, ALONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes note that a stream has ended with an open burst.
    pub fn abandoned(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether this is a kernel's first launch on a deep stream.
    pub fn is_first_when_deep(&self, function: u64) -> bool {
        let Some(kernel) = self.deep.get(function) else { return false };
        kernel.load(Ordering::Relaxed) == 0 && kernel.swap(1, Ordering::Relaxed) == 0
    }

    pub fn known(&self, function: u64) -> u8 {
        self.kernel(function).map_or(UNKNOWN, |kernel| kernel.load(Ordering::Relaxed))
    }
}

/// Converts ticks to the 32 bits that a record has for them.
pub fn saturated(ticks: u64) -> u32 {
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

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
    /// By CUfunction or CUkernel: what follows it.
    kernels: Keyed<Prediction, KERNELS>,
    /// By CUfunction or CUkernel: 1 = it has been launched on a deep stream. Relaxed: a thread that sees it
    /// late times one launch more.
    deep: Keyed<AtomicU8, KERNELS>,
}

/// Nothing is known about the kernel.
const UNKNOWN: u8 = 0;
/// A programmatic launch has followed the kernel, and does so again from time to time.
pub const FOLLOWED: u8 = 1;
/// Something else followed the kernel each time that was observed, or the last many times.
pub const ALONE: u8 = 2;

/// What is expected to follow a kernel. Valid when zero.
///
/// A kernel that is [`FOLLOWED`] becomes [`ALONE`] when something else has followed it [`PATIENCE`] times in a row: many
/// kernels are launched both ways, and a handle can come back as another kernel's. The next programmatic launch behind it
/// is cut off again, so each time doubles the patience: in n launches, a kernel cuts the logarithm of n sequences.
#[derive(Default)]
struct Prediction {
    /// [`UNKNOWN`], [`FOLLOWED`] or [`ALONE`] in the lowest bits; then how often the patience was doubled; then how often
    /// in a row something else followed. Relaxed: one word, and only a prediction.
    word: AtomicU32,
}

/// How often in a row something else follows a kernel before that is expected, at first.
const PATIENCE: u32 = 8;
/// How often the patience is doubled at most. It never exceeds the bits of the count.
const DOUBLED: u32 = 20;
/// Where the parts of the word begin.
const DOUBLED_AT: u32 = 2;
const IN_A_ROW_AT: u32 = 7;
const _: () = assert!(DOUBLED < 1 << (IN_A_ROW_AT - DOUBLED_AT));
const _: () = assert!(PATIENCE << DOUBLED < 1 << (32 - IN_A_ROW_AT));

impl Prediction {
    fn state(&self) -> u8 {
        (self.word.load(Ordering::Relaxed) & ((1 << DOUBLED_AT) - 1)) as u8
    }

    /// Takes note that a programmatic launch follows.
    fn followed(&self) {
        let word = self.word.load(Ordering::Relaxed);
        let followed = Self::of(FOLLOWED, Self::doubled(word), 0);
        if word != followed {
            self.word.store(followed, Ordering::Relaxed);
        }
    }

    /// Takes note that something else follows. `is_first`: the kernel was expected to be the first of a sequence.
    fn alone(&self, is_first: bool) {
        let word = self.word.load(Ordering::Relaxed);
        let (doubled, in_a_row) = (Self::doubled(word), (word >> IN_A_ROW_AT) + 1);
        let next = match self.state() {
            UNKNOWN => Self::of(ALONE, doubled, 0),
            FOLLOWED if is_first && in_a_row >= PATIENCE << doubled => {
                Self::of(ALONE, (doubled + 1).min(DOUBLED), 0)
            }
            FOLLOWED if is_first => Self::of(FOLLOWED, doubled, in_a_row),
            _ => return,
        };
        // If another thread has changed it meanwhile, what that thread saw counts.
        let _ = self.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn doubled(word: u32) -> u32 {
        word >> DOUBLED_AT & ((1 << (IN_A_ROW_AT - DOUBLED_AT)) - 1)
    }

    fn of(state: u8, doubled: u32, in_a_row: u32) -> u32 {
        u32::from(state) | doubled << DOUBLED_AT | in_a_row << IN_A_ROW_AT
    }
}

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
    /// Takes note that a programmatic launch follows this kernel.
    pub fn set_followed(&self, function: u64) {
        if let Some(kernel) = self.kernels.get(function) {
            kernel.followed();
        }
    }

    /// Takes note that something else follows a burst, and so its last kernel.
    pub fn closed(&self, burst: &OpenBurst) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if burst.programmatic != 0
            && let Some(kernel) = self.kernels.get(burst.function)
        {
            kernel.alone(burst.launches == 1);
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
        self.kernels.get(function).map_or(UNKNOWN, Prediction::state)
    }
}

/// Converts ticks to the 32 bits that a record has for them.
pub fn saturated(ticks: u64) -> u32 {
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that was followed by one programmatic launch was never timed alone again.
    #[test]
    fn a_kernel_that_is_no_longer_followed_is_alone() {
        let kernel = Prediction::default();
        kernel.followed();
        for _ in 1..PATIENCE {
            kernel.alone(true);
            kernel.alone(false);
            assert_eq!(kernel.state(), FOLLOWED);
        }
        kernel.followed();
        for _ in 0..PATIENCE {
            assert_eq!(kernel.state(), FOLLOWED);
            kernel.alone(true);
        }
        assert_eq!(kernel.state(), ALONE);
        (0..100).for_each(|_| kernel.alone(true));
        assert_eq!(kernel.state(), ALONE);
    }

    /// Each time that a kernel is found to be followed, its event has cut a sequence.
    #[test]
    fn a_kernel_cuts_few_sequences_however_rarely_it_is_followed() {
        for others in [0, 7, 8, 100, 1000] {
            let (kernel, mut cut) = (Prediction::default(), 0);
            for _ in 0..100_000 / (others + 1) {
                cut += u32::from(kernel.state() != FOLLOWED);
                kernel.followed();
                (0..others).for_each(|_| kernel.alone(true));
            }
            assert!((1..=8).contains(&cut), "{others}: {cut}");
        }
    }

    #[test]
    fn the_patience_has_a_limit() {
        let kernel = Prediction::default();
        for doubled in 0..=DOUBLED {
            let last = Prediction::of(FOLLOWED, doubled, (PATIENCE << doubled) - 1);
            kernel.word.store(last, Ordering::Relaxed);
            kernel.alone(true);
            let expected = Prediction::of(ALONE, (doubled + 1).min(DOUBLED), 0);
            assert_eq!(kernel.word.load(Ordering::Relaxed), expected);
        }
    }
}

//! Was the thread that led a gap running while it was outside CUDA, or was it off the processor?
//!
//! The collector samples how long threads have run ([`crate::model::thread_times`]). Between two samples, a *window*, the
//! thread was outside CUDA in gaps for some time, and ran for some time. How much of the one was the other has bounds: if
//! the window is of W ns, of which it ran R and was outside CUDA in gaps O, it ran in at most min(O, R) of O, and in at
//! least R − (W − O), because in the rest of the window it cannot have run for longer than that lasts. The bounds of the
//! windows are added. A thread that is ready to run and waits for a processor counts as running: it does not wait for
//! input.
//!
//! What is known of a part of the time is less exact than what is known of all of it: a window may have other parts. So where a
//! part turns out to belong elsewhere, the bounds of the rest are those of all, each less the opposite bound of the part. Where the part
//! is warm-up, what is known of the windows without any of that says more of the rest.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::closed::Closed;
use super::less;
use crate::hash::HashMap;
use crate::model::period::Period;
use crate::model::thread_times::{Spent, ThreadTimes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The processor time of the threads of each process on the line, by its number.
pub type LineTimes = Arc<[Arc<ThreadTimes>]>;

/// Idle time in which the leading thread was in no CUDA call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outside {
    /// All that has the cause [`OutsideCuda`](super::Cause::OutsideCuda).
    Any,
    /// Of that, what [`is_long`](super::Site::is_long), and is not owed to a wait of another thread for the GPU.
    Long,
    /// What has the cause [`SetUp`](super::Cause::SetUp).
    SetUp,
}

impl Outside {
    const COUNT: usize = 3;
    const ALL: [Outside; Outside::COUNT] = [Outside::Any, Outside::Long, Outside::SetUp];
}

/// What the leading threads did in time outside CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The time outside CUDA, ns.
    pub outside: Sum,
    /// Of that, the time that lies between two samples of its thread, ns.
    pub sampled: u64,
    /// The time in which the thread ran or waited for a processor, ns.
    pub runnable: Sum,
    /// Of that, the time in which it ran, ns.
    pub ran: Sum,
    /// The rest of that, in which it waited for a processor, ns.
    pub queued: Sum,
}

impl Merge for Running {
    fn merge(&mut self, other: &Running) {
        self.outside.add(other.outside);
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.runnable.add(other.runnable);
        self.ran.add(other.ran);
        self.queued.add(other.queued);
    }
}

impl Running {
    /// Returns `part / whole` of it.
    pub fn share(self, part: u64, whole: u64) -> Running {
        let of = |sum: Sum| sum.share(part, whole);
        let sampled = of(Sum { value: self.sampled, ..Sum::default() }).value;
        Running { outside: of(self.outside), sampled, ..self.spent(of) }
    }

    /// Returns it without a [share](Self::share) of it.
    pub fn less(self, share: Running) -> Running {
        Running {
            outside: less(self.outside, share.outside),
            sampled: self.sampled.saturating_sub(share.sampled),
            ..self.spent_beside(share, less)
        }
    }

    /// Returns it with what the thread did changed.
    fn spent(self, change: impl Fn(Sum) -> Sum) -> Running {
        self.spent_beside(self, |sum, _| change(sum))
    }

    /// Does the same with what it did in other time beside it.
    fn spent_beside(self, other: Running, change: impl Fn(Sum, Sum) -> Sum) -> Running {
        Running {
            runnable: change(self.runnable, other.runnable),
            ran: change(self.ran, other.ran),
            queued: change(self.queued, other.queued),
            ..self
        }
    }

    /// Returns what is known of a stretch of it that is `part / whole` as long. Nothing says where in it that lies.
    pub fn stretch(self, part: u64, whole: u64) -> Running {
        if part >= whole {
            return self;
        }
        let share = self.share(part, whole);
        let outside = share.outside;
        let beside = self.outside.hi.saturating_sub(outside.lo);
        let of = |all: Sum, share: Sum| {
            let (lo, hi) = (all.lo.saturating_sub(beside), all.hi.min(outside.hi));
            Sum { value: share.value.min(hi).max(lo), lo, hi }
        };
        Running { outside, sampled: share.sampled, ..self.spent_beside(share, of) }
    }

    /// Returns what is known of the rest, where `part` is what is known of a part.
    pub fn without(self, part: Running) -> Running {
        let outside = less(self.outside, part.outside);
        let left = |all: Sum, part: Sum| {
            let (lo, hi) = (all.lo.saturating_sub(part.hi), all.hi.saturating_sub(part.lo).min(outside.hi));
            let value = all.value.saturating_sub(part.value).min(outside.value);
            Sum { value: value.min(hi).max(lo), lo, hi }
        };
        Running {
            outside,
            sampled: self.sampled.saturating_sub(part.sampled),
            ..self.spent_beside(part, left)
        }
    }

    /// Returns what is known of all idle time of a cause, where this is what gaps show of it and the rest lies in
    /// [pauses](super::pauses). The best values assume that the threads did the same there; the bounds do not.
    pub fn in_all(self, all: Sum) -> Running {
        let shown = self.outside.value;
        let in_pauses = all.hi.saturating_sub(shown);
        if shown == 0 || all.value <= shown {
            return self;
        }
        let of = |sum: Sum| {
            let (lo, hi) = (sum.lo, sum.hi.saturating_add(in_pauses).min(all.hi));
            let value = u128::from(sum.value) * u128::from(all.value) / u128::from(shown);
            Sum { value: u64::try_from(value).unwrap_or(u64::MAX).min(hi).max(lo), lo, hi }
        };
        Running { outside: all, ..self.spent(of) }
    }
}

/// The time outside CUDA of one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// By [`Outside`].
    outside: [Sum; Outside::COUNT],
    /// The first step that may be warm-up with such time in it.
    step: Option<u64>,
}

/// The time outside CUDA in the gaps of a timeline, by thread and window.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    times: LineTimes,
    /// By process and thread.
    threads: HashMap<(u32, u32), Vec<Window>>,
    /// What lies in no window.
    unsampled: Window,
}

/// Time of a gap in which the leading thread was outside CUDA.
#[derive(Clone, Copy, Debug)]
pub struct Stretches<'s, Each> {
    /// The numbers of its process and of the thread.
    pub thread: (u32, u32),
    /// The step that it lies in, if that may be warm-up.
    pub step: Option<u64>,
    /// From when to when, in order, in all the time that the gap may have: host ns.
    pub stretches: Each,
    /// The gap.
    pub gap: &'s Closed,
    /// By how much it can be shorter than [`Part`](super::Part) says, wherever it lies, ns.
    pub doubt: u64,
}

impl Windows {
    /// Windows between the samples of these threads.
    pub fn of(times: LineTimes) -> Windows {
        Windows { times, ..Windows::default() }
    }

    /// Adds time outside CUDA that counts as `kinds`, and returns what is known of the thread in that time alone.
    pub fn add<Each>(&mut self, outside: Stretches<'_, Each>, kinds: &[Outside], period: &Period) -> Running
    where
        Each: Iterator<Item = (i64, i64)>,
    {
        let Windows { times, threads, unsampled } = self;
        let samples =
            times.get(outside.thread.0 as usize).map_or(&[][..], |times| times.of(outside.thread.1));
        let windows = threads.entry(outside.thread).or_default();
        windows.resize(samples.len().saturating_sub(1), Window::default());
        let mut alone = Running::default();
        let mut put = |window: Option<usize>, part: Sum| {
            let part = Sum { lo: part.value.saturating_sub(outside.doubt), ..part };
            let place = window.and_then(|at| windows.get_mut(at)).unwrap_or(&mut *unsampled);
            kinds.iter().for_each(|kind| place.outside[*kind as usize].add(part));
            place.step = place.step.into_iter().chain(outside.step).min();
            let spent = window.map(|at| Spent::between(&samples[at], &samples[at + 1]));
            alone.merge(&spent.map_or_else(|| of_no_window(part), |spent| of_window(part, &spent)));
        };
        // A gap has a doubt in each window once, however many stretches it has there.
        let mut open: Option<(Option<usize>, Sum)> = None;
        for (from, to) in outside.stretches {
            let mut now = from;
            while now < to {
                let next = samples.partition_point(|sample| sample.at <= now);
                let window = next.checked_sub(1).filter(|_| next < samples.len());
                let end = samples.get(next).map_or(to, |sample| sample.at.min(to));
                let (first, last) = (now.max(outside.gap.from), end.min(outside.gap.to));
                let value = if first < last { period.length(first, last) } else { 0 };
                let part = Sum { value, lo: 0, hi: end.saturating_sub(now).max(0) as u64 };
                match &mut open {
                    Some((same, sum)) if *same == window => sum.add(part),
                    _ => {
                        if let Some((window, sum)) = open.replace((window, part)) {
                            put(window, sum);
                        }
                    }
                }
                now = end;
            }
        }
        if let Some((window, sum)) = open {
            put(window, sum);
        }
        alone
    }

    /// Returns what is known of time of a kind in each window, with the first step in it that may be warm-up.
    fn each(&self, kind: Outside) -> impl Iterator<Item = (Option<u64>, Running)> {
        self.threads.iter().flat_map(move |((process, thread), windows)| {
            let samples = self.times.get(*process as usize).map_or(&[][..], |times| times.of(*thread));
            windows.iter().zip(samples.windows(2)).map(move |(window, two)| {
                let spent = Spent::between(&two[0], &two[1]);
                (window.step, of_window(window.outside[kind as usize], &spent))
            })
        })
    }

    /// Returns what the threads did for [long](Outside::Long) in the windows that contain time of steps which may be warm-up, by the first
    /// one of these steps.
    pub fn early(&self) -> BTreeMap<u64, Running> {
        let mut early: BTreeMap<u64, Running> = BTreeMap::new();
        for (step, running) in self.each(Outside::Long) {
            if let Some(step) = step.filter(|_| running.outside != Sum::default()) {
                early.entry(step).or_default().merge(&running);
            }
        }
        early
    }

    /// Returns what the threads did.
    pub fn finish(&self) -> BTreeMap<Outside, Running> {
        let mut all = BTreeMap::new();
        for kind in Outside::ALL {
            let mut running = of_no_window(self.unsampled.outside[kind as usize]);
            self.each(kind).for_each(|(_, one)| running.merge(&one));
            if running.outside != Sum::default() {
                all.insert(kind, running);
            }
        }
        all
    }
}

fn of_no_window(outside: Sum) -> Running {
    Running {
        outside,
        sampled: 0,
        runnable: Sum { value: outside.value / 2, lo: 0, hi: outside.hi },
        ran: Sum { value: outside.value / 2, lo: 0, hi: outside.hi },
        queued: Sum { value: 0, lo: 0, hi: outside.hi },
    }
}

fn of_window(outside: Sum, spent: &Spent) -> Running {
    Running {
        outside,
        sampled: outside.value,
        runnable: in_both(spent.wall, outside, (spent.runnable_lo, spent.runnable_hi)),
        ran: in_both(spent.wall, outside, (spent.ran_lo, spent.ran_hi)),
        queued: in_both(spent.wall, outside, (spent.queued, spent.queued)),
    }
}

/// Returns how long two things were true at once that were each true for some part of `wall`, with the middle of the bounds
/// as the value.
fn in_both(wall: u64, one: Sum, (lo, hi): (u64, u64)) -> Sum {
    let lo = lo.saturating_sub(wall.saturating_sub(one.lo));
    let hi = hi.min(one.hi);
    Sum { value: lo.midpoint(hi.min(one.value)).max(lo), lo, hi: hi.max(lo) }
}

#[cfg(test)]
mod tests;

//! The collectives of one process: when its communication kernels ran, and how long it took from one to the next.
//!
//! Ranks are compared later, when all processes have been read: the k-th kernel of a name on one rank belongs to the k-th
//! of that name on every other. So each process keeps when its kernels ran, together with their numbers. Their count is
//! bounded: once there are too many, those are kept whose number has a hash that ends with one more zero bit. That keeps
//! the same numbers in every process, and is no fixed distance, which could hit the same kernel of every step.

mod numbers;

use super::analysis::{Analysis, End, Start};
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::gpu_interval::GpuInterval;
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
pub use numbers::{Launched, Numbers};
use std::collections::BTreeMap;

/// The collectives of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// By the kernel's symbol.
    pub kinds: BTreeMap<String, Kind>,
    /// Of the kernels that were timed, those are kept whose number is [kept](is_kept) at this level.
    pub level: u32,
    /// The time between them.
    pub own: OwnTime,
}

impl Collectives {
    /// Drops arrivals, level by level, until at most this many are kept.
    pub fn thin(&mut self, most: usize) {
        while self.level < 63 && self.kinds.values().map(|kind| kind.kept.len()).sum::<usize>() > most {
            self.level += 1;
            let level = self.level;
            for kind in self.kinds.values_mut() {
                kind.kept.retain(|one| is_kept(one.number, level));
                kind.kept.shrink_to_fit();
            }
        }
    }
}

/// The communication kernels of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// How many were launched, whatever the filter selects.
    pub count: u64,
    /// How many of those the filter selects.
    pub selected: u64,
    /// How many of the selected ones have a time, whether they are kept or not.
    pub timed: u64,
    /// When they ran, by their number: those that the filter selects and that are kept.
    pub kept: Vec<Arrival>,
}

/// When one communication kernel ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its number among those of its name, from 0.
    pub number: u64,
    /// When it started, host ns.
    pub start: Moment,
    /// When it ended, host ns.
    pub end: Moment,
    /// How long it ran, ns.
    pub length: Moment,
}

/// A time and its bounds, which are stored as distances from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The best estimate.
    pub value: i64,
    below: u32,
    above: u32,
}

impl Moment {
    /// A time between two bounds. Bounds that are more than 4 s away are not stored: then nothing is known.
    pub fn new(value: i64, lo: i64, hi: i64) -> Moment {
        let distance = |ns: i64| u32::try_from(ns.max(0)).unwrap_or(u32::MAX);
        Moment { value, below: distance(value.saturating_sub(lo)), above: distance(hi.saturating_sub(value)) }
    }

    /// It was no earlier.
    pub fn lo(&self) -> i64 {
        if self.below == u32::MAX { i64::MIN } else { self.value.saturating_sub(self.below.into()) }
    }

    /// It was no later.
    pub fn hi(&self) -> i64 {
        if self.above == u32::MAX { i64::MAX } else { self.value.saturating_add(self.above.into()) }
    }
}

/// The time in which a process ran no communication kernel: its own time, in which it waits for no other process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTime {
    /// Successive parts of the run; at most [`WINDOWS`].
    pub windows: Vec<Window>,
    /// The times between kernels that a window holds once it is complete.
    pub each: u64,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// How many times between two kernels were measured.
    pub count: u64,
    /// Their sum, ns.
    pub total: u64,
}

/// The most parts of a run that are compared with each other.
pub const WINDOWS: usize = 64;
/// The times between kernels in a window of a short run: enough that one interruption is not all of it.
const FIRST_WINDOW: u64 = 16;
/// The most arrivals that a process keeps: 40 bytes each.
const KEPT: usize = 16_384;

impl Default for OwnTime {
    fn default() -> Self {
        OwnTime { windows: Vec::new(), each: FIRST_WINDOW }
    }
}

impl OwnTime {
    /// Adds a time between two kernels.
    pub fn add(&mut self, ns: u64) {
        if self.windows.last().is_none_or(|window| window.count >= self.each) {
            if self.windows.len() == WINDOWS {
                self.widen();
            }
            self.windows.push(Window::default());
        }
        if let Some(window) = self.windows.last_mut() {
            window.count += 1;
            window.total = window.total.saturating_add(ns);
        }
    }

    /// Makes one window of each two.
    fn widen(&mut self) {
        let joined = self.windows.chunks(2).map(Window::sum).collect();
        self.windows = joined;
        self.each *= 2;
    }

    /// Returns the mean, ns.
    pub fn mean(&self) -> Option<f64> {
        Window::sum(&self.windows).mean()
    }
}

impl Window {
    fn sum(windows: &[Window]) -> Window {
        windows.iter().fold(Window::default(), |all, window| Window {
            count: all.count + window.count,
            total: all.total.saturating_add(window.total),
        })
    }

    /// Returns the mean, ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total as f64 / self.count as f64)
    }
}

/// Whether a kernel with this number is kept at a level: at level n, one in 2ⁿ is.
pub fn is_kept(number: u64, level: u32) -> bool {
    // The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    let mut hash = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (hash ^ (hash >> 31)).trailing_zeros() >= level
}

/// Computes [`Collectives`].
#[derive(Debug)]
pub struct CollectiveFold<'a> {
    names: &'a Names,
    numbers: Numbers<'a>,
    /// By the first number of a kernel with the symbol.
    kinds: HashMap<u32, Kind>,
    kept: usize,
    level: u32,
    /// By context and stream: the newest one without a time of its own, which may come with the
    /// [burst](Action::Burst) that it is the only launch of.
    open: HashMap<(u32, u64), Launched>,
    /// The number among all of the newest one that was timed, and when the last one ended.
    last: Option<(u64, i64)>,
    own: OwnTime,
}

impl CollectiveFold<'_> {
    /// Counts a launch. Returns it unless its time comes later.
    fn launched(&mut self, operation: &Operation, is_selected: bool) -> Option<Launched> {
        let launched = self.numbers.launched(operation)?;
        let kind = self.kinds.entry(launched.kernel).or_default();
        kind.count += 1;
        kind.selected += u64::from(is_selected);
        if matches!(operation.when, When::Untimed { .. }) {
            self.open.insert((operation.context, operation.stream), launched);
            return None;
        }
        Some(launched)
    }

    fn timed(&mut self, launched: Launched, interval: &GpuInterval) {
        let Launched { kernel, number, place } = launched;
        // Where one between them has no time, nobody knows how much of the time it ran.
        if let Some((_, ended)) = self.last.filter(|(last, _)| last + 1 == place) {
            self.own.add(interval.start.saturating_sub(ended).max(0) as u64);
        }
        self.last = Some((place, self.last.map_or(i64::MIN, |(_, ended)| ended).max(interval.end)));
        let kind = self.kinds.entry(kernel).or_default();
        kind.timed += 1;
        if !is_kept(number, self.level) {
            return;
        }
        kind.kept.push(Arrival::of(number, interval));
        self.kept += 1;
        if self.kept > KEPT {
            self.thin();
        }
    }

    /// Drops about half of what is kept.
    fn thin(&mut self) {
        self.level += 1;
        let level = self.level;
        self.kinds.values_mut().for_each(|kind| kind.kept.retain(|one| is_kept(one.number, level)));
        self.kept = self.kinds.values().map(|kind| kind.kept.len()).sum();
    }
}

impl Arrival {
    fn of(number: u64, interval: &GpuInterval) -> Arrival {
        let GpuInterval { earliest_start, start, latest_start, earliest_end, end, latest_end, .. } =
            *interval;
        let off_by = interval.off_by.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let placed =
            |lo: i64, at: i64, hi: i64| Moment::new(at, lo.saturating_sub(off_by), hi.saturating_add(off_by));
        let length = interval.length;
        Arrival {
            number,
            start: placed(earliest_start, start, latest_start),
            end: placed(earliest_end, end, latest_end),
            length: Moment::new(length.value as i64, length.lo as i64, length.hi as i64),
        }
    }
}

impl<'a> Analysis<'a> for CollectiveFold<'a> {
    type Rows = Collectives;

    fn new(start: &Start<'a>) -> Self {
        CollectiveFold {
            names: start.names,
            numbers: Numbers::new(start.names, &start.captured),
            kinds: HashMap::default(),
            kept: 0,
            level: 0,
            open: HashMap::default(),
            last: None,
            own: OwnTime::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Some(operation) = &event.operation else { return };
        if self.numbers.is_earlier(operation) {
            return;
        }
        let launched = match operation.what {
            Action::Burst { launches: 1, communication: true, .. } => {
                self.open.remove(&(operation.context, operation.stream))
            }
            _ => self.launched(operation, scope.operation().is_some()),
        };
        if let (Some(launched), When::Timed(interval), Some(_)) =
            (launched, operation.when, scope.operation())
        {
            self.timed(launched, &interval);
        }
    }

    fn finish(self, _end: &End<'_>) -> Collectives {
        let symbol = |name| self.names.get(Namespace::Kernel, name).unwrap_or_default().to_owned();
        let mut kinds: BTreeMap<String, Kind> =
            self.kinds.into_iter().map(|(name, kind)| (symbol(name), kind)).collect();
        kinds.values_mut().for_each(|kind| kind.kept.sort_by_key(|one| one.number));
        Collectives { kinds, level: self.level, own: self.own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::period::Period;
    use crate::model::simulation::{self, exactly, operation};
    use crate::trace::record::{Body, Record};
    use gpuspy_wire::record::Fact;

    #[test]
    fn a_level_keeps_the_same_numbers_everywhere_and_about_half_of_those_below_it() {
        for level in 0..6 {
            let kept = (0..100_000).filter(|number| is_kept(*number, level)).count();
            let expected = 100_000 >> level;
            assert!(kept.abs_diff(expected) < expected / 20 + 1, "{level}: {kept}");
        }
        assert!((0..1_000).all(|number| !is_kept(number, 3) || is_kept(number, 2)));
        // Four kernels in each step: all of them are kept equally often.
        let of_each = (0..4).map(|at| (0..100_000u64).filter(|n| n % 4 == at && is_kept(*n, 4)).count());
        assert!(
            of_each.clone().all(|kept| (1_400..1_750).contains(&kept)),
            "{:?}",
            of_each.collect::<Vec<_>>()
        );
    }

    #[test]
    fn windows_grow_and_lose_nothing() {
        let mut own = OwnTime::default();
        (0..5_000).for_each(|ns| own.add(ns));
        assert!(own.windows.len() <= WINDOWS && own.each == 128, "{own:?}");
        let all = Window::sum(&own.windows);
        assert_eq!((all.count, all.total), (5_000, 4_999 * 5_000 / 2));
        assert!(own.windows.is_sorted_by_key(|window| window.total / window.count));
    }

    #[test]
    fn bounds_that_are_too_far_away_are_no_bounds() {
        let near = Moment::new(1_000, 900, 1_200);
        assert_eq!((near.lo(), near.hi()), (900, 1_200));
        let far = Moment::new(1_000, i64::MIN, i64::MAX);
        assert_eq!((far.lo(), far.hi()), (i64::MIN, i64::MAX));
    }

    #[test]
    fn in_a_later_window_collectives_are_numbered_from_the_start_of_the_run() {
        let text = |space, id, text: &str| ((space, id), text.to_owned());
        let names = Names(BTreeMap::from([
            text(Namespace::Kernel, 1, "ncclDevKernel_AllReduce"),
            text(Namespace::Kernel, 2, "ncclDevKernel_AllReduce"),
            text(Namespace::Launched, 1, "40"),
            text(Namespace::Launched, 2, "2"),
            text(Namespace::Fact, Fact::Window as u32, "3"),
        ]));
        // A filter on time changes no number.
        let [captured, period] = [100_000, 250_000].map(|from| Period::between(from, i64::MAX));
        let mut fold = CollectiveFold::new(&Start { period, captured, ..Start::of(&names) });
        // The first was launched before the window, and is in its trace because it was still running.
        for called in [90_000, 200_000, 300_000] {
            let mut launch =
                operation(Action::Kernel { name: 1, communication: true }, (called, called + 5_000));
            launch.when = When::Timed(exactly(called as i64 + 20_000, called as i64 + 30_000));
            let body = Body::Work(simulation::work(called, 0, 5_000));
            let record = Record { thread: 1, at: called + 5_000, body };
            let event = Event { operation: Some(launch), ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        let kinds: Vec<&Kind> = fold.kinds.values().collect();
        let [kind] = kinds[..] else { panic!("{kinds:?}") };
        assert_eq!((kind.count, kind.selected, kind.timed), (2, 2, 2));
        assert_eq!(kind.kept.iter().map(|one| one.number).collect::<Vec<_>>(), [42, 43]);
    }
}

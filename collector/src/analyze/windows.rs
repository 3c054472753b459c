//! How much of the time was timed, and what timing cost (`--timing auto`).
//!
//! The agent times the first phase of a program in full, and after it windows that its budget can pay for. The
//! records of a window's edges have the agent's cost so far: what hooks and poller took of the host's time. They
//! cannot measure what events cost the GPU, or how long launches wait for locks that the poller holds. That is
//! estimated by **comparing each pause with the windows next to it**, on the stream with the most launches and by the
//! GPU's clock ([`gpuspy_wire::pace`]): how much longer a launch took in the window, less the additional time in
//! hooks, as a share of what it took in the pause. The agent charges the same to its budget, by the least that its
//! last few comparisons prove; the report uses all of them.
//!
//! The best value is the median of the comparisons. Its interval includes that of the median (the ranks around it
//! that contain the true one in 99 of 100 cases, by the normal approximation of a binomial) and that of the mean: on
//! a busy machine other programs interrupt long pauses more often than short windows, which moves the median and not
//! the mean. An event makes no GPU faster, so a negative value is reported as 0. If several threads launch at once,
//! the time in hooks is not the host's time, and the estimate is low. With too few comparisons the slowdown is
//! unknown. It counts as a cost only if all of its interval is above 0: else it cannot be told from the variation of launches.

use super::analysis::{Analysis, End, Start};
use super::extrapolate::student;
use super::merge::Merge;
use super::scope::Scope;
use crate::model::gpu_interval::host;
use crate::model::period::Period;
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::{Body, Names, Window};
use gpuspy_wire::pace::{Compared, Pace, Point};
use gpuspy_wire::record::{Fact, Namespace, WindowChange};

/// The fewest launches in a window and in a pause from which the hooks' time per launch is computed.
const LEAST_LAUNCHES: u64 = 50;
/// The fewest comparisons for an estimate.
const LEAST_PAIRS: usize = 8;
/// Streams whose launches are counted, to find the one with the most.
const STREAMS: usize = 64;
/// Another stream is followed once it has had this many times as many launches.
const MUCH_BUSIER: u64 = 2;
/// The most comparisons that are kept; then every second one is dropped, and so is every second one of those to come.
const PAIRS: usize = 4096;

/// How operations were timed, as the agent reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// In windows, within a budget in percent.
    Auto(f64),
    /// All of them.
    Exact,
    /// None of them.
    Off,
}

impl Timing {
    fn of(names: &Names) -> Option<Timing> {
        let text = names.get(Namespace::Fact, Fact::Timing as u32)?;
        match text.split_once(' ') {
            Some(("auto", percent)) => {
                percent.parse().ok().filter(|p| *p > 0.0 && *p <= 100.0).map(Timing::Auto)
            }
            None if text == "exact" => Some(Timing::Exact),
            None if text == "off" => Some(Timing::Off),
            _ => None,
        }
    }
}

/// An interval of time: what was launched in it, and what that cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Host ns.
    pub ns: u64,
    /// Operations that went onto a stream.
    pub launches: u64,
    /// ns in hooks, the sum over all threads.
    pub agent_ns: u64,
    /// CPU time of the poller, ns.
    pub poller_ns: u64,
}

impl Stretch {
    fn add(&mut self, other: &Stretch) {
        self.ns = self.ns.saturating_add(other.ns);
        self.launches = self.launches.saturating_add(other.launches);
        self.agent_ns = self.agent_ns.saturating_add(other.agent_ns);
        self.poller_ns = self.poller_ns.saturating_add(other.poller_ns);
    }

    /// The cost of hooks and poller, ns.
    pub fn cost(&self) -> u64 {
        self.agent_ns.saturating_add(self.poller_ns)
    }

    /// The same in percent of the time; `None` if no time passed.
    pub fn percent(&self) -> Option<f64> {
        (self.ns > 0).then(|| 100.0 * self.cost() as f64 / self.ns as f64)
    }
}

/// A share that is estimated, and may be negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// The best value: 0.01 means that a launch takes 1 % longer.
    pub value: f64,
    /// The lower bound of its 99 % interval.
    pub lo: f64,
    /// The upper bound.
    pub hi: f64,
    /// The number of comparisons.
    pub pairs: u64,
}

/// How much was timed, and what that cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duty {
    /// As the agent reports it; `None` if it does not, or if processes differ.
    pub timing: Option<Timing>,
    /// The number of windows, including the first phase.
    pub windows: u64,
    /// The first phase.
    pub first: Stretch,
    /// The windows after it that have closed.
    pub timed: Stretch,
    /// The pauses that have ended.
    pub counted: Stretch,
    /// Host ns of the selected time in windows and in pauses, from the first edge to the end.
    timed_ns: u64,
    counted_ns: u64,
    slowdowns: Thinned,
}

impl Duty {
    /// From the end of the first phase to the last edge.
    pub fn measured(&self) -> Stretch {
        let mut both = self.timed;
        both.add(&self.counted);
        both
    }

    /// Returns the host ns in windows, including the first phase, and in all of the selected time.
    pub fn time(&self) -> (u64, u64) {
        (self.timed_ns, self.timed_ns.saturating_add(self.counted_ns))
    }

    /// Whether counting alone costs more than the budget, so that windows could not be paid for.
    pub fn is_exhausted(&self) -> bool {
        let Some(Timing::Auto(percent)) = self.timing else { return false };
        self.counted.agent_ns as f64 > percent / 100.0 * self.counted.ns as f64
    }

    /// Returns how much longer launches after the first phase took because of timing, in percent of the time there; `None` if it is not
    /// certain that they did.
    pub fn slowed_percent(&self) -> Option<f64> {
        let (longer, all) = (self.longer()?, self.measured().ns);
        (all > 0).then(|| 100.0 * longer * self.timed.ns as f64 / all as f64)
    }

    /// Returns the share of the windows' time that they would not have taken as pauses; `None` if it is not certain that there is any.
    pub fn longer(&self) -> Option<f64> {
        let slowdown = self.slowdown().filter(|slowdown| slowdown.lo > 0.0)?;
        Some(slowdown.value / (1.0 + slowdown.value))
    }

    /// Returns how much longer launches take while they are timed, less the time in hooks, as a share of what one
    /// takes in pauses.
    pub fn slowdown(&self) -> Option<Slowdown> {
        let pairs = &self.slowdowns.kept;
        if pairs.len() < LEAST_PAIRS {
            return None;
        }
        let half = pairs.len() / 2;
        // 2.58 standard deviations of a binomial with p = 1/2.
        let reach = (1.29 * (pairs.len() as f64).sqrt()).ceil() as usize;
        let sorted = |which: fn(&Longer) -> f64| {
            let mut all: Vec<f64> = pairs.iter().map(which).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (without_hooks, whole) = (sorted(|l| l.without_hooks), sorted(|l| l.whole));
        let lo = without_hooks[half.saturating_sub(reach)].min(mean(pairs, |l| l.without_hooks).0);
        let hi = whole[(half + reach).min(whole.len() - 1)].max(mean(pairs, |l| l.whole).1);
        // If the hooks cost more than the total slowdown, they ran in parallel with the GPU's work.
        Some(Slowdown { value: without_hooks[half].max(0.0), lo, hi: hi.max(0.0), pairs: pairs.len() as u64 })
    }
}

impl Merge for Duty {
    fn merge(&mut self, other: &Duty) {
        self.windows = self.windows.saturating_add(other.windows);
        self.first.add(&other.first);
        self.timed.add(&other.timed);
        self.counted.add(&other.counted);
        self.timed_ns = self.timed_ns.saturating_add(other.timed_ns);
        self.counted_ns = self.counted_ns.saturating_add(other.counted_ns);
        other.slowdowns.kept.iter().for_each(|slowdown| self.slowdowns.add(*slowdown));
    }
}

/// Returns the bounds of the mean of all comparisons, weighted by the length of their windows; the true mean is
/// inside in 99 of 100 cases.
fn mean(pairs: &[Longer], of: fn(&Longer) -> f64) -> (f64, f64) {
    let sum = |each: &dyn Fn(&Longer) -> f64| pairs.iter().map(each).sum::<f64>();
    let (n, all) = (pairs.len() as f64, sum(&|pair| pair.ns));
    let mean = sum(&|pair| pair.ns * of(pair)) / all;
    let squares = sum(&|pair| (pair.ns * (of(pair) - mean)).powi(2));
    let margin = student(n - 1.0) * (squares * n / (n - 1.0)).sqrt() / all;
    (mean - margin, mean + margin)
}

/// How much longer a launch took in a window than in the pause next to it, as a share of the latter. The hooks' time
/// is part of it if the program waits for its calls, and not if the calls run ahead of the GPU: the true slowdown is
/// between the two values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Longer {
    without_hooks: f64,
    whole: f64,
    /// What the window would have taken as a pause, ns.
    ns: f64,
}

/// Comparisons in bounded memory: all, then every second, every fourth …
#[derive(Clone, Debug, Default, PartialEq)]
struct Thinned {
    kept: Vec<Longer>,
    /// One of 2^this is kept.
    doublings: u32,
    seen: u64,
}

impl Thinned {
    fn add(&mut self, pair: Longer) {
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.doublings) {
            return;
        }
        self.kept.push(pair);
        if self.kept.len() == PAIRS {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.doublings += 1;
        }
    }
}

/// The analysis.
#[derive(Debug)]
pub struct Windows {
    duty: Duty,
    /// The time that was captured.
    period: Period,
    /// The last edge: when it was, and what had been spent by then.
    edge: Option<(u64, Window)>,
    /// Operations since the last edge.
    launches: u64,
    /// The hooks' time per launch in the last window and in the last pause, ns.
    hooks: (f64, f64),
    follower: Follower,
}

/// The pace of the stream with the most launches.
#[derive(Debug)]
struct Follower {
    /// Context and stream, and its launches so far.
    streams: Vec<((u32, u64), u64)>,
    stream: (u32, u64),
    /// The time base of the last GPU time.
    time_base: u32,
    pace: Pace,
}

impl Follower {
    fn new() -> Follower {
        Follower { streams: Vec::new(), stream: (0, 0), time_base: 0, pace: Pace::NEW }
    }

    /// Counts an operation that was called in the window with this number or in the pause after it. Returns a
    /// comparison if this operation completes one.
    fn saw(&mut self, operation: &Operation, window: u32) -> Option<Compared> {
        let key = (operation.context, operation.stream);
        let is_launch = !matches!(operation.what, Action::Burst { .. });
        let launches = self.count(key, is_launch);
        let When::Timed(interval) = operation.when else { return None };
        if key != self.stream {
            if launches < self.count(self.stream, false).saturating_mul(MUCH_BUSIER) {
                return None;
            }
            (self.stream, self.pace) = (key, Pace::NEW);
        } else if interval.time_base != self.time_base {
            self.pace = Pace::NEW;
        }
        self.time_base = interval.time_base;
        self.pace.passes(window, Point { launches, ns: interval.latest_end })
    }

    /// Counts a launch of a stream, if this is one, and returns the launches of the stream so far.
    fn count(&mut self, key: (u32, u64), is_launch: bool) -> u64 {
        let more = u64::from(is_launch);
        if let Some((_, count)) = self.streams.iter_mut().find(|(known, _)| *known == key) {
            *count += more;
            return *count;
        }
        if !is_launch {
            return 0;
        }
        if self.streams.len() == STREAMS {
            // The stream with the fewest launches makes room, which is never the one with the most.
            let fewest = (0..STREAMS).min_by_key(|&index| self.streams[index].1);
            fewest.map(|index| self.streams.swap_remove(index));
        }
        self.streams.push((key, more));
        more
    }
}

impl Windows {
    fn edge(&mut self, at: u64, window: &Window) {
        let launches = std::mem::take(&mut self.launches);
        let before = self.edge.replace((at, window.clone()));
        self.duty.windows += u64::from(window.change == WindowChange::Opens);
        let Some((from, spent)) = before.filter(|(_, w)| w.change != window.change) else {
            return; // the first, or one was lost
        };
        let stretch = Stretch {
            ns: at.saturating_sub(from),
            launches,
            agent_ns: window.agent_ns.saturating_sub(spent.agent_ns),
            poller_ns: window.poller_ns.saturating_sub(spent.poller_ns),
        };
        let is_window = spent.change == WindowChange::Opens;
        if self.look(from, at, is_window) != stretch.ns {
            // Operations in a part that was not captured are in no rate.
            self.follower.pace = Pace::NEW;
        }
        if stretch.launches >= LEAST_LAUNCHES {
            let (window, pause) = (&mut self.hooks.0, &mut self.hooks.1);
            *if is_window { window } else { pause } = stretch.agent_ns as f64 / stretch.launches as f64;
        }
        match (is_window, self.duty.windows) {
            (true, 1) => self.duty.first = stretch,
            (true, _) => self.duty.timed.add(&stretch),
            (false, _) => self.duty.counted.add(&stretch),
        }
    }

    /// Adds the selected part of a window or a pause, and returns its length in ns.
    fn look(&mut self, from: u64, to: u64, is_window: bool) -> u64 {
        let ns = self.period.length(host(from), host(to));
        let sum = if is_window { &mut self.duty.timed_ns } else { &mut self.duty.counted_ns };
        *sum = sum.saturating_add(ns);
        ns
    }

    fn compare(&mut self, pair: Compared) {
        let longer = pair.window - pair.pause;
        let hooks = self.hooks.0 - self.hooks.1;
        self.duty.slowdowns.add(Longer {
            without_hooks: (longer - hooks) / pair.pause,
            whole: longer / pair.pause,
            ns: pair.pause * pair.launches as f64,
        });
    }
}

impl<'a> Analysis<'a> for Windows {
    type Rows = Duty;

    /// The agent's cost is that of the whole process: it depends on what was captured, and not on the filter.
    fn new(start: &Start<'a>) -> Self {
        let duty = Duty { timing: Timing::of(start.names), ..Duty::default() };
        let period = start.captured.clone();
        Windows { duty, period, edge: None, launches: 0, hooks: (0.0, 0.0), follower: Follower::new() }
    }

    fn observe(&mut self, event: &Event<'_>, _: &Scope<'_>) {
        if let Body::Window(window) = &event.record.body {
            self.edge(event.record.at, window);
        }
        if let Some(operation) = &event.operation
            && operation.when != When::Captured
        {
            self.launches += u64::from(!matches!(operation.what, Action::Burst { .. }));
            let window = u32::try_from(self.duty.windows).unwrap_or(u32::MAX);
            if let Some(pair) = self.follower.saw(operation, window) {
                self.compare(pair);
            }
        }
    }

    fn finish(mut self, end: &End<'_>) -> Duty {
        if let Some((at, window)) = self.edge.take() {
            self.look(at, end.ended, window.change == WindowChange::Opens);
        }
        self.duty
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::super::overhead::Overhead;
    use super::*;

    /// Windows and pauses in turn, with what a launch takes in each, and how much of that the hooks take.
    fn duty(pairs: u64, pause: (u64, u64), window: (u64, u64)) -> Duty {
        let names = Names([((Namespace::Fact, Fact::Timing as u32), "auto 5".to_owned())].into());
        let mut windows = Windows::new(&Start::of(&names));
        let (mut now, mut agent_ns) = (1_000_000, 0);
        for n in 0..=2 * pairs + 1 {
            let is_open = n % 2 == 0;
            let change = if is_open { WindowChange::Opens } else { WindowChange::Closes };
            windows.edge(now, &Window { change, agent_ns, poller_ns: 0, launches: 0 });
            if is_open && n > 0 {
                let (window, pause) = (window.0 as f64, pause.0 as f64);
                windows.compare(Compared { window, pause, launches: 200 });
            }
            let (launches, each, hooks) =
                if is_open { (200, window.0, window.1) } else { (2_000, pause.0, pause.1) };
            windows.launches = launches;
            now += launches * each;
            agent_ns += launches * hooks;
        }
        finish_at(windows, now)
    }

    #[test]
    fn the_slowdown_of_the_gpu_excludes_the_time_in_hooks() {
        // A launch takes 10 µs, and in windows 1 µs longer, of which 0.6 µs are in hooks.
        let slowdown = duty(20, (10_000, 100), (11_000, 700)).slowdown().unwrap();
        assert!((slowdown.value - 0.04).abs() < 1e-9, "{slowdown:?}");
        // It may be 10 %, if the hooks ran in parallel with the GPU's work.
        assert!(slowdown.lo <= slowdown.value && slowdown.hi > 0.1 - 1e-9, "{slowdown:?}");
        // No additional time at all for 600 ns of hooks: they ran in parallel.
        let hidden = duty(20, (10_000, 100), (10_000, 700)).slowdown().unwrap();
        assert!(hidden.value == 0.0 && hidden.lo < -0.05 && hidden.hi == 0.0, "{hidden:?}");
        assert_eq!(duty(5, (10_000, 100), (11_000, 700)).slowdown(), None, "too few pairs");
    }

    /// Pauses are interrupted, and windows hardly ever: the median alone was -22 % to -8 %, for events that cost
    /// nothing.
    #[test]
    fn interruptions_widen_the_interval_and_events_are_never_reported_to_speed_up_the_gpu() {
        let mut random = crate::trace::generator::Random(7);
        let mut duty = Duty::default();
        for _ in 0..50 {
            // Of windows of 2 ms one in ten is interrupted for 4 ms; of pauses of 40 ms nearly each one is, twice.
            let interrupted = if random.below(10) == 0 { 2.0 } else { 0.0 };
            let pause = 1.0 + 0.1 * random.below(4) as f64;
            let longer = (1.0 + interrupted) / pause - 1.0;
            duty.slowdowns.add(Longer { without_hooks: longer, whole: longer, ns: 2e6 });
        }
        let found = duty.slowdown().unwrap();
        assert!(found.lo <= 0.0 && found.hi > 0.0 && found.value == 0.0, "{found:?}");
    }

    /// "Timing slowed the work by 4.9 %" was said of -107.5 % .. 49.8 %.
    #[test]
    fn a_slowdown_that_may_be_none_is_no_cost() {
        let mut noisy = Duty { timed_ns: 1_000_000, ..Duty::default() };
        (noisy.timed.ns, noisy.counted.ns) = (500_000, 500_000);
        let mut certain = noisy.clone();
        for n in 0..50 {
            let pair = |longer| Longer { without_hooks: longer, whole: longer, ns: 2e6 };
            noisy.slowdowns.add(pair([0.05, 0.5, -0.4, 0.06, 0.02][n % 5]));
            certain.slowdowns.add(pair([0.05, 0.06, 0.04, 0.06, 0.02][n % 5]));
        }
        let overhead = Overhead { wall_ns: 1_000_000, ..Overhead::default() };
        let costs = |duty: &Duty| (overhead.cost(duty).unwrap().events, duty.slowed_percent());
        assert!(noisy.slowdown().is_some_and(|found| found.value > 0.04 && found.lo < 0.0));
        assert_eq!(costs(&noisy), (None, None));
        let (events, slowed) = costs(&certain);
        assert!(events.is_some_and(|events| events > 4.0) && slowed.is_some_and(|slowed| slowed > 2.0));
    }

    #[test]
    fn the_first_phase_is_reported_apart_from_windows() {
        let duty = duty(20, (10_000, 100), (11_000, 700));
        assert_eq!(duty.windows, 21);
        assert_eq!(duty.first, Stretch { ns: 2_200_000, launches: 200, agent_ns: 140_000, poller_ns: 0 });
        assert_eq!((duty.timed.launches, duty.counted.launches), (20 * 200, 20 * 2_000));
        assert_eq!(duty.measured().cost(), 20 * (200 * 700 + 2_000 * 100));
        let (timed, all) = duty.time();
        assert_eq!((timed, all), (21 * 2_200_000, 21 * (2_200_000 + 20_000_000)));
    }

    #[test]
    fn counting_that_costs_more_than_the_budget_is_reported() {
        assert!(!duty(5, (10_000, 100), (11_000, 700)).is_exhausted());
        assert!(duty(5, (10_000, 501), (11_000, 700)).is_exhausted());
    }

    #[test]
    fn many_comparisons_are_thinned_evenly() {
        let mut thinned = Thinned::default();
        let pair = |n: i32| Longer { without_hooks: f64::from(n), whole: f64::from(n), ns: 1.0 };
        (0..100_000).for_each(|n| thinned.add(pair(n)));
        assert!(thinned.kept.len() < PAIRS && thinned.kept.len() >= PAIRS / 4);
        let middle = thinned.kept[thinned.kept.len() / 2].whole;
        assert!((45_000.0..55_000.0).contains(&middle), "{middle}");
    }
}

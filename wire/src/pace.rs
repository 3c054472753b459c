//! How much longer does a launch take while it is timed? The agent pays for the slowdown and the collector
//! reports it, by this one definition.
//!
//! A window and the pause after it are compared on one stream, by the GPU's clock: the time between two
//! events, and the number of launches between them. A stream may contain a thousand launches, so the host is
//! that far ahead of the GPU: events that fill a queue look like a slow host, and the pause after them like a
//! fast one, though they cost nothing. The launches between two events of a stream are exactly those that
//! took the time.
//!
//! A pause is one interval, from the last event before it to the first one after it. It is compared with **as
//! much time before it and after it**, and no more than [`LEAST_LAUNCHES`] need, so that a program with a
//! changing pace is compared with itself at that moment. (Windows end when an account is empty, which happens
//! where a program launches often, and whole windows would contain the idle times that pauses do not have.)
//! If the intervals before and after differ too much ([`STEADY`]), the pace has changed meanwhile, and the
//! comparison is discarded.

/// The number of launches that each interval must have for a meaningful rate.
const LEAST_LAUNCHES: u64 = 50;
/// The largest ratio of the time per launch between the intervals before and after a pause.
const STEADY: f64 = 1.5;
/// The shortest distance between the points that are kept of a window's end, and their number: the interval
/// before a pause is at most an eighth of a second and accurate to a tenth of the shortest pause.
const APART_NS: i64 = 2_000_000;
const KEPT: usize = 64;

/// An event on a stream that has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The number of launches on the stream until then.
    pub launches: u64,
    /// The event's time, in ns on one of the GPU's clocks.
    pub ns: i64,
}

/// An interval of a stream between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Interval {
    launches: u64,
    ns: i64,
}

impl Interval {
    fn between(from: Point, to: Point) -> Interval {
        Interval {
            launches: to.launches.saturating_sub(from.launches),
            ns: to.ns.saturating_sub(from.ns).max(0),
        }
    }

    fn is_enough(self) -> bool {
        self.launches >= LEAST_LAUNCHES && self.ns > 0
    }

    /// Whether it is as long as a pause and has enough launches. The points that are kept before a pause
    /// limit the length of that interval, and the same limit applies to the one after it.
    fn is_comparable_to(self, pause: Interval) -> bool {
        self.is_enough() && self.ns >= pause.ns.min(APART_NS * KEPT as i64)
    }

    fn per_launch(self) -> f64 {
        self.ns as f64 / self.launches as f64
    }
}

/// A comparison of a pause with the windows next to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The ns that a launch took in the windows.
    pub window: f64,
    /// The ns that a launch took in the pause.
    pub pause: f64,
    /// The number of launches in the compared parts of the windows.
    pub launches: u64,
}

/// A pause whose following window is under way.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    before: Interval,
    pause: Interval,
    first: Point,
}

/// The pace of a stream. Starts with [`Pace::NEW`].
#[derive(Clone, Debug)]
pub struct Pace {
    window: u32,
    /// Points of this window in a ring buffer: the last `count` before `next`.
    recent: [Point; KEPT],
    next: usize,
    count: usize,
    last: Option<Point>,
    waiting: Option<Waiting>,
}

impl Pace {
    /// The pace of a stream without any points.
    pub const NEW: Pace = Pace {
        window: 0,
        recent: [Point { launches: 0, ns: 0 }; KEPT],
        next: 0,
        count: 0,
        last: None,
        waiting: None,
    };

    /// The window of the last point.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Takes in the stream's next point, which is in the given window. Returns the comparison that it
    /// completes, if any.
    pub fn passes(&mut self, window: u32, at: Point) -> Option<Compared> {
        let Some(last) = self.last.replace(at) else {
            self.begin(window, at);
            return None;
        };
        if window == self.window {
            self.remember(at);
            let waiting =
                self.waiting.filter(|w| Interval::between(w.first, at).is_comparable_to(w.pause))?;
            self.waiting = None;
            return waiting.compare(at);
        }
        // A window that ended before it was as long as the pause before it is compared as far as it goes.
        let compared = self.waiting.take().and_then(|waiting| waiting.compare(last));
        let pause = Interval::between(last, at);
        let before = self.interval_before(last, pause);
        self.waiting = Some(Waiting { before, pause, first: at });
        self.begin(window, at);
        compared
    }

    fn begin(&mut self, window: u32, at: Point) {
        self.window = window;
        self.count = 0;
        self.keep(at);
    }

    fn remember(&mut self, at: Point) {
        let newest = self.recent.get((self.next + KEPT - 1) % KEPT);
        if newest.is_none_or(|newest| at.ns.saturating_sub(newest.ns) >= APART_NS) {
            self.keep(at);
        }
    }

    fn keep(&mut self, at: Point) {
        if let Some(place) = self.recent.get_mut(self.next) {
            *place = at;
        }
        self.next = (self.next + 1) % KEPT;
        self.count = (self.count + 1).min(KEPT);
    }

    /// The end of this window, as long as a pause, or as long as the kept points reach.
    fn interval_before(&self, last: Point, pause: Interval) -> Interval {
        let newest_first = (1..=self.count).filter_map(|n| self.recent.get((self.next + KEPT - n) % KEPT));
        let mut found = Interval::default();
        for point in newest_first {
            found = Interval::between(*point, last);
            if found.is_comparable_to(pause) {
                break;
            }
        }
        found
    }
}

impl Waiting {
    fn compare(self, to: Point) -> Option<Compared> {
        let Waiting { before, pause, first } = self;
        let after = Interval::between(first, to);
        let windows = match (before.is_enough(), after.is_enough()) {
            (true, true) => {
                let ratio = before.per_launch() / after.per_launch();
                if !(1.0 / STEADY..=STEADY).contains(&ratio) {
                    return None;
                }
                Interval {
                    launches: before.launches + after.launches,
                    ns: before.ns.saturating_add(after.ns),
                }
            }
            (true, false) => before,
            (false, true) => after,
            (false, false) => return None,
        };
        pause.is_enough().then(|| Compared {
            window: windows.per_launch(),
            pause: pause.per_launch(),
            launches: windows.launches,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Simulates a stream with windows and pauses of the given lengths in turn. `takes(ms, is_timed)` is the
    /// ns that a launch takes.
    fn pairs(ms: i64, window_ms: i64, pause_ms: i64, takes: impl Fn(i64, bool) -> i64) -> Vec<Compared> {
        let (mut pace, mut found) = (Pace::NEW, Vec::new());
        let mut at = Point { launches: 0, ns: 77_000_000_000 };
        let begun = at.ns;
        while at.ns - begun < ms * 1_000_000 {
            let now = (at.ns - begun) / 1_000;
            let turn = (window_ms + pause_ms) * 1_000;
            let is_timed = now % turn < window_ms * 1_000;
            at.ns += takes(now / 1_000, is_timed);
            at.launches += 1;
            if is_timed {
                found.extend(pace.passes((now / turn) as u32, at));
            }
        }
        found
    }

    #[test]
    #[cfg_attr(miri, ignore = "a long simulation without unsafe code")]
    fn a_steady_pace_is_compared_exactly() {
        for (window, pause) in [(2_000, 20), (20, 80), (5, 200), (50, 50)] {
            let found = pairs(10_000, window, pause, |_, is_timed| if is_timed { 24_000 } else { 20_000 });
            assert!(found.len() >= 4, "{window} {pause}: {found:?}");
            for pair in found {
                // The pause's interval ends with a timed launch.
                assert!(
                    (pair.pause - 20_000.0).abs() < 10.0 && (pair.window - 24_000.0).abs() < 1.0,
                    "{pair:?}"
                );
            }
        }
    }

    /// The program is busy for 700 ms of each second: the idle times are only in the windows, which continue
    /// across them.
    #[test]
    #[cfg_attr(miri, ignore = "a long simulation without unsafe code")]
    fn idle_times_that_are_only_in_windows_do_not_count() {
        let found =
            pairs(
                60_000,
                970,
                30,
                |now, _| if (600..610).contains(&(now % 1_000)) { 300_000_000 } else { 20_000 },
            );
        assert!(found.len() > 30, "{}", found.len());
        assert!(found.iter().all(|pair| pair.window < 21_000.0), "{found:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a long simulation without unsafe code")]
    fn a_pause_in_which_the_pace_changes_is_discarded() {
        let found = pairs(5_000, 50, 50, |now, _| if now / 75 % 2 == 0 { 10_000 } else { 40_000 });
        assert!(found.iter().all(|pair| pair.window / pair.pause < 2.0), "{found:?}");
        let slow_from = |moment: i64| move |now: i64, _: bool| if now < moment { 10_000 } else { 40_000 };
        assert_eq!(pairs(240, 50, 50, slow_from(75)), []);
        assert_eq!(pairs(240, 50, 50, slow_from(1_000)).len(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a long simulation without unsafe code")]
    fn too_few_launches_give_no_comparison() {
        assert_eq!(pairs(10_000, 100, 20, |_, _| 1_000_000), []);
    }
}

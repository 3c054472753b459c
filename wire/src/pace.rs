//! How much longer does a launch take while it is timed? One definition for both: the agent pays by it, the collector
//! tells it.
//!
//! A window and the pause behind it are compared on one stream, by the GPU's clock: how far apart two events are, and how
//! many launches lie between. A stream may hold a thousand launches, and what the host sees is that much ahead of what
//! the GPU does: events that fill a queue look like a slow host, and the pause behind them like a quick one, though they
//! cost nothing. Between two events of a stream lie the very launches that took the time.
//!
//! A pause is one stretch, from the last event before it to the first behind it. It is compared with **as much time before
//! it and behind it**, and no more than [`LEAST_LAUNCHES`] need, so that a program whose pace changes is compared with itself at that moment: windows
//! end when an account is empty, which is where a program launches much, and would otherwise hold the idle times that pauses do
//! not have. Where the stretches before and behind differ much ([`STEADY`]), the pace has changed meanwhile, and nothing
//! is told.

/// Launches that each stretch must have for its rate to mean something.
const LEAST_LAUNCHES: u64 = 50;
/// The stretches before and behind a pause may differ so much in what a launch takes.
const STEADY: f64 = 1.5;
/// A window's last points are kept at least so far apart, so many of them: the stretch before a pause is an eighth of a second
/// at most, and known to a tenth of the shortest pause.
const APART_NS: i64 = 2_000_000;
const KEPT: usize = 64;

/// An event on a stream that has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Launches on the stream until then.
    pub launches: u64,
    /// When, ns on a clock of the GPU's.
    pub ns: i64,
}

/// A part of a stream between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stretch {
    launches: u64,
    ns: i64,
}

impl Stretch {
    fn between(from: Point, to: Point) -> Stretch {
        Stretch {
            launches: to.launches.saturating_sub(from.launches),
            ns: to.ns.saturating_sub(from.ns).max(0),
        }
    }

    fn is_enough(self) -> bool {
        self.launches >= LEAST_LAUNCHES && self.ns > 0
    }

    /// Whether it is as long as a pause, and has enough launches. What is kept of the stretch before a pause is bounded: so
    /// is the one behind it.
    fn is_like(self, pause: Stretch) -> bool {
        self.is_enough() && self.ns >= pause.ns.min(APART_NS * KEPT as i64)
    }

    fn per_launch(self) -> f64 {
        self.ns as f64 / self.launches as f64
    }
}

/// A pause, compared with the windows beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// ns that a launch took in the windows.
    pub window: f64,
    /// The same in the pause.
    pub pause: f64,
    /// Launches of the windows that this is from.
    pub launches: u64,
}

/// A pause whose window behind it is under way.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    before: Stretch,
    pause: Stretch,
    first: Point,
}

/// What is known of a stream's pace. Begins with [`Pace::NEW`].
#[derive(Clone, Debug)]
pub struct Pace {
    window: u32,
    /// Points of this window, the oldest first from `next` on, as far as `count` says.
    recent: [Point; KEPT],
    next: usize,
    count: usize,
    last: Option<Point>,
    waiting: Option<Waiting>,
}

impl Pace {
    /// Nothing has been seen.
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

    /// The next point of the stream, in the window of that number. Returns what could be compared by it.
    pub fn passes(&mut self, window: u32, at: Point) -> Option<Compared> {
        let Some(last) = self.last.replace(at) else {
            self.begin(window, at);
            return None;
        };
        if window == self.window {
            self.remember(at);
            let waiting = self.waiting.filter(|w| Stretch::between(w.first, at).is_like(w.pause))?;
            self.waiting = None;
            return waiting.compare(at);
        }
        // A window that ended before it was as long as the pause before it is compared as far as it goes.
        let compared = self.waiting.take().and_then(|waiting| waiting.compare(last));
        let pause = Stretch::between(last, at);
        let before = self.stretch_before(last, pause);
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

    /// The end of this window, as long as a pause, or as far as it is kept.
    fn stretch_before(&self, last: Point, pause: Stretch) -> Stretch {
        let newest_first = (1..=self.count).filter_map(|n| self.recent.get((self.next + KEPT - n) % KEPT));
        let mut found = Stretch::default();
        for point in newest_first {
            found = Stretch::between(*point, last);
            if found.is_like(pause) {
                break;
            }
        }
        found
    }
}

impl Waiting {
    fn compare(self, to: Point) -> Option<Compared> {
        let Waiting { before, pause, first } = self;
        let behind = Stretch::between(first, to);
        let beside = match (before.is_enough(), behind.is_enough()) {
            (true, true) => {
                let ratio = before.per_launch() / behind.per_launch();
                if !(1.0 / STEADY..=STEADY).contains(&ratio) {
                    return None;
                }
                Stretch {
                    launches: before.launches + behind.launches,
                    ns: before.ns.saturating_add(behind.ns),
                }
            }
            (true, false) => before,
            (false, true) => behind,
            (false, false) => return None,
        };
        pause.is_enough().then(|| Compared {
            window: beside.per_launch(),
            pause: pause.per_launch(),
            launches: beside.launches,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A stream whose launches take what `takes` says of each moment and whether it is timed; windows and pauses in turn,
    /// so long each.
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
    fn a_steady_pace_is_compared_exactly() {
        for (window, pause) in [(2_000, 20), (20, 80), (5, 200), (50, 50)] {
            let found = pairs(10_000, window, pause, |_, is_timed| if is_timed { 24_000 } else { 20_000 });
            assert!(found.len() >= 4, "{window} {pause}: {found:?}");
            for pair in found {
                // The pause's stretch ends with a timed launch.
                assert!(
                    (pair.pause - 20_000.0).abs() < 10.0 && (pair.window - 24_000.0).abs() < 1.0,
                    "{pair:?}"
                );
            }
        }
    }

    /// Busy for 700 ms of each second: the windows, which go on over the idle times, hold those, and the pauses do not.
    #[test]
    fn idle_times_that_only_windows_hold_are_not_told() {
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
    fn where_the_pace_changes_in_a_pause_nothing_is_told() {
        let found = pairs(5_000, 50, 50, |now, _| if now / 75 % 2 == 0 { 10_000 } else { 40_000 });
        assert!(found.iter().all(|pair| pair.window / pair.pause < 2.0), "{found:?}");
        let slow_from = |moment: i64| move |now: i64, _: bool| if now < moment { 10_000 } else { 40_000 };
        assert_eq!(pairs(240, 50, 50, slow_from(75)), []);
        assert_eq!(pairs(240, 50, 50, slow_from(1_000)).len(), 1);
    }

    #[test]
    fn few_launches_tell_nothing() {
        assert_eq!(pairs(10_000, 100, 20, |_, _| 1_000_000), []);
    }
}

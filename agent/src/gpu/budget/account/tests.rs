use super::*;
use gpuspy_wire::pace::{Pace, Point};

use crate::options::Options;

/// An app that launches in a loop, with a poller that updates the account at intervals. One tick is one ns.
struct LaunchLoop {
    gate: Gate,
    budget: Budget,
    now: Moment,
    launches: u64,
    timed: u64,
    edges: Vec<(Edge, Moment)>,
    /// The ns that a timed launch takes longer without the agent spending them itself.
    slow: u64,
    pace: Pace,
    learns: bool,
    /// The number of launches when the last window closed.
    closed: u64,
}

impl LaunchLoop {
    fn new(percent: f64) -> LaunchLoop {
        let options = Options { percent, ..Options::of(Mode::Auto) };
        let gate = Gate::new(options);
        let begun = Moment { ticks: 1, ns: 1, ..Moment::default() };
        let budget = Budget::begun(percent / 100.0, false, begun);
        let edges = Vec::new();
        LaunchLoop {
            gate,
            budget,
            now: begun,
            launches: 0,
            timed: 0,
            edges,
            slow: 0,
            pace: Pace::NEW,
            learns: true,
            closed: 0,
        }
    }

    /// Launches for `ns`. A launch costs `own` ns without the agent, `count` more when counted, and `time`
    /// more when timed (half of it in the poller). The poller updates the account every `late` ns.
    fn launches_for(&mut self, ns: u64, own: u64, count: u64, time: u64, late: u64) {
        let until = self.now.ns + ns;
        let mut update = self.now.ns;
        while self.now.ns < until {
            self.launches += 1;
            let (mut hook, mut slow) = (count, 0);
            let is_timed = self.gate.admit().is_ok();
            if is_timed {
                self.timed += 1;
                hook += time / 2;
                self.now.poller += time - time / 2;
                slow = self.slow;
            }
            self.now.hooks += hook;
            self.now.ns += own + hook + slow;
            self.now.ticks = self.now.ns;
            let point = Point { launches: self.launches, ns: self.now.ns as i64 };
            if is_timed
                && self.learns
                && let Some(compared) = self.pace.passes(self.gate.window(), point)
            {
                self.budget.learn(compared, 1.0);
            }
            while update <= self.now.ns {
                let (edge, sleep) = self.budget.update(&self.gate, self.now);
                if let Some(edge) = edge {
                    self.edges.push((edge, self.now));
                    match edge.change {
                        WindowChange::Opens => self.budget.pause_ended(self.now, self.launches - self.closed),
                        WindowChange::Closes => self.closed = self.launches,
                    }
                }
                update += late.min(sleep.max(1_000));
            }
        }
    }

    fn share_since(&self, from: &Moment) -> f64 {
        let cost = (self.now.hooks - from.hooks) + (self.now.poller - from.poller);
        cost as f64 / (self.now.ns - from.ns) as f64
    }

    /// The share of the time since `from` that was lost, including the launches' slowdown.
    fn lost_share(&self, from: &Moment, timed: u64) -> f64 {
        let slowed = self.slow * (self.timed - timed);
        self.share_since(from) + slowed as f64 / (self.now.ns - from.ns) as f64
    }

    /// Launches for `seconds`, each launch taking `own(ms since the start)` ns. Returns the share of launches
    /// that were timed.
    fn timed_in(&mut self, seconds: u64, own: impl Fn(u64) -> u64, count: u64, time: u64) -> f64 {
        let before = (self.timed, self.launches);
        let from = self.now.ns;
        while self.now.ns < from + seconds * 1_000_000_000 {
            let takes = own((self.now.ns - from) / 1_000_000);
            self.launches_for(1_000_000, takes, count, time, 200_000);
        }
        (self.timed - before.0) as f64 / (self.launches - before.1) as f64
    }

    fn first_end(&self) -> Moment {
        self.edges.get(1).unwrap().1
    }
}

#[test]
fn a_launch_loop_costs_exactly_the_budget() {
    for (percent, own) in [(1.0, 20_000), (5.0, 5_000), (20.0, 3_000), (20.0, 500)] {
        for late in [200_000, 4_000_000, 14_000_000] {
            let mut app = LaunchLoop::new(percent);
            app.launches_for(4_000_000_000, own, 100, 4_000, late);
            let share = 100.0 * app.share_since(&app.first_end());
            assert!((share / percent - 1.0).abs() < 0.1, "{percent} % of {own} ns, {late}: {share}");
        }
    }
}

#[test]
fn the_first_phase_is_timed_in_full() {
    let mut fast = LaunchLoop::new(1.0);
    fast.launches_for(900_000_000, 3_000, 100, 4_000, 200_000);
    assert_eq!(fast.edges.first().unwrap().0.change, WindowChange::Opens);
    assert_eq!(fast.edges.get(1).unwrap().0.taken, FIRST_LAUNCHES);
    let mut slow = LaunchLoop::new(1.0);
    slow.launches_for(1_100_000_000, 1_000_000, 100, 4_000, 200_000);
    let (first, at) = slow.edges.get(1).unwrap();
    assert!((900..=1_000).contains(&first.taken) && at.ns >= FIRST_NS, "{first:?}");
}

#[test]
fn a_small_window_opens_once_a_second_where_counting_alone_exceeds_the_budget() {
    let mut app = LaunchLoop::new(1.0);
    app.launches_for(10_000_000_000, 3_000, 100, 4_000, 200_000);
    // The first phase and the window that the account starts with are skipped.
    let windows: Vec<u64> = app.edges.iter().skip(4).map(|(e, _)| e.taken).filter(|n| *n > 0).collect();
    assert!((8..=10).contains(&windows.len()), "{windows:?}");
    assert!(windows.iter().all(|taken| *taken == LEAST_LAUNCHES), "{windows:?}");
}

#[test]
fn sparse_windows_take_a_tenth_of_the_time_even_for_cheap_programs() {
    let mut calm = LaunchLoop::new(50.0);
    calm.budget.is_sparse = true;
    calm.launches_for(10_000_000_000, 500_000, 100, 4_000, 200_000);
    let share = calm.timed as f64 / calm.launches as f64;
    assert!((0.05..=0.12).contains(&share), "{share}");
}

#[test]
fn cheap_programs_are_timed_in_full() {
    let mut calm = LaunchLoop::new(5.0);
    calm.launches_for(10_000_000_000, 500_000, 100, 4_000, 200_000);
    assert!(calm.timed * 100 >= calm.launches * 98, "{} of {}", calm.timed, calm.launches);
}

#[test]
fn a_late_poller_does_not_let_a_window_exceed_its_number_of_launches() {
    let mut app = LaunchLoop::new(5.0);
    app.launches_for(3_000_000_000, 3_000, 50, 4_000, 200_000);
    while !matches!(app.budget.phase, Phase::Open(_)) {
        app.launches_for(200_000, 3_000, 50, 4_000, 200_000);
    }
    let before = app.timed;
    app.launches_for(370_000_000, 3_000, 50, 4_000, 10_000_000_000);
    // The limit is the allowance of 100 ms divided by the cost of a launch.
    assert!(app.timed - before <= 2 * 5_000_000 / 4_000, "{}", app.timed - before);
}

#[test]
fn the_first_phase_starts_when_the_capture_range_opens() {
    let mut app = LaunchLoop::new(1.0);
    app.gate.set_in_range(false);
    app.launches_for(3_000_000_000, 3_000, 100, 4_000, 200_000);
    assert_eq!((app.timed, app.edges.len()), (0, 0));
    app.gate.set_in_range(true);
    app.launches_for(100_000_000, 3_000, 100, 4_000, 200_000);
    let (first, ended) = (app.edges[0].0, app.edges[1].0);
    assert!(first.is_first && ended.taken == FIRST_LAUNCHES, "{first:?}, {ended:?}");
}

#[test]
fn the_slowdown_of_launches_counts_against_the_budget() {
    // Slowdowns of a tenth of the budget, half of it, and twice its size, for programs that could be timed in
    // full but for the slowdown, and for others.
    for (percent, own, slow, time) in [
        (2.0, 20_000, 4_000, 1_000),
        (5.0, 20_000, 10_000, 200),
        (5.0, 10_000, 10_000, 3_000),
        (10.0, 40_000, 80_000, 500),
    ] {
        let mut app = LaunchLoop::new(percent);
        app.slow = slow;
        app.timed_in(10, |_| own, 100, time);
        let (from, timed) = (app.now, app.timed);
        app.timed_in(20, |_| own, 100, time);
        let lost_share = 100.0 * app.lost_share(&from, timed);
        assert!((lost_share / percent - 1.0).abs() < 0.15, "{percent} % of {own} ns + {slow}: {lost_share}");
    }
}

#[test]
fn a_small_slowdown_does_not_stop_timing() {
    let mut calm = LaunchLoop::new(5.0);
    calm.slow = 500;
    let share = calm.timed_in(30, |_| 50_000, 100, 500);
    assert!(share > 0.97, "{share}");
    assert!((calm.budget.slowed - 500.0).abs() < 20.0, "{}", calm.budget.slowed);
}

/// Programs whose pace varies on its own (slow halves, idle times, bursts): the agent causes none of it.
#[test]
fn a_program_with_phases_of_different_pace_keeps_its_windows() {
    type Takes = fn(u64) -> u64;
    let phases: [(&str, Takes); 5] = [
        ("300 ms of each", |now| if now / 300 % 2 == 0 { 10_000 } else { 60_000 }),
        ("47 ms of each", |now| if now / 47 % 2 == 0 { 15_000 } else { 45_000 }),
        ("idle for 300 ms of a second", |now| if now % 1_000 == 500 { 300_000_000 } else { 20_000 }),
        ("idle for 80 ms of each 100", |now| if now % 100 == 20 { 80_000_000 } else { 10_000 }),
        ("slower and slower", |now| 10_000 + now * 2),
    ];
    for (what, own) in phases {
        for (percent, time) in [(5.0, 4_000), (5.0, 200)] {
            let mut app = LaunchLoop::new(percent);
            let timed = app.timed_in(20, own, 100, time);
            let mut without = LaunchLoop::new(percent);
            without.learns = false;
            let expected = without.timed_in(20, own, 100, time);
            assert!(timed > 0.9 * expected, "{what}, {time} ns: {timed} of {expected}");
        }
    }
}

#[test]
fn a_window_opens_once_a_second_even_if_timing_is_slow_and_timing_resumes_when_it_is_not() {
    let mut app = LaunchLoop::new(5.0);
    app.slow = 2_000_000;
    app.timed_in(100, |_| 20_000, 100, 500);
    let edges = app.edges.len();
    app.timed_in(20, |_| 20_000, 100, 500);
    let windows = (app.edges.len() - edges) / 2;
    assert!((15..=22).contains(&windows), "{windows}");
    app.slow = 0;
    app.timed_in(20, |_| 20_000, 100, 500);
    let share = app.timed_in(10, |_| 20_000, 100, 500);
    assert!(share > 0.9, "{share}");
}

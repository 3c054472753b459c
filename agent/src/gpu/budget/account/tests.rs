use super::*;
use gpuspy_wire::pace::{Pace, Point};

use crate::session::options::Options;

/// An app that launches in a loop, and a poller that looks at the account now and then. A tick is a ns.
struct Storm {
    gate: Gate,
    budget: Budget,
    now: Moment,
    launches: u64,
    timed: u64,
    edges: Vec<(Edge, Moment)>,
    /// ns that a timed launch takes longer without our taking them.
    slow: u64,
    pace: Pace,
    learns: bool,
    /// Launches when the last window closed.
    closed: u64,
}

impl Storm {
    fn new(percent: f64) -> Storm {
        let options = Options { percent, ..Options::of(Mode::Auto) };
        let gate = Gate::new(options);
        let begun = Moment { ticks: 1, ns: 1, ..Moment::default() };
        let budget = Budget::begun(percent / 100.0, false, begun);
        let edges = Vec::new();
        Storm {
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

    /// Launches for `ns`: one costs `own` without us, `count` more when counted, `time` more when timed (half of it
    /// the poller's). The poller looks every `late` ns.
    fn runs(&mut self, ns: u64, own: u64, count: u64, time: u64, late: u64) {
        let until = self.now.ns + ns;
        let mut look = self.now.ns;
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
            while look <= self.now.ns {
                let (edge, sleep) = self.budget.look(&self.gate, self.now);
                if let Some(edge) = edge {
                    self.edges.push((edge, self.now));
                    match edge.change {
                        WindowChange::Opens => self.budget.pause_ended(self.now, self.launches - self.closed),
                        WindowChange::Closes => self.closed = self.launches,
                    }
                }
                look += late.min(sleep.max(1_000));
            }
        }
    }

    fn share_since(&self, from: &Moment) -> f64 {
        let cost = (self.now.hooks - from.hooks) + (self.now.poller - from.poller);
        cost as f64 / (self.now.ns - from.ns) as f64
    }

    /// The share of the time since then that was lost, what launches were slowed by included.
    fn lost(&self, from: &Moment, timed: u64) -> f64 {
        let slowed = self.slow * (self.timed - timed);
        self.share_since(from) + slowed as f64 / (self.now.ns - from.ns) as f64
    }

    /// How much of the launches is timed in so many seconds of these.
    fn timed_in(&mut self, seconds: u64, own: impl Fn(u64) -> u64, count: u64, time: u64) -> f64 {
        let before = (self.timed, self.launches);
        let from = self.now.ns;
        while self.now.ns < from + seconds * 1_000_000_000 {
            let takes = own((self.now.ns - from) / 1_000_000);
            self.runs(1_000_000, takes, count, time, 200_000);
        }
        (self.timed - before.0) as f64 / (self.launches - before.1) as f64
    }

    fn first_end(&self) -> Moment {
        self.edges.get(1).unwrap().1
    }
}

#[test]
fn the_cost_of_a_storm_is_the_budget() {
    for (percent, own) in [(1.0, 20_000), (5.0, 5_000), (20.0, 3_000), (20.0, 500)] {
        for late in [200_000, 4_000_000, 14_000_000] {
            let mut storm = Storm::new(percent);
            storm.runs(4_000_000_000, own, 100, 4_000, late);
            let share = 100.0 * storm.share_since(&storm.first_end());
            assert!((share / percent - 1.0).abs() < 0.1, "{percent} % of {own} ns, {late}: {share}");
        }
    }
}

#[test]
fn the_first_phase_is_timed_in_full() {
    let mut fast = Storm::new(1.0);
    fast.runs(900_000_000, 3_000, 100, 4_000, 200_000);
    assert_eq!(fast.edges.first().unwrap().0.change, WindowChange::Opens);
    assert_eq!(fast.edges.get(1).unwrap().0.taken, FIRST_LAUNCHES);
    let mut slow = Storm::new(1.0);
    slow.runs(1_100_000_000, 1_000_000, 100, 4_000, 200_000);
    let (first, at) = slow.edges.get(1).unwrap();
    assert!((900..=1_000).contains(&first.taken) && at.ns >= FIRST_NS, "{first:?}");
}

#[test]
fn where_counting_alone_exceeds_the_budget_a_small_window_opens_once_a_second() {
    let mut storm = Storm::new(1.0);
    storm.runs(10_000_000_000, 3_000, 100, 4_000, 200_000);
    // Behind the first phase, and the window that the account begins with.
    let windows: Vec<u64> = storm.edges.iter().skip(4).map(|(e, _)| e.taken).filter(|n| *n > 0).collect();
    assert!((8..=10).contains(&windows.len()), "{windows:?}");
    assert!(windows.iter().all(|taken| *taken == LEAST_LAUNCHES), "{windows:?}");
}

#[test]
fn sparse_windows_are_a_tenth_of_the_time_however_cheap() {
    let mut calm = Storm::new(50.0);
    calm.budget.is_sparse = true;
    calm.runs(10_000_000_000, 500_000, 100, 4_000, 200_000);
    let share = calm.timed as f64 / calm.launches as f64;
    assert!((0.05..=0.12).contains(&share), "{share}");
}

#[test]
fn cheap_programs_are_timed_in_full() {
    let mut calm = Storm::new(5.0);
    calm.runs(10_000_000_000, 500_000, 100, 4_000, 200_000);
    assert!(calm.timed * 100 >= calm.launches * 98, "{} of {}", calm.timed, calm.launches);
}

#[test]
fn a_window_takes_no_more_than_the_hooks_were_given_however_late_the_poller_is() {
    let mut storm = Storm::new(5.0);
    storm.runs(3_000_000_000, 3_000, 50, 4_000, 200_000);
    while !matches!(storm.budget.phase, Phase::Open(_)) {
        storm.runs(200_000, 3_000, 50, 4_000, 200_000);
    }
    let before = storm.timed;
    storm.runs(370_000_000, 3_000, 50, 4_000, 10_000_000_000);
    // A tenth of a second's allowance, at what a launch costs.
    assert!(storm.timed - before <= 2 * 5_000_000 / 4_000, "{}", storm.timed - before);
}

#[test]
fn the_first_phase_begins_with_the_range() {
    let mut storm = Storm::new(1.0);
    storm.gate.set_in_range(false);
    storm.runs(3_000_000_000, 3_000, 100, 4_000, 200_000);
    assert_eq!((storm.timed, storm.edges.len()), (0, 0));
    storm.gate.set_in_range(true);
    storm.runs(100_000_000, 3_000, 100, 4_000, 200_000);
    let (first, ended) = (storm.edges[0].0, storm.edges[1].0);
    assert!(first.is_first && ended.taken == FIRST_LAUNCHES, "{first:?}, {ended:?}");
}

#[test]
fn what_launches_are_slowed_by_is_a_part_of_the_budget() {
    // A tenth of it, half, or twice as long; of programs that could be timed in full but for that, and of others.
    for (percent, own, slow, time) in [
        (2.0, 20_000, 4_000, 1_000),
        (5.0, 20_000, 10_000, 200),
        (5.0, 10_000, 10_000, 3_000),
        (10.0, 40_000, 80_000, 500),
    ] {
        let mut storm = Storm::new(percent);
        storm.slow = slow;
        storm.timed_in(10, |_| own, 100, time);
        let (from, timed) = (storm.now, storm.timed);
        storm.timed_in(20, |_| own, 100, time);
        let lost = 100.0 * storm.lost(&from, timed);
        assert!((lost / percent - 1.0).abs() < 0.15, "{percent} % of {own} ns + {slow}: {lost}");
    }
}

#[test]
fn what_slows_hardly_and_costs_little_is_timed_on() {
    let mut calm = Storm::new(5.0);
    calm.slow = 500;
    let share = calm.timed_in(30, |_| 50_000, 100, 500);
    assert!(share > 0.97, "{share}");
    assert!((calm.budget.slowed - 500.0).abs() < 20.0, "{}", calm.budget.slowed);
}

/// Half of it slow; idle times; bursts: none of it is any doing of ours.
#[test]
fn a_program_of_phases_keeps_its_windows() {
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
            let mut storm = Storm::new(percent);
            let timed = storm.timed_in(20, own, 100, time);
            let mut without = Storm::new(percent);
            without.learns = false;
            let expected = without.timed_in(20, own, 100, time);
            assert!(timed > 0.9 * expected, "{what}, {time} ns: {timed} of {expected}");
        }
    }
}

#[test]
fn however_slow_a_timed_launch_is_a_window_opens_once_a_second_and_it_is_noticed_when_it_is_not_any_more() {
    let mut storm = Storm::new(5.0);
    storm.slow = 2_000_000;
    storm.timed_in(100, |_| 20_000, 100, 500);
    let edges = storm.edges.len();
    storm.timed_in(20, |_| 20_000, 100, 500);
    let windows = (storm.edges.len() - edges) / 2;
    assert!((15..=22).contains(&windows), "{windows}");
    storm.slow = 0;
    storm.timed_in(20, |_| 20_000, 100, 500);
    let share = storm.timed_in(10, |_| 20_000, 100, 500);
    assert!(share > 0.9, "{share}");
}

//! `--timing`: what is timed, and what that may cost.
//!
//! With `auto`, the first phase is timed in full: the first second after the first launch, or its first launches
//! ([`FIRST_LAUNCHES`]). From then on an account is kept. It earns the budget's share of the time that passes, and pays
//! what we cost by our own measurement: the hooks' time, of all threads together, and the poller's CPU time. When it can
//! pay for a useful window, a contiguous stretch in which everything on all threads and streams is timed, one opens; when
//! it is empty, the window closes. Everything is counted always.
//!
//! Where events could change what they measure, because streams share hardware queues (`CUDA_DEVICE_MAX_CONNECTIONS`, which is 1, or
//! less than there are streams in a context), windows are sparse: none, the first phase
//! included, is longer than [`WINDOW_NS`], and one begins at most every [`SPARSE_NS`].
//!
//! Several threads' hook time is set against one wall clock: that overstates our cost, never understates it.
//!
//! The poller, which keeps the account, can be late by many ms on a busy machine. So a window opens with the number of
//! launches that the account can pay for, and the hooks count it down themselves: a late poller overspends by what a
//! launch costs more than expected, no more, and the pause that follows pays that back.

use core::sync::atomic::{AtomicU64, Ordering};
use gpuspy_wire::capture::CaptureRange;
use gpuspy_wire::record::{Fact, Head, Namespace, Record, Untimed, Window, WindowChange};

use crate::gpu::context::Context;
use crate::gpu::poller::Ring;
use crate::names;
use crate::session::Session;
use crate::session::options::{Mode, Options};
use crate::sys::{self, ticks};

/// The first phase ends after so many launches, or so much time after the first one.
const FIRST_LAUNCHES: u64 = 10_000;
const FIRST_NS: u64 = 1_000_000_000;
/// A window begins when the account holds what it earns in this time, and can pay for [`LEAST_LAUNCHES`]: ten windows a
/// second are enough to see a program's phases, and each is long enough to have an inside.
const WINDOW_NS: f64 = 100e6;
const LEAST_LAUNCHES: u64 = 100;
/// When a hook is about to say that it took a window's last launch: it may have lost its processor.
const SOON_NS: u64 = 200_000;
/// Between the begins of sparse windows.
const SPARSE_NS: u64 = 1_000_000_000;
/// Where counting alone costs more than the budget, the account never fills. A window of [`LEAST_LAUNCHES`] opens all the
/// same, so often (about 0.02 % of the time, at 2 µs a launch): else a program's later phases would go by unseen.
const BLIND_NS: u64 = 1_000_000_000;
/// The poller wakes no more often for it in a pause: a wake-up costs it 30 µs (measured: a futex wait on a busy machine of
/// two cores), more than a small budget earns in a ms.
const PAUSE_NS: u64 = 20_000_000;
/// The account holds no more than what it earns in this time: what an idle program has saved is not spent at once.
const SAVED_NS: f64 = 1e9;
/// It owes no more than what it earns in this time: a storm whose counting alone exceeds the budget is forgotten after.
const OWED_NS: f64 = 10e9;
/// What a timed launch costs, ns, before it was measured: a few times what it does on the stand-in.
const UNMEASURED_NS: f64 = 5_000.0;

/// States of [`Gate::left`] that are no number of launches.
const OFF: u64 = u64::MAX;
const ALWAYS: u64 = u64::MAX - 1;
/// Timing is paused.
const PAUSED: u64 = 0;
/// Added to a number of launches, [`PAUSED`] included: it is not looked at now ([`super::range`]), and that is how many there
/// will be. So an account goes on as it is, and a window waits for the range to begin.
const OUTSIDE: u64 = 1 << 63;
/// The same of [`ALWAYS`].
const NOT_NOW: u64 = u64::MAX - 2;

/// What hooks ask whether to time. Valid when zero.
pub struct Gate {
    /// [`OFF`], [`ALWAYS`], [`PAUSED`], or how many more launches this window may time; or one of those [`outside`]. Relaxed:
    /// a number; a hook that sees a change late times or counts one launch more.
    left: AtomicU64,
    /// Ticks of the first launch, and ticks when a window's last launch was taken; 0 = not yet. Release by the hook that
    /// takes it, acquire by the poller.
    first_taken: AtomicU64,
    last_taken: AtomicU64,
    options: Options,
}

impl Gate {
    /// As the options say.
    pub fn new(options: Options) -> Gate {
        let left = match options.mode {
            Mode::Off => OFF,
            Mode::Exact => ALWAYS,
            Mode::Auto => FIRST_LAUNCHES,
        };
        let left = if options.range.is_some() { outside(left) } else { left };
        Gate {
            left: AtomicU64::new(left),
            first_taken: AtomicU64::new(0),
            last_taken: AtomicU64::new(0),
            options,
        }
    }

    /// Whether a launch is to be timed, or why not.
    #[inline]
    pub fn admit(&self) -> Result<(), Untimed> {
        match self.left.load(Ordering::Relaxed) {
            PAUSED => Err(Untimed::Budget),
            OFF => Err(Untimed::Off),
            ALWAYS => Ok(()),
            left if is_outside(left) => Err(Untimed::OutsideRange),
            _ => self.take(),
        }
    }

    /// Takes one of the window's launches.
    fn take(&self) -> Result<(), Untimed> {
        // Before: whatever finds the window closed has come later.
        let now = ticks();
        match self.change(|left| left - 1) {
            Some(left) => {
                if left == FIRST_LAUNCHES && self.first_taken.load(Ordering::Relaxed) == 0 {
                    self.first_taken.store(now, Ordering::Release);
                }
                if left == 1 {
                    self.last_taken.store(now, Ordering::Release);
                }
                Ok(())
            }
            None => Err(match self.left.load(Ordering::Relaxed) {
                OFF => Untimed::Off,
                left if is_outside(left) => Untimed::OutsideRange,
                _ => Untimed::Budget,
            }),
        }
    }

    /// Changes the number of launches, if it is one and not 0. Returns what it was.
    fn change(&self, to: impl Fn(u64) -> u64) -> Option<u64> {
        let is_number = |left| left != PAUSED && left < OUTSIDE;
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| is_number(left).then(|| to(left)))
            .ok()
    }

    /// The same, whether it is looked at now or not.
    fn change_anywhere(&self, to: impl Fn(u64) -> u64) -> Option<u64> {
        let changed = |left: u64| {
            let (number, bit) = if is_outside(left) { (inside(left), OUTSIDE) } else { (left, 0) };
            (number != PAUSED && number < OUTSIDE).then(|| to(number) | bit)
        };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).ok().map(inside)
    }

    /// It is looked at from here on, or no more.
    pub fn look(&self, now: bool) {
        let changed = |left| {
            (is_outside(left) == now && left != OFF).then(|| if now { inside(left) } else { outside(left) })
        };
        // SeqCst, with `super::range`: who changes it sees a change of the range that came meanwhile. That there was nothing
        // to change is no failure.
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// The part of the run that is looked at; `None` = all of it.
    pub fn range(&self) -> Option<CaptureRange<'static>> {
        self.options.range()
    }

    /// Whether anything is ever timed.
    pub fn is_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) != OFF
    }

    /// From here on nothing is timed any more.
    pub fn stop(&self) {
        self.left.store(OFF, Ordering::Relaxed);
    }

    /// Poller: opens a window of so many launches. False when timing has stopped.
    fn open(&self, launches: u64) -> bool {
        let opened = |left| match left {
            PAUSED => Some(launches.max(1)),
            OUTSIDE => Some(outside(launches.max(1))),
            _ => None,
        };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, opened).is_ok()
    }

    /// Poller: closes it. Returns the launches that nobody took, or `None` when the hooks took the last just now.
    fn close(&self) -> Option<u64> {
        self.change_anywhere(|_| PAUSED)
    }
}

/// A state of [`Gate::left`] while it is not looked at.
fn outside(left: u64) -> u64 {
    match left {
        OFF => OFF,
        ALWAYS | NOT_NOW => NOT_NOW,
        number => number | OUTSIDE,
    }
}

/// The same while it is.
fn inside(left: u64) -> u64 {
    match left {
        NOT_NOW | ALWAYS => ALWAYS,
        OFF => OFF,
        number => number & !OUTSIDE,
    }
}

fn is_outside(left: u64) -> bool {
    left >= OUTSIDE && left != ALWAYS && left != OFF
}

/// A moment, and what we have cost until then.
#[derive(Clone, Copy, Default)]
struct Moment {
    ticks: u64,
    /// CLOCK_MONOTONIC.
    ns: u64,
    /// Ticks that hooks took, of all threads.
    hooks: u64,
    /// CPU time of the poller, ns.
    poller: u64,
}

impl Moment {
    /// On the poller thread.
    fn now(session: &Session) -> Moment {
        Moment {
            ticks: ticks(),
            ns: sys::clock_ns(libc::CLOCK_MONOTONIC),
            hooks: session.segment.hook_ticks(),
            poller: sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }
}

/// What a window is paid from.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Nothing: it is the first phase.
    First,
    /// The account.
    Paid,
    /// Nothing: it is the one that must be ([`BLIND_NS`]).
    Least,
}

#[derive(Clone, Copy)]
enum Phase {
    /// No launch has come.
    Before,
    Open(Open),
    Paused,
}

#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    /// Launches that the hooks were given.
    given: u64,
}

/// An edge of a window, to be told.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Edge {
    change: WindowChange,
    /// Ticks.
    at: u64,
    /// Launches that the window has taken, where it closes.
    taken: u64,
    /// The first phase's begin.
    is_first: bool,
}

/// The account. The poller's own.
pub struct Budget {
    /// What we may cost, of the time that passes.
    share: f64,
    is_sparse: bool,
    phase: Phase,
    /// What the account holds, ns; negative when it owes.
    balance: f64,
    /// What a timed launch costs, hooks and poller together, ns.
    launch_cost: f64,
    begun: Moment,
    /// The last look.
    last: Moment,
    /// When the last window opened.
    opened: Moment,
    /// What it cost the hooks (ticks), and the launches that it took.
    spent: (u64, u64),
    /// Calls that went onto a stream, as the last edge told them.
    launches: u64,
}

impl Budget {
    /// Before the first launch.
    pub fn new(session: &Session) -> Budget {
        let now = Moment::now(session);
        Budget {
            share: session.timing.options.percent / 100.0,
            is_sparse: session.timing.options.is_sparse,
            phase: Phase::Before,
            balance: 0.0,
            launch_cost: UNMEASURED_NS,
            begun: now,
            last: now,
            opened: now,
            spent: (0, 0),
            launches: 0,
        }
    }

    /// Tells how is timed, and why it is not what was asked for.
    pub fn introduce(&self, session: &Session, ring: &mut Ring) {
        let options = &session.timing.options;
        let mut tell = |fact: Fact, text: &str| {
            names::tell(ring, Namespace::Fact, fact as u32, text.as_bytes());
        };
        match options.mode {
            Mode::Off => tell(Fact::Timing, "off"),
            Mode::Exact => tell(Fact::Timing, "exact"),
            Mode::Auto => tell(Fact::Timing, &format!("auto {}", options.percent)),
        }
        if let Some(note) = options.note(false) {
            tell(Fact::TimingNote, &note);
        }
        if let Some(range) = options.range {
            tell(Fact::CaptureRange, range);
        }
    }

    /// A turn of the poller. Returns for how long it may sleep at most, ns.
    pub fn step(&mut self, session: &Session, ring: &mut Ring) -> u64 {
        if session.timing.options.mode != Mode::Auto {
            return u64::MAX;
        }
        if !self.is_sparse && session.contexts.iter().any(Context::shares_queues) {
            self.is_sparse = true;
            let note = session.timing.options.note(true).unwrap_or_default();
            names::tell(ring, Namespace::Fact, Fact::TimingNote as u32, note.as_bytes());
        }
        let now = Moment::now(session);
        let (edge, sleep) = self.look(&session.timing, now);
        if let Some(edge) = edge {
            self.tell(session, ring, now, edge);
        }
        sleep
    }

    fn tell(&mut self, session: &Session, ring: &mut Ring, now: Moment, edge: Edge) {
        // Inside a window exactly what it took, outside what went by on the streams.
        self.launches = match edge.change {
            WindowChange::Closes => self.launches + edge.taken,
            WindowChange::Opens if edge.is_first => 0,
            WindowChange::Opens => session.streams.passed().max(self.launches),
        };
        let record = Window {
            head: Head::new::<Window>(),
            at: edge.at,
            agent_ticks: now.hooks,
            poller_ns: now.poller,
            launches: self.launches,
            change: edge.change as u8,
            ..Window::default()
        };
        ring.push(record.as_words());
    }

    /// Looks at the account, and opens or closes a window. Returns the edge, and for how long nothing has to be done.
    fn look(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        self.settle(now);
        match self.phase {
            Phase::Before => self.wait_for_first(gate, now),
            Phase::Open(open) => self.look_at_window(gate, now, open),
            Phase::Paused => self.look_at_pause(gate, now),
        }
    }

    /// Books what the time since the last look has earned and cost.
    fn settle(&mut self, now: Moment) {
        let cost = self.ns(now.hooks.wrapping_sub(self.last.hooks), now)
            + now.poller.wrapping_sub(self.last.poller) as f64;
        let earned = self.share * now.ns.saturating_sub(self.last.ns) as f64;
        self.balance = (self.balance + earned - cost).clamp(-self.share * OWED_NS, self.most());
        self.last = now;
    }

    /// Ticks as ns, by what both clocks say since the beginning.
    fn ns(&self, ticks: u64, now: Moment) -> f64 {
        let (ns, passed) =
            (now.ns.saturating_sub(self.begun.ns), now.ticks.wrapping_sub(self.begun.ticks).max(1));
        ticks as f64 * (ns as f64 / passed as f64)
    }

    /// What a window must be able to cost, ns.
    fn useful(&self) -> f64 {
        (self.share * WINDOW_NS).max(LEAST_LAUNCHES as f64 * self.launch_cost)
    }

    /// What the account holds at most, ns.
    fn most(&self) -> f64 {
        (self.share * SAVED_NS).max(2.0 * self.useful())
    }

    /// How many launches it can pay for.
    fn affordable(&self) -> u64 {
        (self.balance / self.launch_cost) as u64
    }

    fn wait_for_first(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        // Acquire, with the release in `take`.
        match gate.first_taken.load(Ordering::Acquire) {
            // The first launch wakes the poller.
            0 => (None, u64::MAX),
            at => {
                self.opened = now;
                self.phase = Phase::Open(Open { kind: Kind::First, given: FIRST_LAUNCHES });
                let edge = Edge { change: WindowChange::Opens, at, taken: 0, is_first: true };
                (Some(edge), 0)
            }
        }
    }

    fn look_at_window(&mut self, gate: &Gate, now: Moment, open: Open) -> (Option<Edge>, u64) {
        // Acquire, with the release in `take`.
        let ended = gate.last_taken.swap(0, Ordering::AcqRel);
        if ended != 0 {
            return (Some(self.closed(now, ended, open.given)), 0);
        }
        let open_for = now.ns.saturating_sub(self.opened.ns);
        let is_over = match open.kind {
            _ if self.is_sparse && open_for >= WINDOW_NS as u64 => true,
            Kind::First => open_for >= FIRST_NS,
            Kind::Paid => self.balance <= 0.0,
            Kind::Least => false,
        };
        if is_over {
            let at = ticks();
            return match gate.close() {
                Some(left) => (Some(self.closed(now, at, open.given.saturating_sub(left))), 0),
                // A hook has taken the last, and is about to say when; or timing has stopped for good.
                None => (None, if gate.is_on() { SOON_NS } else { u64::MAX }),
            };
        }
        let affordable = self.affordable();
        if open.kind == Kind::Paid
            && let Some(left) = gate.change_anywhere(|left| left.max(affordable))
        {
            let given = open.given + affordable.saturating_sub(left);
            self.phase = Phase::Open(Open { given, ..open });
        }
        let longest = match open.kind {
            _ if self.is_sparse => WINDOW_NS as u64,
            Kind::First => FIRST_NS,
            Kind::Paid | Kind::Least => u64::MAX,
        };
        (None, longest.saturating_sub(open_for))
    }

    fn closed(&mut self, now: Moment, at: u64, taken: u64) -> Edge {
        let hooks = now.hooks.wrapping_sub(self.opened.hooks);
        if let Phase::Open(Open { kind: Kind::First, .. }) = self.phase {
            // The account begins with what follows; a program that costs less than the budget goes on without a pause.
            self.balance = self.share * WINDOW_NS;
        }
        self.spent = (hooks, taken);
        self.phase = Phase::Paused;
        Edge { change: WindowChange::Closes, at, taken, is_first: false }
    }

    fn look_at_pause(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        let rest = (self.opened.ns + SPARSE_NS).saturating_sub(now.ns);
        if self.is_sparse && rest > 0 {
            return (None, rest);
        }
        let least_in = (self.opened.ns + BLIND_NS).saturating_sub(now.ns);
        let missing = self.useful() - self.balance;
        let kind = match (missing <= 0.0, least_in == 0) {
            (true, _) => Kind::Paid,
            (false, true) => Kind::Least,
            (false, false) => return (None, least_in.min((missing / self.share) as u64).max(PAUSE_NS)),
        };
        self.measure_cost(now);
        let given = if kind == Kind::Paid { self.affordable().max(1) } else { LEAST_LAUNCHES };
        if !gate.open(given) {
            return (None, u64::MAX);
        }
        self.opened = now;
        self.phase = Phase::Open(Open { kind, given });
        (Some(Edge { change: WindowChange::Opens, at: ticks(), taken: 0, is_first: false }), u64::MAX)
    }

    /// Learns from the last window what a launch costs: the hooks inside of it, and the poller, which comes later, until
    /// now.
    fn measure_cost(&mut self, now: Moment) {
        let (hooks, taken) = self.spent;
        if taken >= LEAST_LAUNCHES / 2 {
            let poller = now.poller.wrapping_sub(self.opened.poller) as f64;
            let measured = (self.ns(hooks, now) + poller) / taken as f64;
            self.launch_cost += (measured - self.launch_cost) / 2.0;
        }
        self.spent = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An app that launches in a loop, and a poller that looks at the account now and then. A tick is a ns.
    struct Storm {
        gate: Gate,
        budget: Budget,
        now: Moment,
        launches: u64,
        timed: u64,
        edges: Vec<(Edge, Moment)>,
    }

    impl Storm {
        fn new(percent: f64) -> Storm {
            let options = Options { percent, ..Options::of(Mode::Auto) };
            let gate = Gate::new(options);
            let begun = Moment { ticks: 1, ns: 1, ..Moment::default() };
            let budget = Budget {
                share: percent / 100.0,
                is_sparse: false,
                phase: Phase::Before,
                balance: 0.0,
                launch_cost: UNMEASURED_NS,
                begun,
                last: begun,
                opened: begun,
                spent: (0, 0),
                launches: 0,
            };
            Storm { gate, budget, now: begun, launches: 0, timed: 0, edges: Vec::new() }
        }

        /// Launches for `ns`: one costs `own` without us, `count` more when counted, `time` more when timed (half of it
        /// the poller's). The poller looks every `late` ns.
        fn runs(&mut self, ns: u64, own: u64, count: u64, time: u64, late: u64) {
            let until = self.now.ns + ns;
            let mut look = self.now.ns;
            while self.now.ns < until {
                self.launches += 1;
                let mut hook = count;
                if self.gate.admit().is_ok() {
                    self.timed += 1;
                    hook += time / 2;
                    self.now.poller += time - time / 2;
                }
                self.now.hooks += hook;
                self.now.ns += own + hook;
                self.now.ticks = self.now.ns;
                while look <= self.now.ns {
                    let (edge, sleep) = self.budget.look(&self.gate, self.now);
                    if let Some(edge) = edge {
                        self.edges.push((edge, self.now));
                    }
                    look += late.min(sleep.max(1_000));
                }
            }
        }

        fn share_since(&self, from: &Moment) -> f64 {
            let cost = (self.now.hooks - from.hooks) + (self.now.poller - from.poller);
            cost as f64 / (self.now.ns - from.ns) as f64
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
        storm.runs(2_000_000_000, 3_000, 50, 4_000, 10_000_000_000);
        // A tenth of a second's allowance, at what a launch costs.
        assert!(storm.timed - before <= 2 * 5_000_000 / 4_000, "{}", storm.timed - before);
    }

    #[test]
    fn what_timing_is_not_is_said_with_its_reason() {
        let gate = |mode| Gate::new(Options::of(mode));
        assert_eq!(gate(Mode::Off).admit(), Err(Untimed::Off));
        assert_eq!(gate(Mode::Exact).admit(), Ok(()));
        let auto = gate(Mode::Auto);
        for _ in 0..FIRST_LAUNCHES {
            assert_eq!(auto.admit(), Ok(()));
        }
        assert_eq!(auto.admit(), Err(Untimed::Budget));
        assert!(auto.open(1) && !auto.open(1));
        auto.stop();
        assert_eq!(auto.admit(), Err(Untimed::Off));
        assert!(!auto.open(5) && auto.close().is_none(), "what has stopped stays so");
    }

    #[test]
    fn outside_the_range_nothing_is_timed_and_a_window_waits_for_it() {
        let gate = |mode| Gate::new(Options { range: Some("profiler-api"), ..Options::of(mode) });
        let (exact, auto, off) = (gate(Mode::Exact), gate(Mode::Auto), gate(Mode::Off));
        for turn in 0..3 {
            assert_eq!(exact.admit(), Err(Untimed::OutsideRange));
            assert_eq!(auto.admit(), Err(Untimed::OutsideRange));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.look(true));
            assert_eq!(exact.admit(), Ok(()));
            for _ in 0..if turn == 0 { FIRST_LAUNCHES } else { 7 } {
                assert_eq!(auto.admit(), Ok(()), "turn {turn}");
            }
            assert_eq!(auto.admit(), Err(Untimed::Budget));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.look(false));
            assert!(auto.open(7) && !auto.open(7), "the account goes on");
            assert_eq!(auto.change_anywhere(|left| left.max(5)), Some(7));
        }
        assert_eq!(auto.close(), Some(7));
        assert_eq!(off.admit(), Err(Untimed::Off));
        exact.stop();
        exact.look(true);
        assert_eq!(exact.admit(), Err(Untimed::Off), "what has stopped stays so");
    }

    #[test]
    fn the_first_phase_begins_with_the_range() {
        let mut storm = Storm::new(1.0);
        storm.gate.look(false);
        storm.runs(3_000_000_000, 3_000, 100, 4_000, 200_000);
        assert_eq!((storm.timed, storm.edges.len()), (0, 0));
        storm.gate.look(true);
        storm.runs(100_000_000, 3_000, 100, 4_000, 200_000);
        let (first, ended) = (storm.edges[0].0, storm.edges[1].0);
        assert!(first.is_first && ended.taken == FIRST_LAUNCHES, "{first:?}, {ended:?}");
    }
}

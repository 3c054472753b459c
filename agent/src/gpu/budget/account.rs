//! The account: what has been earned and spent, and so when does a window open, and when does it close?

use core::sync::atomic::Ordering;
use gpuspy_wire::pace::Compared;
use gpuspy_wire::record::{Fact, Head, Namespace, Record, Window, WindowChange};

use super::gate::{FIRST_LAUNCHES, Gate};
use super::slowdown::Slowdown;
use crate::gpu::context::Context;
use crate::gpu::poller::Ring;
use crate::names;
use crate::session::Session;
use crate::session::options::Mode;
use crate::sys::{self, ticks};

/// The first phase ends so much time after the first launch, if not by its number of launches.
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
/// A window that the account can pay for without an end is interrupted, so that there is a pause to compare it with: this
/// long after it has opened until enough is known, and then again and again. The first takes a twentieth of three seconds, the
/// second a four-hundredth of the time.
const COMPARE_NS: u64 = 380_000_000;
const COMPARE_AGAIN_NS: u64 = 8_000_000_000;
/// The account holds no more than what it earns in this time: what an idle program has saved is not spent at once.
const SAVED_NS: f64 = 1e9;
/// It owes no more than what it earns in this time: a storm whose counting alone exceeds the budget is forgotten after.
const OWED_NS: f64 = 10e9;
/// What a timed launch costs, ns, before it was measured: a few times what it does on the simulator.
const UNMEASURED_NS: f64 = 5_000.0;

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
    /// Until so many ns, to be compared with the window that goes on then.
    Interrupted(u64),
}

#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    /// Launches that the hooks were given.
    given: u64,
    /// Those of them that have been paid for.
    paid: u64,
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
    /// When it closed: the hooks' ticks.
    closed: u64,
    /// What the hooks take of a launch in windows, and in pauses, ns.
    hooks_in: (f64, f64),
    /// What launches take longer in windows than hooks explain, and what they pay for it, ns each.
    slowdown: Slowdown,
    slowed: f64,
    /// Calls that went onto a stream, as the last edge told them.
    launches: u64,
}

impl Budget {
    /// Before the first launch.
    pub fn new(session: &Session) -> Budget {
        let options = &session.timing.options;
        Budget::begun(options.percent / 100.0, options.is_sparse, Moment::now(session))
    }

    fn begun(share: f64, is_sparse: bool, now: Moment) -> Budget {
        Budget {
            share,
            is_sparse,
            phase: Phase::Before,
            balance: 0.0,
            launch_cost: UNMEASURED_NS,
            begun: now,
            last: now,
            opened: now,
            spent: (0, 0),
            closed: 0,
            hooks_in: (0.0, 0.0),
            slowdown: Slowdown::default(),
            slowed: 0.0,
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
            WindowChange::Opens => {
                let launches = session.streams.passed().max(self.launches);
                self.pause_ended(now, launches - self.launches);
                launches
            }
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
            Phase::Open(open) => {
                let taken = open.given.saturating_sub(gate.left());
                let open = self.pay(open, taken);
                self.look_at_window(gate, now, open)
            }
            Phase::Paused => self.look_at_pause(gate, now),
            Phase::Interrupted(until) if now.ns < until => (None, until - now.ns),
            Phase::Interrupted(_) if self.balance > 0.0 => self.open(gate, now, Kind::Paid),
            Phase::Interrupted(_) => {
                self.phase = Phase::Paused;
                self.look_at_pause(gate, now)
            }
        }
    }

    /// A pause was compared with the windows beside it, on a stream that has this share of the launches: others go on
    /// meanwhile, and what each of theirs takes longer passes at the same time.
    pub fn learn(&mut self, compared: Compared, share: f64) {
        let hooks = (self.hooks_in.0 - self.hooks_in.1).max(0.0);
        self.slowdown.observe((compared.window - compared.pause - hooks) * share);
        self.slowed = self.slowdown.least();
    }

    /// Pays what the launches of a window took longer, of which there have been so many until now.
    fn pay(&mut self, open: Open, taken: u64) -> Open {
        // The first phase is paid from nothing.
        if open.kind != Kind::First {
            let slowed = self.slowed * taken.saturating_sub(open.paid) as f64;
            self.balance = (self.balance - slowed).max(-self.share * OWED_NS);
        }
        let open = Open { paid: taken.max(open.paid), ..open };
        self.phase = Phase::Open(open);
        open
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
        (self.share * WINDOW_NS).max(LEAST_LAUNCHES as f64 * self.timed_cost())
    }

    /// What the account holds at most, ns.
    fn most(&self) -> f64 {
        (self.share * SAVED_NS).max(2.0 * self.useful())
    }

    /// What a timed launch costs, all in all, ns.
    fn timed_cost(&self) -> f64 {
        self.launch_cost + self.slowed
    }

    /// How many launches it can pay for.
    fn affordable(&self) -> u64 {
        (self.balance / self.timed_cost()) as u64
    }

    fn wait_for_first(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        // Acquire, with the release in `take`.
        match gate.first_taken.load(Ordering::Acquire) {
            // The first launch wakes the poller.
            0 => (None, u64::MAX),
            at => {
                self.opened = now;
                self.phase = Phase::Open(Open { kind: Kind::First, given: FIRST_LAUNCHES, paid: 0 });
                let edge = Edge { change: WindowChange::Opens, at, taken: 0, is_first: true };
                (Some(edge), 0)
            }
        }
    }

    fn look_at_window(&mut self, gate: &Gate, now: Moment, open: Open) -> (Option<Edge>, u64) {
        // Acquire, with the release in `take`.
        let ended = gate.last_taken.swap(0, Ordering::AcqRel);
        if ended != 0 {
            return (Some(self.closed(now, ended, open, open.given)), 0);
        }
        let open_for = now.ns.saturating_sub(self.opened.ns);
        let is_over = match open.kind {
            _ if self.is_sparse && open_for >= WINDOW_NS as u64 => true,
            Kind::First => open_for >= FIRST_NS,
            Kind::Paid => self.balance <= 0.0,
            Kind::Least => false,
        };
        let interrupted_in = self.interrupted_in(open, open_for);
        if is_over || interrupted_in == 0 {
            let at = ticks();
            return match gate.close() {
                Some(left) => {
                    let edge = self.closed(now, at, open, open.given.saturating_sub(left));
                    if !is_over {
                        self.phase = Phase::Interrupted(now.ns + PAUSE_NS);
                    }
                    (Some(edge), 0)
                }
                // A hook has taken the last, and is about to say when; or timing has stopped for good.
                None => (None, if gate.is_on() { SOON_NS } else { u64::MAX }),
            };
        }
        let affordable = self.affordable();
        if open.kind == Kind::Paid
            && let Some(left) = gate.change_left(|left| left.max(affordable))
        {
            let given = open.given + affordable.saturating_sub(left);
            self.phase = Phase::Open(Open { given, ..open });
        }
        let longest = match open.kind {
            _ if self.is_sparse => WINDOW_NS as u64,
            Kind::First => FIRST_NS,
            Kind::Paid | Kind::Least => u64::MAX,
        };
        (None, longest.saturating_sub(open_for).min(interrupted_in))
    }

    /// In how long a window is to be interrupted, so that there is something to compare it with, ns. Not so soon where few
    /// launches would come in the interruption: what an event takes is little to launches that are so far apart, unless they
    /// are for that very reason. Never where hardly any would.
    fn interrupted_in(&self, open: Open, open_for: u64) -> u64 {
        if open.kind != Kind::Paid || self.is_sparse {
            return u64::MAX;
        }
        let come = open.paid.saturating_mul(PAUSE_NS) / open_for.max(1);
        let is_known = self.slowdown.is_known() || come < LEAST_LAUNCHES / 2;
        let due = if is_known { COMPARE_AGAIN_NS } else { COMPARE_NS };
        match due.saturating_sub(open_for) {
            0 if come < LEAST_LAUNCHES / 25 => COMPARE_AGAIN_NS,
            rest => rest,
        }
    }

    fn closed(&mut self, now: Moment, at: u64, open: Open, taken: u64) -> Edge {
        self.pay(open, taken);
        let hooks = now.hooks.wrapping_sub(self.opened.hooks);
        self.closed = now.hooks;
        if open.kind == Kind::First {
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
        self.open(gate, now, kind)
    }

    fn open(&mut self, gate: &Gate, now: Moment, kind: Kind) -> (Option<Edge>, u64) {
        self.measure_cost(now);
        let given = if kind == Kind::Paid { self.affordable().max(1) } else { LEAST_LAUNCHES };
        if !gate.open(given) {
            return (None, u64::MAX);
        }
        self.opened = now;
        self.phase = Phase::Open(Open { kind, given, paid: 0 });
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
            self.hooks_in.0 = self.ns(hooks, now) / taken as f64;
        }
        self.spent = (0, 0);
    }

    /// Learns from a pause what counting a launch costs the hooks.
    fn pause_ended(&mut self, now: Moment, launches: u64) {
        if launches >= LEAST_LAUNCHES / 2 {
            self.hooks_in.1 = self.ns(now.hooks.wrapping_sub(self.closed), now) / launches as f64;
        }
    }
}

#[cfg(test)]
mod tests;

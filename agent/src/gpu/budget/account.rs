//! When does a timing window open and close? The account books what the budget earns and what the agent
//! costs.

use core::sync::atomic::Ordering;
use gpuspy_wire::pace::Compared;
use gpuspy_wire::record::{Fact, Head, Namespace, Record, Window, WindowChange};

use super::gate::{FIRST_LAUNCHES, Gate};
use super::slowdown::Slowdown;
use crate::gpu::context::Contexts;
use crate::gpu::stream::Streams;
use crate::options::Mode;
use crate::sink::text::publish;
use crate::sink::{Ring, Session};
use crate::sys::{self, ticks, ticks_after_stores};

/// The first phase ends this long after the first launch, unless its number of launches ends it earlier.
const FIRST_NS: u64 = 1_000_000_000;
/// A window opens when the account holds what it earns in this time and can pay for [`LEAST_LAUNCHES`]. Ten
/// windows a second are enough to see a program's phases, and each is long enough to contain operations away
/// from its edges.
const WINDOW_NS: f64 = 100e6;
const LEAST_LAUNCHES: u64 = 100;
/// How long the poller waits for a hook that has taken a window's last launch to publish the time: the hook's
/// thread may have been preempted in between.
const SOON_NS: u64 = 200_000;
/// The time between the starts of sparse windows.
const SPARSE_NS: u64 = 1_000_000_000;
/// Where counting alone costs more than the budget, the account never fills. A window of [`LEAST_LAUNCHES`]
/// opens at this interval all the same (about 0.02 % of the time, at 2 µs per launch); otherwise a program's
/// later phases would never be timed.
const BLIND_NS: u64 = 1_000_000_000;
/// The shortest time between the poller's wake-ups for the account during a pause. A wake-up costs 30 µs
/// (measured: a futex wait on a busy machine with two cores), more than a small budget earns in a ms.
const PAUSE_NS: u64 = 20_000_000;
/// A window that the account can pay for indefinitely is interrupted, so that there is a pause to compare it
/// with: this long after it has opened while the slowdown is unknown, and at the longer interval afterwards.
/// Interruptions take a twentieth of the time for the first three seconds, and a four-hundredth afterwards.
const COMPARE_NS: u64 = 380_000_000;
const COMPARE_AGAIN_NS: u64 = 8_000_000_000;
/// The account holds no more than it earns in this time, so that an idle program's savings are not spent all
/// at once.
const SAVED_NS: f64 = 1e9;
/// The account owes no more than it earns in this time, so that a while in which counting alone exceeds the
/// budget is forgiven eventually.
const OWED_NS: f64 = 10e9;
/// The assumed cost of a timed launch in ns before the first measurement: several times the cost on the
/// simulator.
const UNMEASURED_NS: f64 = 5_000.0;

/// A moment, and what the agent has cost until then.
#[derive(Clone, Copy, Default)]
struct Moment {
    ticks: u64,
    /// CLOCK_MONOTONIC, ns.
    ns: u64,
    /// Ticks spent in hooks, summed over all threads.
    hooks: u64,
    /// CPU time of the poller, ns.
    poller: u64,
}

impl Moment {
    /// Reads the clocks and counters, on the poller thread, whose CPU time is one of them.
    fn now(session: Session) -> Moment {
        Moment {
            ticks: ticks(),
            ns: sys::clock_ns(libc::CLOCK_MONOTONIC),
            hooks: session.segment.hook_ticks(),
            poller: sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }
}

/// Where the payment for a window comes from.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Nobody pays: the window is the first phase.
    First,
    /// The account pays.
    Paid,
    /// Nobody pays: this is the small window that opens regardless of the balance ([`BLIND_NS`]).
    Least,
}

#[derive(Clone, Copy)]
enum Phase {
    /// No launch has been observed yet.
    Before,
    Open(Open),
    Paused,
    /// An interruption until this time (CLOCK_MONOTONIC, ns), to be compared with the window that resumes
    /// then.
    Interrupted(u64),
}

#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    /// The number of launches that hooks may time in this window.
    given: u64,
    /// The number of launches that the account has already paid for.
    paid: u64,
}

/// An opening or closing of a window, to be reported.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Edge {
    change: WindowChange,
    /// Ticks.
    at: u64,
    /// The number of launches that the window took, if it closes.
    taken: u64,
    /// Whether this is the start of the first phase.
    is_first: bool,
}

/// The account. Only the poller uses it.
pub struct Budget {
    /// The share of elapsed time that the agent may cost.
    share: f64,
    /// Whether windows are short and far apart, whatever they cost.
    is_sparse: bool,
    phase: Phase,
    /// The account's balance in ns; negative when it owes.
    balance: f64,
    /// The cost of a timed launch, hooks and poller together, ns.
    launch_cost: f64,
    begun: Moment,
    /// The last time the account was settled.
    last: Moment,
    /// When the last window opened.
    opened: Moment,
    /// What the last window cost the hooks (ticks), and the number of launches that it took.
    spent: (u64, u64),
    /// The hooks' ticks when the last window closed.
    closed: u64,
    /// Hook time per launch in windows, and in pauses, ns.
    hooks_in: (f64, f64),
    /// How much longer launches take in windows than the hook time explains, and what the account pays for
    /// that, ns per launch.
    slowdown: Slowdown,
    slowed: f64,
    /// The number of calls that went onto a stream, as reported with the last edge.
    launches: u64,
    /// The last edge, as it was published.
    edge: Option<Window>,
}

impl Budget {
    /// Creates the account before the first launch.
    pub fn new(session: Session) -> Budget {
        let options = &session.get::<Gate>().options;
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
            edge: None,
        }
    }

    /// Publishes the timing mode, and why it differs from the requested one if it does.
    pub fn introduce(session: Session, ring: &mut Ring) {
        let options = &session.get::<Gate>().options;
        let mut publish = |fact: Fact, text: &str| {
            publish(ring, Namespace::Fact, fact as u32, text.as_bytes());
        };
        match options.mode {
            Mode::Off => publish(Fact::Timing, "off"),
            Mode::Exact => publish(Fact::Timing, "exact"),
            Mode::Auto => publish(Fact::Timing, &format!("auto {}", options.percent)),
        }
        if let Some(note) = options.note(false) {
            publish(Fact::TimingNote, &note);
        }
        if let Some(range) = options.range {
            publish(Fact::CaptureRange, range);
        }
    }

    /// Publishes the same again, and whether a window is open, for a collector that has not seen it.
    pub fn introduce_again(&self, session: Session, ring: &mut Ring) {
        Budget::introduce(session, ring);
        if self.is_sparse
            && let Some(note) = session.get::<Gate>().options.note(true)
        {
            publish(ring, Namespace::Fact, Fact::TimingNote as u32, note.as_bytes());
        }
        self.edge.iter().for_each(|edge| _ = ring.push(edge.as_words()));
    }

    /// Updates the account on one pass of the poller. Returns how long the poller may sleep at most, ns.
    pub fn step(&mut self, session: Session, ring: &mut Ring) -> u64 {
        if session.get::<Gate>().options.mode != Mode::Auto {
            return u64::MAX;
        }
        if !self.is_sparse && session.get::<Contexts>().iter().any(|c| c.queues.are_shared()) {
            self.is_sparse = true;
            let note = session.get::<Gate>().options.note(true).unwrap_or_default();
            publish(ring, Namespace::Fact, Fact::TimingNote as u32, note.as_bytes());
        }
        let now = Moment::now(session);
        let (edge, sleep) = self.update(session.get::<Gate>(), now);
        if let Some(edge) = edge {
            self.report(session, ring, now, edge);
        }
        sleep
    }

    fn report(&mut self, session: Session, ring: &mut Ring, now: Moment, edge: Edge) {
        // A closing adds exactly what the window took; an opening adds the calls counted on the streams
        // during the pause.
        self.launches = match edge.change {
            WindowChange::Closes => self.launches + edge.taken,
            WindowChange::Opens if edge.is_first => 0,
            WindowChange::Opens => {
                let launches = session.get::<Streams>().passed().max(self.launches);
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
        self.edge = Some(record);
    }

    /// Settles the account, and opens or closes a window. Returns the edge, and the time in ns during which
    /// nothing has to be done.
    fn update(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        self.settle(now);
        match self.phase {
            Phase::Before => self.wait_for_first(gate, now),
            Phase::Open(open) => {
                let taken = open.given.saturating_sub(gate.left());
                let open = self.pay(open, taken);
                self.update_window(gate, now, open)
            }
            Phase::Paused => self.update_pause(gate, now),
            Phase::Interrupted(until) if now.ns < until => (None, until - now.ns),
            Phase::Interrupted(_) if self.balance > 0.0 => self.open(gate, now, Kind::Paid),
            Phase::Interrupted(_) => {
                self.phase = Phase::Paused;
                self.update_pause(gate, now)
            }
        }
    }

    /// Learns the slowdown from a comparison of a pause with the windows next to it, made on a stream that has
    /// this `share` of all launches. The other streams run at the same time, so the extra time of their
    /// launches overlaps with this one's.
    pub fn learn(&mut self, compared: Compared, share: f64) {
        let hooks = (self.hooks_in.0 - self.hooks_in.1).max(0.0);
        self.slowdown.observe((compared.window - compared.pause - hooks) * share);
        self.slowed = self.slowdown.least();
    }

    /// Pays for the slowdown of a window's launches, of which there have been `taken` until now.
    fn pay(&mut self, open: Open, taken: u64) -> Open {
        // Nothing is paid for the first phase.
        if open.kind != Kind::First {
            let slowed = self.slowed * taken.saturating_sub(open.paid) as f64;
            self.balance = (self.balance - slowed).max(-self.share * OWED_NS);
        }
        let open = Open { paid: taken.max(open.paid), ..open };
        self.phase = Phase::Open(open);
        open
    }

    /// Adds to the balance what the time since the last update has earned, and subtracts what it has cost.
    fn settle(&mut self, now: Moment) {
        let cost = self.ns(now.hooks.wrapping_sub(self.last.hooks), now)
            + now.poller.wrapping_sub(self.last.poller) as f64;
        let earned = self.share * now.ns.saturating_sub(self.last.ns) as f64;
        self.balance = (self.balance + earned - cost).clamp(-self.share * OWED_NS, self.most_balance());
        self.last = now;
    }

    /// Converts ticks to ns by the ratio of both clocks since the start.
    fn ns(&self, ticks: u64, now: Moment) -> f64 {
        let (ns, passed) =
            (now.ns.saturating_sub(self.begun.ns), now.ticks.wrapping_sub(self.begun.ticks).max(1));
        ticks as f64 * (ns as f64 / passed as f64)
    }

    /// The balance in ns that a window needs to be useful.
    fn useful(&self) -> f64 {
        (self.share * WINDOW_NS).max(LEAST_LAUNCHES as f64 * self.timed_cost())
    }

    /// The largest balance that the account may hold, ns.
    fn most_balance(&self) -> f64 {
        (self.share * SAVED_NS).max(2.0 * self.useful())
    }

    /// The total cost of a timed launch in ns, slowdown included.
    fn timed_cost(&self) -> f64 {
        self.launch_cost + self.slowed
    }

    /// The number of launches that the balance can pay for.
    fn affordable(&self) -> u64 {
        (self.balance / self.timed_cost()) as u64
    }

    fn wait_for_first(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        // Acquire pairs with the release in `Gate::take`.
        match gate.first_taken.load(Ordering::Acquire) {
            // The poller may sleep without a limit: the first launch wakes it.
            0 => (None, u64::MAX),
            at => {
                self.opened = now;
                self.phase = Phase::Open(Open { kind: Kind::First, given: FIRST_LAUNCHES, paid: 0 });
                let edge = Edge { change: WindowChange::Opens, at, taken: 0, is_first: true };
                (Some(edge), 0)
            }
        }
    }

    fn update_window(&mut self, gate: &Gate, now: Moment, open: Open) -> (Option<Edge>, u64) {
        // Acquire pairs with the release in `Gate::take`.
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
                // Either a hook has taken the last launch and is about to publish the time, or timing has
                // stopped for good.
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

    /// The time in ns after which a window must be interrupted to get a pause to compare it with. The
    /// interruption comes late where it would contain few launches: an event costs little compared with
    /// launches that are so far apart, unless they are far apart because of the events. It never comes where
    /// it would contain hardly any launch.
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
            // The account starts with the time after the first phase. A program that costs less than the
            // budget continues without a pause.
            self.balance = self.share * WINDOW_NS;
        }
        self.spent = (hooks, taken);
        self.phase = Phase::Paused;
        Edge { change: WindowChange::Closes, at, taken, is_first: false }
    }

    fn update_pause(&mut self, gate: &Gate, now: Moment) -> (Option<Edge>, u64) {
        let rest = (self.opened.ns + SPARSE_NS).saturating_sub(now.ns);
        if self.is_sparse && rest > 0 {
            return (None, rest);
        }
        let forced_in = (self.opened.ns + BLIND_NS).saturating_sub(now.ns);
        let missing = self.useful() - self.balance;
        let kind = match (missing <= 0.0, forced_in == 0) {
            (true, _) => Kind::Paid,
            (false, true) => Kind::Least,
            (false, false) => return (None, forced_in.min((missing / self.share) as u64).max(PAUSE_NS)),
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
        // Later calls find the window open.
        let at = ticks_after_stores();
        (Some(Edge { change: WindowChange::Opens, at, taken: 0, is_first: false }), u64::MAX)
    }

    /// Measures the cost of a launch from the last window: the hooks' time inside it, and the poller's time
    /// until now, since the poller reads events later.
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

    /// Measures from a pause what counting a launch costs the hooks.
    fn pause_ended(&mut self, now: Moment, launches: u64) {
        if launches >= LEAST_LAUNCHES / 2 {
            self.hooks_in.1 = self.ns(now.hooks.wrapping_sub(self.closed), now) / launches as f64;
        }
    }
}

#[cfg(test)]
mod tests;

//! One pass over the starts and ends of operations, in GPU order, which finds idle gaps and divides the time.
//!
//! All edges are passed, and time counts inside the selected period: a gap is clipped to that, and so is the span.
//! Where capture ranges were recorded, they are the span, whatever ran in them.

use super::super::bins::Bins;
use super::super::estimate::Estimate;
use super::super::identity::{Class, Identity, Layer, Part};
use super::super::idle::by_step::BeforeSteps;
use super::super::idle::closed::Closed;
use super::super::idle::lead::{Lead, LeadNumber, Leads};
use super::super::idle::running::{LineTimes, Windows};
use super::super::idle::split::Tally;
use super::cover::{Cover, Covered};
use super::edges::{Edges, Held};
use super::{Gap, GapLog, Gaps, Lane, LoggedGap, Neighbour};
use crate::model::period::Period;

/// A sweep over one timeline. [`hold`](Self::hold) every operation when it comes; then call [`reach`](Self::reach) with every
/// new start, in order, add the operation's edges, and let it go.
#[derive(Debug, Default)]
pub struct Sweep {
    /// The time that is counted.
    period: Period,
    /// How far the sweep has come; `None` before the first edge.
    now: Option<i64>,
    /// Where the counted span starts.
    origin: Option<i64>,
    edges: Edges,
    cover: Cover,
    covered: Covered,
    bins: Bins,
    open: Option<OpenGap>,
    gaps: Gaps,
    /// Where each gap is noted, and the device's ordinal.
    log: Option<(GapLog, Option<u32>)>,
    /// What the host did before the operations that have not been passed.
    pub leads: Leads,
    /// The gaps by what the host did in them.
    idle: Tally,
    /// The leads of operations that were passed.
    passed: Vec<LeadNumber>,
    late: u64,
    /// Where the span starts, until an operation runs by the best estimate: the first one may be known to have started
    /// only within an interval, and a capture range may start long before it.
    lead_in: Option<i64>,
    /// The last edge of a timed operation that was passed, and the clock that placed it.
    last: Option<(i64, Lane)>,
    /// By how much the clocks of successive edges can change the counted time, ns.
    doubt: u64,
    /// Whether the latest operation that started was of the set-up before the steps.
    is_setting_up: bool,
    before_steps: BeforeSteps,
}

/// What a sweep has found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Where the counted span starts; `None` if nothing was counted.
    pub origin: Option<i64>,
    /// The parts of its time.
    pub identity: Identity,
    /// What ran when.
    pub bins: Bins,
    /// Its idle gaps.
    pub gaps: Gaps,
    /// The same by cause.
    pub idle: Tally,
    /// Operations that arrived too late for their place in GPU order.
    pub late: u64,
    /// Its time before the first step.
    pub before_steps: BeforeSteps,
}

/// A gap whose end has not been reached.
#[derive(Clone, Copy, Debug)]
struct OpenGap {
    start: i64,
    /// The time in it in which nothing can have run, ns.
    certain: u64,
    before: Neighbour,
    /// Whether all of it is selected so far. Operations beyond the bound of a capture range are not in the trace, so idle time next
    /// to a bound is no gap between two operations.
    is_gap: bool,
}

impl Sweep {
    /// Creates a sweep that counts the time in `period`, with the processor time of the threads that may lead gaps.
    pub fn new(period: Period, times: LineTimes) -> Self {
        Sweep { period, idle: Tally::of(Windows::of(times)), ..Sweep::default() }
    }

    /// Notes each gap in a log, which is of this device.
    pub fn log_to(&mut self, log: GapLog, device: Option<u32>) {
        self.log = Some((log, device));
    }

    /// Passes to `time`. Everything that is added later starts at `time` or after it, and the next operation is of
    /// `class` and ends by `end`. An operation that starts before a time already passed is counted as late, and its
    /// passed part widens the intervals.
    pub fn reach(&mut self, time: i64, class: Class, end: i64) {
        self.edges.settle();
        while let Some(next) = self.edges.next().filter(|next| *next < time) {
            self.pass_to(next);
        }
        if let Some(now) = self.now.filter(|now| time < *now) {
            self.late += u64::from(self.period.contains(time));
            self.covered.came_late(class, self.period.length(time, now.min(end)));
        }
    }

    /// Keeps an operation whose edges are added when its start is reached.
    pub fn hold(&mut self, neighbour: Neighbour) -> Held {
        self.edges.hold(neighbour)
    }

    /// No more edges of an operation are added.
    pub fn let_go(&mut self, held: Held) {
        self.edges.let_go(held);
    }

    /// Returns an operation that was kept.
    pub fn neighbour(&self, held: Held) -> &Neighbour {
        self.edges.neighbour(held)
    }

    /// Adds intervals of an operation that have a length. An operation without a length still extends the span. Most
    /// intervals lie in the one before them, and then this order of their edges is the one in which they are passed.
    pub fn stretches<const N: usize>(&mut self, class: Class, intervals: [(Layer, i64, i64); N], held: Held) {
        let counts =
            |(layer, from, to): &(Layer, i64, i64)| from < to || (from == to && *layer == Layer::Possible);
        for (layer, from, _) in intervals.into_iter().filter(counts) {
            self.enter(layer, class, from, held);
        }
        for (layer, _, to) in intervals.into_iter().rev().filter(counts) {
            self.leave(layer, class, to, held);
        }
    }

    /// Adds the start of an interval.
    pub fn enter(&mut self, layer: Layer, class: Class, time: i64, held: Held) {
        self.edges.add(time.max(self.now.unwrap_or(i64::MIN)), true, (layer, class), held);
    }

    /// Adds the end of an interval.
    pub fn leave(&mut self, layer: Layer, class: Class, time: i64, held: Held) {
        self.edges.add(time.max(self.now.unwrap_or(i64::MIN)), false, (layer, class), held);
    }

    /// The number of edges that are not passed yet: those of operations that are running.
    pub fn pending(&self) -> usize {
        self.edges.count()
    }

    /// Passes all remaining edges. `silent` says of the idle time at the end of a span, from its earliest possible start on, what
    /// the host did in it.
    pub fn finish(mut self, silent: impl FnOnce(i64) -> Option<Lead>) -> Swept {
        self.edges.settle();
        while let Some(next) = self.edges.next() {
            self.pass_to(next);
        }
        if self.period.is_span() {
            let end = self.period.ends().1;
            self.pass_to(end);
            let rest = self.last.map(|(time, last)| self.doubt_beside(time, end, last.off_by()));
            self.doubt = self.doubt.saturating_add(rest.unwrap_or(0));
            self.close_end(end, silent);
        }
        let Sweep { origin, covered, bins, gaps, idle, late, before_steps, .. } = self;
        let mut identity = covered.identity();
        identity.doubt(self.doubt);
        Swept { origin, identity, bins, gaps, idle, late, before_steps }
    }

    /// Passes to `time` and over all edges at that time.
    fn pass_to(&mut self, time: i64) {
        let from = match self.now {
            Some(now) => now,
            None if self.period.is_span() => self.period.ends().0.min(time),
            None => time,
        };
        let ns = self.period.length(from, time);
        if ns > 0 {
            self.spend(from, ns);
        }
        if self.period.is_span()
            && let Some(open) = &mut self.open
        {
            open.is_gap &= self.period.holds(from, time);
        }
        if self.now.replace(time).is_none() {
            self.lead_in = Some(from);
        }
        let (mut ended, mut began, mut step) = (None, None, None);
        let was_setting_up = self.is_setting_up;
        let was_idle = self.cover.is_idle();
        while let Some(edge) = self.edges.pop_at(time) {
            let is_work = !matches!(edge.layer, Layer::Certain | Layer::Possible);
            if edge.begins {
                self.cover.enter(edge.layer, edge.class);
                if is_work {
                    began = began.or(Some(edge.held));
                    if let Some(lead) = self.leads.get(self.edges.neighbour(edge.held).lead) {
                        self.idle.without_waits.start(lead, time);
                        step = step.max(lead.step);
                        self.is_setting_up = lead.is_setting_up;
                    }
                }
            } else {
                self.cover.leave(edge.layer, edge.class);
                // It has begun by now, and if it ended a gap, that is closed below.
                if edge.layer == Layer::Possible {
                    self.passed.push(self.edges.neighbour(edge.held).lead);
                }
                if is_work {
                    ended = Some(edge.held);
                }
            }
            if edge.layer == Layer::Possible {
                self.clocks(time, edge.held);
            }
            self.edges.let_go(edge.held);
        }
        match (was_idle, self.cover.is_idle(), began, ended) {
            (true, false, Some(after), _) => {
                let after = *self.edges.neighbour(after);
                self.close_lead_in(time, &after);
                self.close_gap(time, after);
            }
            (false, true, _, Some(before)) => {
                let before = *self.edges.neighbour(before);
                self.open = Some(OpenGap { start: time, certain: 0, before, is_gap: true });
            }
            _ => {}
        }
        // A gap that ends here belongs to the step before.
        if let Some(step) = step {
            if was_setting_up && !self.idle.by_step.has_begun() {
                let idle = self.idle.by_cause.map(|part| part.total.value);
                self.before_steps = BeforeSteps { parts: self.covered.values(), idle };
            }
            self.idle.by_step.reach(step);
        }
        while let Some(lead) = self.passed.pop() {
            self.leads.remove(lead);
        }
    }

    /// Counts `ns` from a moment on, in which nothing begins or ends.
    fn spend(&mut self, from: i64, ns: u64) {
        self.origin = self.origin.or_else(|| self.period.next(from));
        let part = self.cover.part();
        self.covered.pass(&self.cover, part, ns);
        self.bins.pass(part, ns);
        if part == Part::Unobserved || self.cover.may_be_lost() {
            self.idle.without_waits.skip();
        }
        if let Some(open) = self.open.as_mut().filter(|_| self.cover.is_certainly_idle()) {
            open.certain += ns;
        }
    }

    /// Adds the doubt between this edge of an operation, which possibly ran from here on or until here, and the one before.
    /// Two clocks can be off against each other, so the time between edges of two clocks can be longer or shorter.
    /// Successive edges of one clock move together.
    fn clocks(&mut self, time: i64, held: Held) {
        let Some(lane) = self.edges.neighbour(held).lane else { return };
        let doubt = match self.last.replace((time, lane)) {
            Some((from, last)) => {
                self.doubt_between((from, time), last.doubt(lane), [last.off_by(), lane.off_by()])
            }
            None if self.period.is_span() => self.doubt_beside(self.period.ends().0, time, lane.off_by()),
            None => 0,
        };
        self.doubt = self.doubt.saturating_add(doubt);
    }

    /// Returns how far the counted part of the time between two edges can be off because of their clocks, ns. `doubt` is
    /// that of their distance, and `off_by` that of each. A bound of the selected period does not move with a clock, so next
    /// to it even a single clock leaves doubt.
    fn doubt_between(&self, (from, to): (i64, i64), doubt: u64, off_by: [u64; 2]) -> u64 {
        if self.period.holds(from, to) {
            return doubt;
        }
        if self.period.touches(from, to) { off_by[0].saturating_add(off_by[1]) } else { 0 }
    }

    /// Returns the same between an edge that can be off by so much and a bound of the span that has no edge of its own.
    fn doubt_beside(&self, from: i64, to: i64, off_by: u64) -> u64 {
        if self.period.length(from, to) > 0 { off_by } else { 0 }
    }

    /// Divides the idle time from the start of the span to the first operation's start, which is no gap between two.
    fn close_lead_in(&mut self, time: i64, after: &Neighbour) {
        let Some(from) = self.lead_in.take() else { return };
        let value = self.period.length(from, time);
        if value > 0 {
            let widest = (from, after.latest_start.max(time));
            let hi = self.period.length(from, widest.1).max(value);
            let (duration, off_by) = (Estimate::new(value, 0, hi), after.off_by());
            let closed = Closed { from, to: time, widest, duration, off_by, is_gap: false };
            self.idle.split(closed, self.leads.get(after.lead), &self.period);
        }
    }

    /// Divides the idle time from the last operation to the end of the span, which no operation ends.
    fn close_end(&mut self, end: i64, silent: impl FnOnce(i64) -> Option<Lead>) {
        let Some(open) = self.open.take() else { return };
        let value = self.period.length(open.start, end);
        let (widest, off_by) = ((open.before.earliest_end, end), open.before.off_by());
        let lead = silent(widest.0.saturating_sub_unsigned(off_by)).filter(|_| value > 0);
        let Some(lead) = lead else { return };
        let longest = self.period.length(widest.0, end).max(value).saturating_add(off_by);
        let duration = Estimate::new(value, open.certain.saturating_sub(off_by), longest);
        let closed = Closed { from: open.start, to: end, widest, duration, off_by, is_gap: false };
        self.idle.split(closed, Some(&lead), &self.period);
    }

    fn close_gap(&mut self, time: i64, after: Neighbour) {
        let Some(open) = self.open.take() else { return };
        let value = self.period.length(open.start, time);
        let Some(start) = self.period.next(open.start).filter(|_| value > 0) else { return };
        let origin = self.origin.unwrap_or(start);
        let longest = self.period.length(open.before.earliest_end, after.latest_start);
        let off_by = [open.before.off_by(), after.off_by()];
        let doubt = self.doubt_between((open.start, time), open.before.doubt(&after), off_by);
        let (lo, hi) = (open.certain.saturating_sub(doubt), longest.max(value).saturating_add(doubt));
        let duration = Estimate::new(value, lo, hi);
        let closed = Closed {
            from: open.start,
            to: time,
            widest: (open.before.earliest_end, after.latest_start),
            duration,
            off_by: off_by[0].max(off_by[1]),
            is_gap: open.is_gap,
        };
        let lead = self.leads.get(after.lead);
        if !open.is_gap {
            // What was launched between two ranges is not known, so it is not owed to a wait.
            let lead = lead.map(|lead| Lead { waited: None, ..lead.clone() });
            self.idle.split(closed, lead.as_ref(), &self.period);
            return;
        }
        let host = self.idle.split(closed, lead, &self.period);
        let leader = lead.map(|lead| (lead.process, lead.thread));
        let since = (start - origin) as u64;
        let gap = Gap { start: since, duration, before: open.before, after, host, leader };
        if let Some((log, device)) = &self.log {
            log.add(LoggedGap { device: *device, start, gap });
        }
        self.gaps.add(gap);
    }
}

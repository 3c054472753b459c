//! Why was a GPU idle in the pauses of the budget (`--timing auto`)?
//!
//! In a pause no operation is timed, so there are no gaps to divide, but how long the GPU was idle follows from the counted
//! launches ([`whole`](super::super::whole)), and what the host did is known in full: all calls are recorded. Where gaps were
//! seen, a part of the time that the host spent on something was idle time of the GPU: of an hour outside CUDA half an
//! hour, say, and of a launch a third. The same parts are taken of what the host did in the pauses, and fitted to the idle
//! time that there was.
//!
//! What the host did before the first operation and behind the last one, when no GPU was idle for it, and what turned out to be
//! [set-up](Cause::SetUp), which is over before the pauses, are left out of what is learned.
//!
//! So a thread that sleeps in a pause is found to have slept, although no gap was seen there. The values assume that what
//! was timed is like the rest. The bounds do not: the least is what was seen, and the most is all of the host's time of that
//! kind in the pauses.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::{Cause, Emptied, IdleReport, Part, Site, Wait};
use std::collections::BTreeMap;

/// The fewest gaps that are a sample.
const LEAST_GAPS: u64 = 100;

/// How a thread spent its time, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTime {
    /// In calls, by the [`Cause`] that such a call is of idle time.
    calls: [u64; Cause::COUNT],
    /// Outside CUDA, for less than [`LONG`](super::LONG) at once and for longer.
    outside: [u64; 2],
}

impl HostTime {
    /// Adds time in a call of this cause.
    pub fn call(&mut self, cause: Cause, ns: u64) {
        self.calls[cause as usize] = self.calls[cause as usize].saturating_add(ns);
    }

    /// Adds time outside CUDA as a gap shows it, of a [long](Site::is_long) part or of another.
    pub fn outside_of(&mut self, is_long: bool, ns: u64) {
        let place = &mut self.outside[usize::from(is_long)];
        *place = place.saturating_add(ns);
    }

    /// Takes out the time outside CUDA of another.
    fn leave_out(&mut self, other: &HostTime) {
        for (ns, out) in self.outside.iter_mut().zip(other.outside) {
            *ns = ns.saturating_sub(out);
        }
    }

    /// Returns the time in which the host did what a cause says. Of an operation that waits on its stream this is the time in
    /// which operations were launched, and of time that is undecided all of it.
    fn of(&self, cause: Cause, is_long: bool) -> u64 {
        match cause {
            Cause::OutsideCuda => self.outside[usize::from(is_long)],
            Cause::Starting | Cause::BetweenLaunches => self.calls[Cause::Launching as usize],
            Cause::StreamWait | Cause::HostCallback | Cause::Undecided => self.all(),
            // It is over before the pauses.
            Cause::SetUp => 0,
            cause => self.calls[cause as usize],
        }
    }

    /// Returns the most time that a GPU can have been idle for a cause meanwhile. An operation that was enqueued waits whatever
    /// the host does.
    fn most(&self, cause: Cause) -> u64 {
        match cause {
            Cause::OutsideCuda => self.outside[0].saturating_add(self.outside[1]),
            Cause::Starting | Cause::BetweenLaunches => self.all(),
            cause => self.of(cause, false),
        }
    }

    fn all(&self) -> u64 {
        self.calls.iter().chain(&self.outside).fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

impl Merge for HostTime {
    fn merge(&mut self, other: &HostTime) {
        let all = self.calls.iter_mut().chain(&mut self.outside);
        all.zip(other.calls.iter().chain(&other.outside))
            .for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
    }
}

/// How a thread spent its time while operations were timed, and in pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// In calls before the first operation of the process.
    pub before: HostTime,
    /// While they were timed.
    pub timed: HostTime,
    /// In pauses.
    pub paused: HostTime,
}

impl HostTimes {
    /// Returns the one or the other.
    pub fn of(&mut self, is_paused: bool) -> &mut HostTime {
        if is_paused { &mut self.paused } else { &mut self.timed }
    }

    /// Takes out the time outside CUDA that is [set-up](Cause::SetUp).
    pub fn leave_out(&mut self, set_up: &HostTimes) {
        self.timed.leave_out(&set_up.timed);
        self.paused.leave_out(&set_up.paused);
    }

    /// Returns the time outside CUDA for [`LONG`](super::LONG) or more at once, ns.
    pub fn long_outside(&self) -> u64 {
        self.timed.outside[1].saturating_add(self.paused.outside[1])
    }

    /// Returns all of the time in calls of this cause.
    pub fn in_calls(&self, cause: Cause) -> u64 {
        let all = [&self.before, &self.timed, &self.paused];
        all.iter().fold(0, |sum, time| sum.saturating_add(time.calls[cause as usize]))
    }
}

impl Merge for HostTimes {
    fn merge(&mut self, other: &HostTimes) {
        self.before.merge(&other.before);
        self.timed.merge(&other.timed);
        self.paused.merge(&other.paused);
    }
}

impl IdleReport {
    /// Adds `idle` ns of idle time in pauses, by cause and site. Nothing is added if too few gaps were seen.
    pub fn add_pauses(&mut self, idle: u64) {
        let (timed, paused) = (self.timed(), self.host.paused);
        let steady = self.by_cause.iter().filter(|(cause, _)| **cause != Cause::SetUp);
        if steady.map(|(_, part)| part.count).sum::<u64>() < LEAST_GAPS {
            return;
        }
        let more = |cause: Cause, site: &Site, part: &Part| {
            let of = |host: HostTime| host.of(cause, site.is_long) as f64;
            if of(timed) > 0.0 { part.total.value as f64 * of(paused) / of(timed) } else { 0.0 }
        };
        let expected: f64 = self.sites.iter().map(|((cause, site), part)| more(*cause, site, part)).sum();
        if expected <= 0.0 {
            return;
        }
        let mut left = idle;
        let mut owed: BTreeMap<&Wait, [u64; 2]> = BTreeMap::new();
        for ((cause, site), part) in &mut self.sites {
            let share = more(*cause, site, part) / expected;
            // What is cut off has no known cause.
            let ns = ((idle as f64 * share) as u64).min(left);
            for wait in site.after_wait.iter().chain(&site.then_waited) {
                let [seen, added] = owed.entry(wait).or_default();
                (*seen, *added) = (*seen + part.total.value, *added + ns);
            }
            if ns == 0 {
                continue;
            }
            left -= ns;
            *self.paused_by_line.entry(site.source.line.clone()).or_default() += ns;
            let count = part.count as f64 * ns as f64 / part.total.value.max(1) as f64;
            let most = idle.min(paused.most(*cause)).max(ns);
            let added = Part { count: count.round() as u64, total: Sum { value: ns, lo: 0, hi: most } };
            part.merge(&added);
            let all = self.by_cause.entry(*cause).or_default();
            all.count += added.count;
            all.total.value += ns;
        }
        // As many more waits left a GPU idle as there is more of that idle time.
        for (wait, [seen, added]) in owed {
            if let Some(emptied) = self.waits.get_mut(wait) {
                let more =
                    |count: u64| count + (count as f64 * added as f64 / seen.max(1) as f64).round() as u64;
                *emptied = Emptied { count: more(emptied.count), steps: more(emptied.steps) };
            }
        }
        for cause in Cause::ALL.into_iter().filter(|cause| *cause != Cause::SetUp) {
            let most = paused.most(cause);
            if most > 0 {
                let total = &mut self.by_cause.entry(cause).or_default().total;
                total.hi = total.hi.saturating_add(idle.min(most)).max(total.value);
            }
        }
    }

    /// Whether idle time in pauses was added to what gaps show.
    pub fn has_pauses(&self) -> bool {
        !self.paused_by_line.is_empty()
    }

    /// Returns how the threads spent their time while operations were timed. They were outside CUDA for no less than gaps show:
    /// a part that is left out as set-up can be long though the thread was never outside CUDA for long at once.
    fn timed(&self) -> HostTime {
        let mut shown = HostTime::default();
        for ((_, site), part) in self.sites.iter().filter(|((cause, _), _)| *cause == Cause::OutsideCuda) {
            shown.outside_of(site.is_long, part.total.value);
        }
        let mut timed = self.host.timed;
        for (ns, shown) in timed.outside.iter_mut().zip(shown.outside) {
            *ns = (*ns).max(shown);
        }
        timed
    }
}

#[cfg(test)]
mod tests;

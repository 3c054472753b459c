//! How is a gap divided by what the leading thread was doing?
//!
//! The gap lies on the line of host time only up to the error of its operations' clock, so it may truly be a little
//! earlier or later, as a whole. For each cause:
//!
//! - its *value* is its part of the gap where the clock puts it,
//! - its *lo* is the least part that it has wherever the clock's error may put the gap, less what the gap may be shorter
//!   than its value,
//! - its *hi* is all of it from the earliest start to the latest end that the gap can have.
//!
//! A cause that would have no part at all in some of those places is not certain to be one: what it has of the value is
//! undecided. So a gap of 4 µs in a loop that only launches stays a gap of launching with a clock of ±1 µs, where the gap
//! cannot leave the calls; and it is undecided with a clock of ±1 ms, where it may lie anywhere. If the thread did nothing
//! but launch wherever the gap may lie, what is open is only in which call or between which calls it was: that time has
//! a cause of its own, [`Cause::BetweenLaunches`].
//!
//! The least is exact: the part of a cause changes linearly between the places where an end of the gap meets an end of a
//! call, so those places are all that need to be looked at. The operation cannot have started before its call was
//! entered, which bounds how early the gap can be.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::by_step::StepIdle;
use super::closed::{Closed, Place};
use super::history::WaitPlace;
use super::lead::Lead;
use super::pauses::HostTimes;
use super::running::{Outside, Running, Stretches, Windows};
use super::warm_up::{Early, EarlyGaps};
use super::without_waits::{Owed, WithoutWaits};
use super::{Cause, Emptied, LONG, Next, ONE_OFF, Part, SITES, less};
use crate::hash::HashMap;
use crate::model::period::Period;
use crate::model::stacks::Caller;
use std::collections::BTreeMap;

/// The most places of the gap that are looked at. With more calls than that within the clock's error, nothing is certain.
const PLACES: usize = 64;
/// The clock's error that is looked at, at most, ns. No gap is certain to have a cause with a larger one, unless the
/// thread did the same all the time.
const MOST_OFF_BY: u64 = 1_000_000_000;
/// The number of causes that are kept of a gap.
pub const MAIN: usize = 3;

/// The largest causes of a gap, ns each, the largest first; `None` where there are fewer.
pub type Main = [Option<(Cause, u64)>; MAIN];

/// What is known of a gap when it is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Divided {
    /// Its largest causes.
    pub causes: Main,
    /// The cause and the place of its largest part, if that has one.
    pub largest: Option<(Cause, Place)>,
    /// The step that it lies in, if what the host did outside CUDA in it is set-up in case that turns out to be warm-up.
    pub may_warm_up: Option<u64>,
}

/// What a thread did, or an operation that it had enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doing {
    cause: Cause,
    api: Option<u16>,
    caller: Caller,
    next: Next,
}

impl Doing {
    /// In a call, or enqueued by one.
    fn call(cause: Cause, api: u16, caller: Caller) -> Doing {
        Doing { cause, api: Some(api), caller, next: Next::Other }
    }
}

/// The time of one cause at one place, around a gap.
#[derive(Clone, Copy, Debug)]
struct Slot {
    doing: Doing,
    /// Its part of the gap at the place that was looked at last.
    now: u64,
    value: u64,
    lo: u64,
    hi: u64,
}

/// How much of a gap is owed to a wait.
#[derive(Clone, Copy, Debug)]
struct Owing {
    waited: Option<WaitPlace>,
    then_waited: Option<WaitPlace>,
    ns: u64,
    /// The length of the gap, ns.
    of: u64,
}

impl Owing {
    /// Whether that is most of it.
    fn is_most(&self) -> bool {
        self.ns > 0 && self.ns >= self.of / 2
    }

    /// The place of the part that is owed to it.
    fn part_of(&self, place: Place) -> Place {
        Place { waited: self.waited, then_waited: self.then_waited, ..place }
    }
}

/// A stretch of the leading thread's time.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: i64,
    to: i64,
    slot: usize,
}

/// The idle time of a timeline by cause.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By cause.
    pub by_cause: [Part; Cause::COUNT],
    /// By cause and place, at most [`SITES`].
    pub places: HashMap<(Cause, Place), Part>,
    /// The time of places beyond those, by cause.
    pub beyond: [Part; Cause::COUNT],
    /// The idle time that a thread of a process led, ns.
    pub led: HashMap<(u32, u32), u64>,
    /// Whether the threads ran in the time outside CUDA.
    pub running: Windows,
    /// The same of other timelines, in [windows that may have warm-up](Windows::early).
    pub early_running: BTreeMap<u64, Running>,
    /// By the step of the program.
    pub by_step: StepIdle,
    /// The same without the threads' waits.
    pub without_waits: WithoutWaits,
    /// The waits that gaps are owed to, by process, API and line, beyond [`SITES`] of these by API alone; and the step of the last one.
    pub waits: HashMap<(u32, u16, u32), (Emptied, Option<u64>)>,
    /// Long gaps of the first steps.
    pub early: EarlyGaps,
    /// The host's time outside CUDA that is set-up.
    pub set_up: HostTimes,
    /// The step that the gap lies in, if that may be warm-up.
    may_warm_up: Option<u64>,
    /// Whether the gap is [`ONE_OFF`] or longer.
    is_long: bool,
    /// Whether the leading thread's time before its call counts as that of a pause; `None` if it does not count.
    is_paused: Option<bool>,
    slots: Vec<Slot>,
    stretches: Vec<Stretch>,
    /// Whether the thread did nothing but launch in all the time that was laid out.
    only_launched: bool,
}

impl Tally {
    /// A tally of gaps that are led by threads whose processor time was sampled.
    pub fn of(running: Windows) -> Tally {
        Tally { running, ..Tally::default() }
    }

    /// Divides a gap that the operation with this lead ended.
    pub fn split(&mut self, gap: Closed, lead: Option<&Lead>, period: &Period) -> Divided {
        let Some(lead) = lead else {
            let all = Part { count: gap.count(), total: gap.duration.into() };
            self.add(Cause::Undecided, all, None);
            self.by_step.add(Cause::Undecided, gap.duration.value);
            let causes = [Some((Cause::Undecided, gap.duration.value)), None, None];
            return Divided { causes, ..Divided::default() };
        };
        let led = self.led.entry((lead.process, lead.thread)).or_default();
        *led = led.saturating_add(gap.duration.value);
        let off_by = gap.off_by.min(MOST_OFF_BY) as i64;
        let is_long = gap.duration.value >= ONE_OFF;
        let is_set_up = lead.is_setting_up || (lead.is_preparing && is_long);
        self.may_warm_up = self.by_step.first_now();
        self.is_long = is_long;
        self.is_paused = lead.is_paused;
        self.lay_out(
            lead,
            if is_set_up { Cause::SetUp } else { Cause::OutsideCuda },
            gap.widest.0.min(gap.from).saturating_sub(off_by),
            gap.widest.1.max(gap.to).saturating_add(off_by),
        );
        let least = self.measure(&gap, lead, off_by, period);
        let mut owed = self.without_waits.owed(&gap, lead);
        if lead.is_setting_up {
            // Waits of the set-up are no habit of the steps.
            owed = Owed::default();
        }
        if let Some(waited) = lead.waited.filter(|_| owed.is_first) {
            let (first, then) = waited.of(owed.ns);
            [Some(first), then].into_iter().flatten().for_each(|place| self.count_wait(lead, place));
        }
        self.decide(&gap, lead, (&least, owed), off_by, period)
    }

    /// Counts a wait that left the GPU idle.
    fn count_wait(&mut self, lead: &Lead, (api, line): WaitPlace) {
        let is_kept = self.waits.len() < SITES || self.waits.contains_key(&(lead.process, api, line));
        let line = if is_kept { line } else { 0 };
        let (emptied, last) = self.waits.entry((lead.process, api, line)).or_default();
        let is_in_another_step = lead.step.is_some() && lead.step != *last;
        emptied.merge(&Emptied { count: 1, steps: u64::from(is_in_another_step) });
        *last = lead.step;
    }

    /// Lays out what the leading thread did between two moments, and what its operation did after it was enqueued;
    /// `outside` is the cause where the thread was in no call.
    fn lay_out(&mut self, lead: &Lead, outside: Cause, from: i64, to: i64) {
        self.slots.clear();
        self.stretches.clear();
        self.only_launched = true;
        let (mut now, mut idle_from) = (from, lead.before);
        if lead.known_from > now {
            now = lead.known_from.min(to);
            let unknown =
                Doing { cause: Cause::Undecided, api: None, caller: Caller::default(), next: Next::Other };
            self.stretch(from, now, unknown, from);
        }
        let until_launch = Doing { cause: outside, api: None, caller: lead.caller, next: lead.next };
        let before = lead.calls.partition_point(|call| call.from < lead.called);
        for calls in lead.calls[..before].split_inclusive(|call| is_work(call.cause)) {
            let loads = calls.iter().rposition(|call| call.cause == Cause::Loading);
            for (at, call) in calls.iter().enumerate() {
                if call.to > from {
                    let until_call = match loads.filter(|load| at <= *load) {
                        // What loads code before the second step loads it for the first time.
                        Some(load) => {
                            let cause = if lead.is_preparing { Cause::SetUp } else { outside };
                            Doing { cause, caller: calls[load].caller, next: Next::Code, ..until_launch }
                        }
                        None => until_launch,
                    };
                    let begin = call.from.max(now);
                    self.stretch(now, begin.min(to), until_call, idle_from);
                    let end = call.to.min(lead.called).min(to);
                    self.stretch(begin, end, Doing::call(call.cause, call.api, call.caller), call.from);
                    now = now.max(end);
                }
                idle_from = call.to;
            }
        }
        let own = |cause| Doing::call(cause, lead.api, lead.caller);
        self.stretch(now, lead.called.min(to), until_launch, idle_from);
        self.stretch(now.max(lead.called), lead.returned.min(to), own(lead.in_call), lead.called);
        self.stretch(now.max(lead.returned), to, own(lead.enqueued), lead.returned);
    }

    /// Adds a part of what the thread did; it had done so since `since`.
    fn stretch(&mut self, from: i64, to: i64, doing: Doing, since: i64) {
        if from >= to {
            return;
        }
        self.only_launched &= match doing.cause {
            Cause::Launching => true,
            Cause::OutsideCuda | Cause::SetUp | Cause::OtherCall | Cause::Starting => {
                to.saturating_sub(since) < LONG as i64
            }
            _ => false,
        };
        let slot = self.slots.iter().position(|slot| slot.doing == doing).unwrap_or_else(|| {
            self.slots.push(Slot { doing, now: 0, value: 0, lo: u64::MAX, hi: 0 });
            self.slots.len() - 1
        });
        self.stretches.push(Stretch { from, to, slot });
    }

    /// Measures every slot where the clock puts the gap and where it may be, and returns the least of each cause that has a
    /// slot.
    fn measure(&mut self, gap: &Closed, lead: &Lead, off_by: i64, period: &Period) -> [u64; Cause::COUNT] {
        let longest = (
            gap.widest.0.min(gap.from).saturating_sub(off_by),
            gap.widest.1.max(gap.to).saturating_add(off_by),
        );
        for stretch in &self.stretches {
            let hi = &mut self.slots[stretch.slot].hi;
            *hi = hi.saturating_add(
                stretch.to.min(longest.1).saturating_sub(stretch.from.max(longest.0)).max(0) as u64,
            );
        }
        let mut least = [u64::MAX; Cause::COUNT];
        self.look(gap, 0, period, &mut least);
        self.slots.iter_mut().for_each(|slot| slot.value = slot.now);
        // What was done all the time has all of the gap wherever that is.
        if off_by == 0 || self.stretches.len() == 1 {
            return least;
        }
        // It cannot have started before its call was entered.
        let (first, last) = (lead.called.saturating_sub(gap.to).min(0).max(-off_by), off_by);
        self.look(gap, first, period, &mut least);
        self.look(gap, last, period, &mut least);
        let shifts = |stretch: &Stretch| {
            let ends = [stretch.from.saturating_sub(gap.from), stretch.from.saturating_sub(gap.to)];
            ends.into_iter().filter(move |shift| *shift > first && *shift < last)
        };
        if self.stretches.iter().flat_map(shifts).count() > PLACES {
            self.slots.iter_mut().for_each(|slot| slot.lo = 0);
            return [0; Cause::COUNT];
        }
        for at in 0..self.stretches.len() {
            shifts(&self.stretches[at]).for_each(|shift| self.look(gap, shift, period, &mut least));
        }
        least
    }

    /// Measures the gap where it lies `shift` later on the host's line.
    fn look(&mut self, gap: &Closed, shift: i64, period: &Period, least: &mut [u64; Cause::COUNT]) {
        let mut causes = [0u64; Cause::COUNT];
        self.slots.iter_mut().for_each(|slot| slot.now = 0);
        for stretch in &self.stretches {
            let (slot, ns) = (&mut self.slots[stretch.slot], part(gap, stretch, shift, period));
            slot.now += ns;
            causes[slot.doing.cause as usize] += ns;
        }
        for slot in &mut self.slots {
            slot.lo = slot.lo.min(slot.now);
            let cause = slot.doing.cause as usize;
            least[cause] = causes[cause].min(least[cause]);
        }
    }

    /// Counts what was measured.
    fn decide(
        &mut self,
        gap: &Closed,
        lead: &Lead,
        (least, owed): (&[u64; Cause::COUNT], Owed),
        off_by: i64,
        period: &Period,
    ) -> Divided {
        let shorter = gap.duration.value.saturating_sub(gap.duration.lo);
        let (process, thread, range) = (lead.process, lead.thread, lead.range);
        let place = |Doing { api, caller, next, .. }, is_long| Place {
            process,
            thread,
            api,
            caller,
            range,
            waited: None,
            then_waited: None,
            is_long,
            next,
        };
        let (waited, then_waited) = lead.waited.map(|waited| waited.of(owed.ns)).unzip();
        let then_waited = then_waited.flatten();
        let of_wait = Owing { waited, then_waited, ns: owed.ns, of: gap.duration.value };
        let mut all = [Sum::default(); Cause::COUNT];
        let mut largest: Option<(Cause, Place)> = None;
        let mut most = 0;
        let slots = std::mem::take(&mut self.slots);
        for (at, Slot { doing, value, lo, hi, .. }) in slots.iter().copied().enumerate() {
            let cause = doing.cause;
            all[cause as usize].add(Sum { value, lo: 0, hi });
            if cause == Cause::Undecided || value == 0 || least[cause as usize] == 0 {
                continue;
            }
            let lo = lo.saturating_sub(shorter).min(value);
            let total = Sum { value, lo, hi: hi.min(gap.duration.hi).max(value) };
            // Each end of the gap may lie so far away.
            let doubt = shorter.saturating_add(2 * off_by.unsigned_abs());
            // While another thread waits for the GPU, this one may wait for that.
            let is_held = owed.ns > 0 && lead.waited.is_some_and(|waited| waited.thread != thread);
            let is_own = value >= LONG && !is_held;
            let running = self.outside(gap, (process, thread), (at, cause, is_own), doubt, period);
            let part = Part { count: gap.count(), total };
            let place = place(doing, value >= LONG);
            self.owe(cause, place, part, of_wait, running);
            if value > most {
                most = value;
                largest = Some((cause, if of_wait.is_most() { of_wait.part_of(place) } else { place }));
            }
        }
        self.slots = slots;
        let (mut open, mut decided) = (0u64, 0u64);
        let mut main: Main = [None; MAIN];
        for &cause in &Cause::ALL {
            let Sum { value, hi, .. } = all[cause as usize];
            if hi == 0 || cause == Cause::Undecided {
                continue;
            }
            let (least, hi) = (least[cause as usize], hi.min(gap.duration.hi).max(value));
            if value > 0 && least == 0 {
                open += value;
                self.by_cause[cause as usize].total.add(Sum { value: 0, lo: 0, hi });
                continue;
            }
            decided = decided.saturating_add(if value > 0 { hi } else { 0 });
            let total = Sum { value, lo: least.saturating_sub(shorter).min(value), hi };
            self.count(cause, Part { count: gap.count(), total }, &mut main);
        }
        let unknown = all[Cause::Undecided as usize];
        let (cause, whole, lo, hi) = if self.only_launched {
            let lo = gap.duration.lo.saturating_sub(decided).min(open);
            let launching = Doing::call(Cause::BetweenLaunches, lead.api, lead.caller);
            (launching.cause, place(launching, false), lo, gap.duration.hi)
        } else {
            open += unknown.value;
            (Cause::Undecided, Place::default(), 0, unknown.hi.min(gap.duration.hi).max(open))
        };
        if open > 0 || cause == Cause::Undecided {
            self.count(cause, Part { count: gap.count(), total: Sum { value: open, lo, hi } }, &mut main);
        }
        if open > 0 {
            let total = Sum { value: open, lo, hi: gap.duration.hi.max(open) };
            let part = Part { count: gap.count(), total };
            match cause {
                Cause::Undecided => self.site(cause, whole, part),
                _ => self.owe(cause, whole, part, of_wait, Running::default()),
            }
        }
        let is_early = largest.is_some_and(|(_, place)| self.is_long || is_load(&place));
        Divided { causes: main, largest, may_warm_up: self.may_warm_up.filter(|_| is_early) }
    }

    /// Counts the part that a cause has of a gap, which may have none.
    fn count(&mut self, cause: Cause, part: Part, main: &mut Main) {
        let sum = &mut self.by_cause[cause as usize];
        if part.total.value > 0 {
            sum.count += part.count;
            keep(main, cause, part.total.value);
            self.by_step.add(cause, part.total.value);
        }
        sum.total.add(part.total);
    }

    /// Notes the time of a slot in which a thread was outside CUDA, if its cause is that, and returns what is known of the thread
    /// in it.
    fn outside(
        &mut self,
        gap: &Closed,
        thread: (u32, u32),
        (slot, cause, is_own): (usize, Cause, bool),
        doubt: u64,
        period: &Period,
    ) -> Running {
        let kinds: &[Outside] = match cause {
            Cause::OutsideCuda if is_own => &[Outside::Any, Outside::Long],
            Cause::OutsideCuda => &[Outside::Any],
            Cause::SetUp => &[Outside::SetUp],
            _ => return Running::default(),
        };
        let its = self.stretches.iter().filter(|stretch| stretch.slot == slot);
        let stretches = its.map(|stretch| (stretch.from, stretch.to));
        let step = self.may_warm_up;
        self.running.add(Stretches { thread, step, stretches, gap, doubt }, kinds, period)
    }

    fn add(&mut self, cause: Cause, part: Part, place: Option<Place>) {
        let sum = &mut self.by_cause[cause as usize];
        sum.count += part.count;
        sum.total.add(part.total);
        self.site(cause, place.unwrap_or_default(), part);
    }

    /// Counts a part of a gap in its place, divided into what is owed to a wait and the rest. The gap counts where most is.
    /// `running` is what is known of the thread in it, outside CUDA.
    fn owe(&mut self, cause: Cause, place: Place, part: Part, wait: Owing, running: Running) {
        let is_owed = wait.is_most();
        let (owed, ran) = (part.total.share(wait.ns, wait.of), running.share(wait.ns, wait.of));
        let (rest, ran_else) = (less(part.total, owed), running.less(ran));
        for (total, running, place, counts) in
            [(owed, ran, wait.part_of(place), is_owed), (rest, ran_else, place, !is_owed)]
        {
            if counts || total.value > 0 {
                let count = if counts { part.count } else { 0 };
                let part = Part { count, total };
                self.note_set_up(cause, place, part, running);
                self.site(cause, place, part);
            }
        }
    }

    /// Notes a part that is set-up, or may turn out to be.
    fn note_set_up(&mut self, cause: Cause, place: Place, part: Part, running: Running) {
        match (cause, self.may_warm_up, self.is_paused) {
            (Cause::SetUp, _, Some(is_paused)) => {
                self.set_up.of(is_paused).outside_of(place.is_long, part.total.value);
            }
            (Cause::OutsideCuda, Some(step), is_paused) if self.is_long || is_load(&place) => {
                self.early.keep(Early { step, place, part, running, is_paused });
            }
            _ => {}
        }
    }

    fn site(&mut self, cause: Cause, place: Place, part: Part) {
        let is_full = self.places.len() >= SITES;
        let sum = match self.places.get_mut(&(cause, place)) {
            Some(sum) => sum,
            None if is_full => &mut self.beyond[cause as usize],
            None => self.places.entry((cause, place)).or_default(),
        };
        sum.count += part.count;
        sum.total.add(part.total);
    }
}

/// Whether a call made work, so that what the thread did before it may have been for that work. (Only copies wait implicitly.) Other calls
/// may lie between what is compiled and what is loaded: Inductor waits for the GPU there, and a linker is initialized before what it
/// links is loaded.
fn is_work(cause: Cause) -> bool {
    matches!(cause, Cause::Launching | Cause::Copying | Cause::ImplicitSync)
}

/// Whether a thread was outside CUDA for long before it loaded code.
fn is_load(place: &Place) -> bool {
    place.is_long && place.next == Next::Code
}

/// Returns how much a stretch has of a gap that lies `shift` later on the host's line, ns.
fn part(gap: &Closed, stretch: &Stretch, shift: i64, period: &Period) -> u64 {
    let (from, to) =
        (stretch.from.max(gap.from.saturating_add(shift)), stretch.to.min(gap.to.saturating_add(shift)));
    if from >= to { 0 } else { period.length(from.saturating_sub(shift), to.saturating_sub(shift)) }
}

/// Keeps a cause if it is one of the largest.
fn keep(main: &mut Main, cause: Cause, ns: u64) {
    let place = main.iter().position(|kept| kept.is_none_or(|(_, kept)| kept < ns));
    if let Some(place) = place {
        for later in (place + 1..MAIN).rev() {
            main[later] = main[later - 1];
        }
        main[place] = Some((cause, ns));
    }
}

#[cfg(test)]
mod tests;

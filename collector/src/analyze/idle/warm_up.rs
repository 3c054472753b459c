//! Long gaps in the first steps. Whether these are warm-up is known only when all steps have been seen; then what the host
//! did outside CUDA in them was [set-up](Cause::SetUp): a just-in-time compiler compiles what the first steps use, and tunes
//! it.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::closed::Place;
use super::pauses::HostTimes;
use super::running::{Outside, Running};
use super::{Cause, IdleReport, Part, Site, less};

/// The most parts of gaps that are kept; more remain what they are.
const MOST: usize = 1024;

/// A part of a long gap outside CUDA. Its place has a name, as a [`Site`], or none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early<At = Place> {
    /// The step that it lies in.
    pub step: u64,
    /// Its place.
    pub place: At,
    /// The part.
    pub part: Part,
    /// Whether the thread ran in it.
    pub running: Running,
    /// Whether the host's time in it counts as that of a [pause](super::pauses); `None` if it does not count.
    pub is_paused: Option<bool>,
}

impl Early {
    /// Returns the part with the name of its place.
    pub fn named(&self, place: Site) -> Early<Site> {
        let Early { step, part, running, is_paused, .. } = *self;
        Early { step, place, part, running, is_paused }
    }
}

/// The parts that may turn out to be warm-up.
#[derive(Clone, Debug, Default)]
pub struct EarlyGaps(Vec<Early>);

impl EarlyGaps {
    /// Keeps a part.
    pub fn keep(&mut self, early: Early) {
        if self.0.len() < MOST {
            self.0.push(early);
        }
    }

    /// Adds those of another timeline.
    pub fn add(&mut self, other: &EarlyGaps) {
        other.0.iter().for_each(|early| self.keep(*early));
    }

    /// Returns them.
    pub fn iter(&self) -> impl Iterator<Item = &Early> {
        self.0.iter()
    }
}

impl IdleReport {
    /// The steps before `warm_up` are warm-up: what the host did outside CUDA in their long gaps becomes set-up. Only those
    /// gaps are kept.
    pub fn set_warm_up(&mut self, warm_up: u64) {
        let mut early = std::mem::take(&mut self.early);
        early.retain(|early| early.step < warm_up);
        let all = self.running.get(&Outside::Long).copied();
        early.iter().for_each(|early| self.is_set_up(early));
        if !early.is_empty() {
            self.leave_out_windows(all.unwrap_or_default(), warm_up);
        }
        self.early = early;
    }

    /// What a thread did for long behind the warm-up is better known from the windows behind that alone, if half of the time is in these:
    /// how much it compiled, and how much it slept, in a window that has both is open. If there is more of it than the rest, some of the
    /// warm-up was not sampled. `all`: with the warm-up.
    fn leave_out_windows(&mut self, all: Running, warm_up: u64) {
        let mut early = Running::default();
        self.early_running.range(..warm_up).for_each(|(_, one)| early.merge(one));
        let later = all.less(early);
        if let Some(rest) = self.running.get_mut(&Outside::Long)
            && (rest.outside.value / 2..=rest.outside.value).contains(&later.outside.value)
        {
            *rest = later;
        }
    }

    /// Does the same to the report of a line, which has the idle time of several processes, by that of one of them.
    pub fn set_warm_up_of(&mut self, process: &IdleReport) {
        process.early.iter().for_each(|early| self.is_set_up(early));
    }

    fn is_set_up(&mut self, early: &Early<Site>) {
        let outside = (Cause::OutsideCuda, early.place.clone());
        let Some(of_site) = self.sites.get_mut(&outside) else { return };
        // Other processes may have used the GPU meanwhile.
        let part = smaller(of_site, &early.part);
        take(of_site, &part);
        if of_site.total.value == 0 {
            self.sites.remove(&outside);
        }
        if let Some(all) = self.by_cause.get_mut(&Cause::OutsideCuda) {
            take(all, &part);
        }
        let (_, site) = outside;
        self.by_cause.entry(Cause::SetUp).or_default().merge(&part);
        self.sites
            .entry((Cause::SetUp, Site { after_wait: None, then_waited: None, ..site }))
            .or_default()
            .merge(&part);
        self.set_up_ran(early, part.total.value);
        if let Some(is_paused) = early.is_paused {
            let mut set_up = HostTimes::default();
            set_up.of(is_paused).outside_of(early.place.is_long, part.total.value);
            self.host.leave_out(&set_up);
        }
    }

    /// What the thread did in `ns` of a part, it did while it set up.
    fn set_up_ran(&mut self, early: &Early<Site>, ns: u64) {
        let running = early.running.stretch(ns, early.part.total.value);
        let long = early.place.is_long.then_some(Outside::Long);
        for kind in [Outside::Any].into_iter().chain(long) {
            if let Some(all) = self.running.get_mut(&kind) {
                *all = all.without(running);
            }
        }
        self.running.entry(Outside::SetUp).or_default().merge(&running);
        self.running.retain(|_, running| running.outside != Sum::default());
    }
}

fn smaller(one: &Part, other: &Part) -> Part {
    let (Sum { value, lo, hi }, most) = (one.total, other.total);
    let total = Sum { value: value.min(most.value), lo: lo.min(most.lo), hi: hi.min(most.hi) };
    Part { count: one.count.min(other.count), total }
}

/// Takes a part out. That of a process may have wider bounds than what is left of it on a line of several.
fn take(from: &mut Part, part: &Part) {
    from.count = from.count.saturating_sub(part.count);
    let Sum { value, lo, hi } = less(from.total, part.total);
    from.total = Sum { value, lo: lo.min(value), hi: hi.max(value) };
}

#[cfg(test)]
mod tests {
    use super::super::by_step::StepIdle;
    use super::*;

    const MS: u64 = 1_000_000;

    fn site(tid: u32) -> Site {
        Site { tid: Some(tid), is_long: true, ..Site::default() }
    }

    fn part(count: u64, ns: u64) -> Part {
        Part { count, total: Sum { value: ns, lo: ns - ns / 10, hi: ns + ns / 10 } }
    }

    /// Of idle time of 4 991 ns, 1 065 were said to be the most.
    #[test]
    fn what_is_left_of_idle_time_has_bounds_around_it() {
        let total = |value, hi| Part { count: 1, total: Sum { value, lo: 0, hi } };
        let mut idle = total(20_000, 22_000);
        take(&mut idle, &total(15_009, 20_935));
        assert_eq!(idle.total, Sum { value: 4_991, lo: 0, hi: 4_991 });
    }

    /// A part in which the thread ran all the time.
    fn early(step: u64, place: Site, part: Part) -> Early<Site> {
        let (outside, sampled) = (part.total, part.total.value);
        let running = Running { outside, sampled, runnable: outside, ran: outside, queued: Sum::default() };
        Early { step, place, part, running, is_paused: Some(false) }
    }

    /// On an H100, of 3.8 s of idle time in 301 steps of a JAX program 3.7 s were compilation in the first four; the report
    /// said that input should be prepared in another thread.
    #[test]
    fn a_compiler_that_runs_in_the_first_steps_is_set_up() {
        let mut idle = IdleReport::default();
        for (cause, site, part) in [
            (Cause::OutsideCuda, site(1), part(302, 3_800 * MS)),
            (Cause::OutsideCuda, site(2), part(1, 100 * MS)),
            (Cause::SetUp, site(1), part(3, 900 * MS)),
        ] {
            idle.by_cause.entry(cause).or_default().merge(&part);
            idle.sites.insert((cause, site), part);
        }
        idle.early = vec![
            early(0, site(1), part(1, 1_600 * MS)),
            early(3, site(1), part(1, 2_100 * MS)),
            early(3, site(2), part(1, 100 * MS)),
            early(4, site(1), part(1, 30 * MS)),
        ];
        let of_line = idle.clone();
        idle.set_warm_up(4);
        assert_eq!(idle.by_cause[&Cause::OutsideCuda], part(300, 100 * MS));
        assert_eq!(idle.by_cause[&Cause::SetUp], part(6, 4_700 * MS));
        assert_eq!(idle.sites[&(Cause::SetUp, site(1))], part(5, 4_600 * MS));
        assert!(!idle.sites.contains_key(&(Cause::OutsideCuda, site(2))), "nothing is left of it");
        // On the line, another process used the GPU for the last 60 ms of it.
        let mut line = of_line;
        line.sites.insert((Cause::OutsideCuda, site(2)), part(1, 40 * MS));
        line.set_warm_up_of(&idle);
        assert_eq!(line.sites[&(Cause::SetUp, site(2))], part(1, 40 * MS));
        assert_eq!(line.by_cause[&Cause::SetUp].total.value, 4_640 * MS);
    }

    fn exactly(ns: u64) -> Sum {
        Sum { value: ns, lo: ns, hi: ns }
    }

    /// The thread compiled for 3.7 s and slept for 0.1 s. It was said to run for at least 97 % of what was left, and the host's
    /// time outside CUDA had all of the 3.8 s.
    #[test]
    fn what_the_thread_did_in_warm_up_is_what_it_did_while_it_set_up() {
        let mut idle = IdleReport::default();
        let all = Part { count: 2, total: exactly(3_800 * MS) };
        idle.by_cause.insert(Cause::OutsideCuda, all);
        idle.sites.insert((Cause::OutsideCuda, site(1)), all);
        let ran = Sum { value: 3_700 * MS, lo: 3_690 * MS, hi: 3_710 * MS };
        let (outside, sampled, queued) = (all.total, 3_800 * MS, Sum::default());
        let running = Running { outside, sampled, runnable: ran, ran, queued };
        idle.running = [(Outside::Any, running), (Outside::Long, running)].into();
        idle.host.timed.outside_of(true, 3_800 * MS);
        let compiled = Part { count: 1, total: exactly(3_700 * MS) };
        idle.early = vec![early(2, site(1), compiled)];
        idle.set_warm_up(3);
        let slept = idle.running[&Outside::Long];
        assert_eq!((slept.outside, slept.sampled), (exactly(100 * MS), 100 * MS));
        assert_eq!(slept.runnable, Sum { value: 0, lo: 0, hi: 10 * MS });
        assert_eq!(idle.running[&Outside::Any], slept);
        assert_eq!(idle.running[&Outside::SetUp].runnable, exactly(3_700 * MS));
        let mut left = HostTimes::default();
        left.timed.outside_of(true, 100 * MS);
        assert_eq!(idle.host, left);
    }

    /// A program that compiled in its first steps, and slept in all, was said to compute or to sleep, and its idle time was owed to a wait:
    /// how much of which it did in the windows with both was open.
    #[test]
    fn what_a_thread_does_behind_the_warm_up_is_known_from_the_time_behind_it() {
        let mut idle = IdleReport::default();
        let of = |outside: u64, lo: u64, hi: u64| {
            let ran = Sum { value: lo.midpoint(hi) * MS, lo: lo * MS, hi: hi * MS };
            let (outside, sampled) = (exactly(outside * MS), outside * MS);
            Running { outside, sampled, runnable: ran, ran, queued: Sum::default() }
        };
        // 300 ms of compiling and 60 ms of sleep in steps 0 .. 14, and 180 ms of sleep later.
        let (first, later) = (of(360, 290, 310), of(180, 0, 5));
        let mut all = first;
        all.merge(&later);
        let part = Part { count: 60, total: all.outside };
        idle.by_cause.insert(Cause::OutsideCuda, part);
        idle.sites.insert((Cause::OutsideCuda, site(1)), part);
        idle.running = [(Outside::Long, all)].into();
        idle.early_running = [(3, first)].into();
        idle.early = vec![Early {
            running: of(300, 100, 300),
            ..early(3, site(1), Part { count: 15, total: exactly(300 * MS) })
        }];
        let mut known = idle.clone();
        known.set_warm_up(15);
        assert_eq!(known.running[&Outside::Long], later);
        idle.set_warm_up(2);
        assert_eq!(idle.running[&Outside::Long], all, "it is no warm-up");
    }

    /// Another process used the GPU for a part of the compilation.
    #[test]
    fn of_a_smaller_part_it_is_open_when_the_thread_ran() {
        let mut idle = IdleReport::default();
        let part = Part { count: 1, total: exactly(100 * MS) };
        idle.early = vec![Early { is_paused: None, ..early(0, site(1), part) }];
        idle.early[0].running.runnable = exactly(50 * MS);
        let mut line = IdleReport::default();
        let smaller = Part { count: 1, total: exactly(60 * MS) };
        line.by_cause.insert(Cause::OutsideCuda, smaller);
        line.sites.insert((Cause::OutsideCuda, site(1)), smaller);
        line.set_warm_up_of(&idle);
        let set_up = line.running[&Outside::SetUp];
        assert_eq!(set_up.outside, exactly(60 * MS));
        assert_eq!(set_up.runnable, Sum { value: 30 * MS, lo: 10 * MS, hi: 50 * MS });
    }

    #[test]
    fn only_the_first_steps_can_be_warm_up() {
        let mut steps = StepIdle::default();
        assert_eq!(steps.first_now(), None, "before the first step it is preparation");
        steps.reach(63);
        assert_eq!(steps.first_now(), Some(63));
        steps.reach(64);
        assert_eq!(steps.first_now(), None);
    }
}

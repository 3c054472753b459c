//! Long gaps in the first steps. Whether these are warm-up is known only when all steps have been seen; then what the host
//! did outside CUDA in them was [set-up](Cause::SetUp): a just-in-time compiler compiles what the first steps use, and tunes
//! it.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::closed::Place;
use super::{Cause, IdleReport, Part, Site};

/// The most parts of gaps that are kept; more remain what they are.
const MOST: usize = 1024;

/// A part of a long gap outside CUDA.
#[derive(Clone, Copy, Debug)]
pub struct Early {
    /// The step that it lies in.
    pub step: u64,
    /// Its place.
    pub place: Place,
    /// The part.
    pub part: Part,
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
        early.retain(|(step, ..)| *step < warm_up);
        early.iter().for_each(|(_, site, part)| self.is_set_up(site, part));
        self.early = early;
    }

    /// Does the same to the report of a line, which has the idle time of several processes, by that of one of them.
    pub fn set_warm_up_of(&mut self, process: &IdleReport) {
        process.early.iter().for_each(|(_, site, part)| self.is_set_up(site, part));
    }

    fn is_set_up(&mut self, site: &Site, part: &Part) {
        let outside = (Cause::OutsideCuda, site.clone());
        let Some(of_site) = self.sites.get_mut(&outside) else { return };
        // Other processes may have used the GPU meanwhile.
        let part = smaller(of_site, part);
        take(of_site, &part);
        if of_site.total.value == 0 {
            self.sites.remove(&outside);
        }
        if let Some(all) = self.by_cause.get_mut(&Cause::OutsideCuda) {
            take(all, &part);
        }
        let (_, site) = outside;
        self.by_cause.entry(Cause::SetUp).or_default().merge(&part);
        self.sites.entry((Cause::SetUp, Site { after_wait: None, ..site })).or_default().merge(&part);
    }
}

fn smaller(one: &Part, other: &Part) -> Part {
    let (Sum { value, lo, hi }, most) = (one.total, other.total);
    let total = Sum { value: value.min(most.value), lo: lo.min(most.lo), hi: hi.min(most.hi) };
    Part { count: one.count.min(other.count), total }
}

fn take(from: &mut Part, part: &Part) {
    let Sum { value, lo, hi } = from.total;
    from.count = from.count.saturating_sub(part.count);
    from.total = Sum {
        value: value.saturating_sub(part.total.value),
        lo: lo.saturating_sub(part.total.lo),
        hi: hi.saturating_sub(part.total.hi),
    };
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
            (0, site(1), part(1, 1_600 * MS)),
            (3, site(1), part(1, 2_100 * MS)),
            (3, site(2), part(1, 100 * MS)),
            (4, site(1), part(1, 30 * MS)),
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

//! Pauses that the thread which launches makes now and then, as for a checkpoint, and not in each step.

use super::super::Facts;
use super::idle::Idle;
use crate::analyze::idle::Cause;
use crate::model::stacks::Frame;
use crate::units::duration;
use std::collections::BTreeMap;

/// Pauses in fewer than one in so many steps are made now and then, and not in each step.
const NOW_AND_THEN: u64 = 10;

/// Pauses that the thread makes now and then, in which most of the time is.
pub struct Pauses {
    /// How many.
    count: u64,
    /// The number of steps for each.
    every: u64,
    /// The shortest, and all of them, ns, if that is known.
    lengths: Option<[u64; 2]>,
}

impl Pauses {
    /// Returns those of a program with steps, if there are such.
    pub fn of(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<Pauses> {
        let (count, lengths) = match longest(facts, idle) {
            Some((count, lengths)) => (count, Some(lengths)),
            None => (steps_of_line(facts, idle)?, None),
        };
        let are_few = count.saturating_mul(NOW_AND_THEN) <= facts.steps();
        are_few.then(|| Pauses { count, every: facts.steps() / count.max(1), lengths })
    }

    /// The share of the time that other gaps have, percent; 0 if it is not known.
    pub fn others(&self, idle: &Idle<'_>) -> u64 {
        let all = idle.part.total.value;
        self.lengths.map_or(0, |[_, its]| all.saturating_sub(its).saturating_mul(100) / all.max(1))
    }

    /// Says how many there are, in a sentence with a blank before it.
    pub fn sentence(&self) -> String {
        let Pauses { count, every, lengths } = self;
        match (count, lengths.map(|lengths| lengths.map(duration))) {
            (_, None) => format!(" Most of it is in {count} of the steps, one in about {every}."),
            // The lengths of the gaps say that already.
            (1, Some(_)) => String::new(),
            (_, Some([least, all])) => {
                format!(" {count} pauses of {least} or longer, one in about {every} steps, take {all}.")
            }
        }
    }
}

/// Returns how many gaps are at least half as long as the shortest of those longest ones that have half of the time, the shortest of them
/// and their sum.
fn longest(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<(u64, [u64; 2])> {
    let known: Vec<u64> =
        idle.largest(facts, Cause::OutsideCuda).iter().map(|gap| gap.duration.value).collect();
    let mut sum = 0u64;
    let half = *known.iter().find(|ns| {
        sum = sum.saturating_add(**ns);
        sum >= idle.part.total.value / 2
    })?;
    let pauses = &known[..known.partition_point(|ns| ns.saturating_mul(2) >= half)];
    let all = pauses.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    // More than are kept may be as long.
    let are_all = pauses.len() < known.len() || known.len() as u64 == idle.part.count;
    let lengths = [*pauses.last()?, all.min(idle.part.total.value)];
    are_all.then_some((pauses.len() as u64, lengths))
}

/// Returns in how many steps the line is that half of the time or more comes from, if it waits for the GPU in most of its gaps: a checkpoint
/// waits for each tensor.
fn steps_of_line(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<u64> {
    let (line, _) = idle.main_line().filter(|(_, share)| *share >= 0.5)?;
    let its = facts.idle().waits.iter().filter(|(wait, _)| wait.line.as_ref() == Some(line));
    let (count, steps) =
        its.fold((0u64, 0), |(count, steps), (_, emptied)| (count + emptied.count, emptied.steps.max(steps)));
    (steps > 0 && count.saturating_mul(2) >= idle.part.count).then_some(steps)
}

/// Says between which two lines most of the gaps lie that are at least half as long as the longest one, in a sentence with a blank before
/// it: the operations before and after the largest gaps are known.
pub fn ends(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<String> {
    let gaps = idle.largest(facts, Cause::OutsideCuda);
    let longest = gaps.first()?.duration.value;
    let mut all = 0u64;
    let mut pairs: BTreeMap<(Option<&Frame>, Option<&Frame>), u64> = BTreeMap::new();
    for gap in gaps.iter().take_while(|gap| gap.duration.value.saturating_mul(2) >= longest) {
        let sum = pairs.entry((gap.before.line.as_ref(), gap.after.line.as_ref())).or_default();
        *sum = sum.saturating_add(gap.duration.value);
        all = all.saturating_add(gap.duration.value);
    }
    let ((before, after), ns) = pairs.into_iter().max_by_key(|(_, ns)| *ns)?;
    let [before, after] = [before?.short_place(), after?.short_place()];
    let which = if ns == all { "The" } else { "Most of the" };
    (before != after && ns > all / 2).then(|| format!(" {which} longest lie between {before} and {after}."))
}

//! Pauses that the thread which launches makes now and then, as for a checkpoint, and not in each step.

use super::super::Facts;
use super::idle::Idle;
use crate::analyze::gaps::rows::GapRow;
use crate::analyze::idle::Cause;
use crate::model::stacks::Frame;
use crate::units::duration;
use std::cmp::Reverse;
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

    /// Says how many there are, in a sentence with a blank before it.
    pub fn sentence(&self) -> String {
        let Pauses { count, every, lengths } = self;
        match (count, lengths.map(|lengths| lengths.map(duration))) {
            (_, None) => format!(" Most of it is in {count} of the steps, one in about {every}."),
            (1, Some([_, all])) => format!(" One pause, in {every} steps, is {all} long."),
            (_, Some([least, all])) => {
                format!(" {count} pauses of {least} or longer, one in about {every} steps, take {all}.")
            }
        }
    }
}

/// Returns how many pauses are at least half as long as the longest one, the shortest of them and their sum, if that is half of the time or
/// more.
fn longest(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<(u64, [u64; 2])> {
    let gaps = idle.largest(facts, Cause::OutsideCuda);
    let known = joined(facts, &gaps);
    let longest = *known.first()?;
    let pauses = &known[..known.partition_point(|ns| ns.saturating_mul(2) >= longest)];
    let all = pauses.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    // More than are kept may be as long.
    let are_all = pauses.len() < known.len() || gaps.len() as u64 == idle.part.count;
    let lengths = [*pauses.last()?, all];
    (are_all && all >= idle.part.total.value / 2).then_some((pauses.len() as u64, lengths))
}

/// Returns in how many steps the line waits for the GPU that half of the time or more comes from: a checkpoint waits for each tensor.
fn steps_of_line(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<u64> {
    let (line, _) = idle.main_line().filter(|(_, share)| *share >= 0.5)?;
    let its = facts.all.idle.waits.iter().filter(|(wait, _)| wait.line.as_ref() == Some(line));
    its.map(|(_, emptied)| emptied.steps).max().filter(|steps| *steps > 0)
}

/// Returns how long pauses are in which the thread was outside CUDA in these gaps, ns, the longest first. Gaps with few calls between
/// them, for a step, are of one pause: a checkpoint copies one tensor after the other.
fn joined(facts: &Facts<'_>, gaps: &[&GapRow]) -> Vec<u64> {
    let calls: u64 = facts.all.apis.values().map(|calls| calls.count).sum();
    let few = calls.checked_div(facts.steps()).unwrap_or(0) / 2;
    let mut in_order = gaps.to_vec();
    in_order.sort_by_key(|gap| (gap.pid, gap.device, gap.start));
    let is_same = |one: &&GapRow, next: &&GapRow| {
        let calls = next.before.correlation.abs_diff(one.after.correlation);
        (one.pid, one.device) == (next.pid, next.device) && calls < few
    };
    let pauses = in_order.chunk_by(is_same);
    let mut lengths: Vec<u64> = pauses.map(|gaps| gaps.iter().map(|gap| gap.duration.value).sum()).collect();
    lengths.sort_unstable_by_key(|ns| Reverse(*ns));
    lengths
}

/// Says between which two lines most of the time is, in a sentence with a blank before it: the operations before and after the largest
/// gaps are known. The line of the finding is that of the call that ended the gaps.
pub fn ends(facts: &Facts<'_>, idle: &Idle<'_>) -> Option<String> {
    let line = idle.source().line?;
    let mut pairs: BTreeMap<&Frame, u64> = BTreeMap::new();
    for gap in idle.largest(facts, Cause::OutsideCuda) {
        if let Some(before) = gap.before.line.as_ref().filter(|_| gap.after.line.as_ref() == Some(&line)) {
            let sum = pairs.entry(before).or_default();
            *sum = sum.saturating_add(gap.duration.value);
        }
    }
    let (before, _) = pairs.into_iter().max_by_key(|(_, ns)| *ns).filter(|(before, _)| **before != line)?;
    let place = |frame: &Frame| match frame.is_without_line() {
        true => frame.place(),
        false => format!("{}:{}", frame.short_file(), frame.line),
    };
    Some(format!(" The longest lie between {} and {}.", place(before), place(&line)))
}

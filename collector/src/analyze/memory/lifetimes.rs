//! How long blocks live.

use std::collections::BTreeMap;

/// How long a block lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    /// It is held at the end, or was held for half of the run, which begins with the first allocation.
    Persistent,
    /// It was freed in the step in which it was allocated, or in the next one; without steps, after less than a twentieth
    /// of the run.
    PerStep,
    /// It was freed within 1 ms, or before any work was launched after its allocation.
    Temporary,
    /// It lived longer than a step, and not for most of the run.
    Longer,
}

impl Lifetime {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Lifetime::Persistent => "persistent",
            Lifetime::PerStep => "per_step",
            Lifetime::Temporary => "temporary",
            Lifetime::Longer => "longer",
        }
    }
}

/// Blocks of one lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// The number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of those that were held at the peak.
    pub at_peak_bytes: u64,
}

impl Lived {
    /// Adds others.
    pub fn add(&mut self, other: Lived) {
        self.blocks += other.blocks;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.at_peak_bytes = self.at_peak_bytes.saturating_add(other.at_peak_bytes);
    }
}

/// A temporary block is freed within this time, ns.
const TEMPORARY_NS: u64 = 1_000_000;

/// What is known of a block's life when it is freed.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// From its allocation to its free, ns.
    pub ns: u64,
    /// From the step of its allocation to that of its free; `None` without steps.
    pub steps: Option<u64>,
    /// Whether work was launched meanwhile.
    pub has_work: bool,
}

/// A lifetime that is certain when the block is freed, or how long it lived, in eighths of powers of two: only the end of
/// the run says whether that is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Known(Lifetime),
    /// The length, and whether both ends were in steps.
    Lasted(u16, bool),
}

impl Class {
    fn of(life: Life) -> Class {
        match life.steps {
            _ if !life.has_work || life.ns <= TEMPORARY_NS => Class::Known(Lifetime::Temporary),
            Some(0 | 1) => Class::Known(Lifetime::PerStep),
            steps => Class::Lasted(eighth(life.ns), steps.is_some()),
        }
    }

    fn lifetime(self, run_ns: u64) -> Lifetime {
        match self {
            Class::Known(lifetime) => lifetime,
            Class::Lasted(eighths, _) if eighths >= eighth(run_ns / 2) => Lifetime::Persistent,
            Class::Lasted(eighths, false) if eighths < eighth(run_ns / 20) => Lifetime::PerStep,
            Class::Lasted(..) => Lifetime::Longer,
        }
    }
}

/// Returns the place of a number on a scale of eighths of powers of two.
fn eighth(ns: u64) -> u16 {
    let power = ns.max(8).ilog2();
    (8 * power + ((ns.max(8) >> (power - 3)) & 7) as u32) as u16
}

/// The fold over freed blocks. Its size is bounded by the scale.
#[derive(Debug, Default)]
pub struct Lifetimes {
    /// With the number of the peak that the bytes at the peak are of.
    classes: BTreeMap<Class, (u64, Lived)>,
}

impl Lifetimes {
    /// Adds freed blocks. `peak` is the number of the last peak.
    pub fn freed(&mut self, life: Life, freed: Lived, peak: u64) {
        let (of_peak, lived) = self.classes.entry(Class::of(life)).or_default();
        if *of_peak != peak {
            (*of_peak, lived.at_peak_bytes) = (peak, 0);
        }
        lived.add(freed);
    }

    /// Returns the table of a run of `run_ns`, whose last peak is the highest.
    pub fn finish(self, run_ns: u64, peak: u64) -> BTreeMap<Lifetime, Lived> {
        let mut table: BTreeMap<Lifetime, Lived> = BTreeMap::new();
        for (class, (of_peak, lived)) in self.classes {
            let at_peak_bytes = if of_peak == peak { lived.at_peak_bytes } else { 0 };
            table.entry(class.lifetime(run_ns)).or_default().add(Lived { at_peak_bytes, ..lived });
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_classed_by_its_work_its_steps_and_the_run() {
        let run = 1_000_000_000;
        let class =
            |ms: u64, steps, has_work| Class::of(Life { ns: ms * 1_000_000, steps, has_work }).lifetime(run);
        assert_eq!(class(900, None, false), Lifetime::Temporary);
        assert_eq!(class(1, Some(0), true), Lifetime::Temporary);
        assert_eq!(class(600, Some(1), true), Lifetime::PerStep);
        assert_eq!(class(30, Some(2), true), Lifetime::Longer);
        assert_eq!(class(30, None, true), Lifetime::PerStep);
        assert_eq!(class(100, None, true), Lifetime::Longer);
        assert_eq!(class(600, Some(90), true), Lifetime::Persistent);
    }

    #[test]
    fn only_blocks_of_the_last_peak_count_at_the_peak() {
        let mut lifetimes = Lifetimes::default();
        let life = Life { ns: 1, steps: None, has_work: false };
        let freed = |bytes, at_peak_bytes| Lived { blocks: 1, bytes, at_peak_bytes };
        lifetimes.freed(life, freed(10, 10), 1);
        lifetimes.freed(life, freed(20, 20), 2);
        lifetimes.freed(life, freed(40, 0), 2);
        let expected = Lived { blocks: 3, bytes: 70, at_peak_bytes: 20 };
        assert_eq!(lifetimes.finish(9, 2), BTreeMap::from([(Lifetime::Temporary, expected)]));
    }
}

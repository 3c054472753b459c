//! Which NVTX ranges are phases of a step?

use super::Phase;
use crate::analyze::ranges::RangeName;
use crate::hash::HashMap;
use crate::model::range_names::Folded;
use crate::model::ranges::{Begun, Inside, Over, Ranges};
use crate::trace::record::{Body, Names, NvtxRange, Record};
use gpuspy_wire::record::NvtxChange;

/// The most names that are followed, and the most phases.
const MOST: usize = 1024;
const PHASES: usize = 32;
/// The share of steps in which a phase is opened.
const NEARLY_ALL: f64 = 0.8;

/// Whether a range began in the selected time. Nothing is collected inside.
#[derive(Clone, Copy, Debug)]
struct Counts(bool);

impl Inside for Counts {
    fn absorb(&mut self, _: &Counts) {}
}

#[derive(Clone, Copy, Debug, Default)]
struct Opened {
    count: u64,
    host: u64,
    /// The steps in which it was opened, and the last of them.
    steps: u64,
    last: Option<u64>,
}

/// The ranges that are opened in steps.
#[derive(Debug)]
pub(super) struct PhaseFold<'a> {
    names: &'a Names,
    folded: Folded,
    open: Ranges<Counts>,
    /// By domain and text.
    by_name: HashMap<(u32, u32), Opened>,
}

impl<'a> PhaseFold<'a> {
    pub(super) fn new(names: &'a Names) -> PhaseFold<'a> {
        PhaseFold { names, folded: Folded::all(names), open: Ranges::new(0), by_name: HashMap::default() }
    }

    /// Takes the next record, which is in a step; `counts` if it is selected.
    pub(super) fn observe(&mut self, record: &Record, step: Option<u64>, counts: bool) {
        let Body::NvtxRange(range) = &record.body else { return };
        let over = match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                if counts {
                    self.opened(range, step);
                }
                let (thread, at, range) = (record.thread, record.at, range.clone());
                self.open.begin(Begun { thread, at, range, inside: Counts(counts) });
                return;
            }
            NvtxChange::Mark => return,
            NvtxChange::Pop => self.open.pop(record.thread, range.domain, record.at),
            NvtxChange::End => self.open.end(range.id, record.at),
        };
        if let Ok(Some(over)) = over {
            self.over(&over);
        }
    }

    fn key(&self, range: &NvtxRange) -> (u32, u32) {
        (range.domain, self.folded.number(range.text))
    }

    fn opened(&mut self, range: &NvtxRange, step: Option<u64>) {
        let key = self.key(range);
        if self.by_name.len() >= MOST && !self.by_name.contains_key(&key) {
            return;
        }
        let of = self.by_name.entry(key).or_default();
        of.count += 1;
        of.steps += u64::from(of.last != step);
        of.last = step;
    }

    fn over(&mut self, over: &Over<Counts>) {
        if !over.begun.inside.0 {
            return;
        }
        let key = self.key(&over.begun.range);
        if let Some(of) = self.by_name.get_mut(&key) {
            of.host = of.host.saturating_add(over.end.saturating_sub(over.begun.at));
        }
    }

    /// Returns the phases of so many steps, the longest first.
    pub(super) fn finish(mut self, steps: u64, ended: u64) -> Vec<Phase> {
        let (over, open) = std::mem::replace(&mut self.open, Ranges::new(0)).finish(ended);
        over.iter().chain(&open).for_each(|over| self.over(over));
        let steps = steps.max(1) as f64;
        let is_phase = |of: &&((u32, u32), Opened)| of.1.steps as f64 >= NEARLY_ALL * steps;
        let all: Vec<((u32, u32), Opened)> = self.by_name.into_iter().collect();
        let phase = |((domain, text), of): &((u32, u32), Opened)| {
            let name = RangeName::numbered((*domain, *text), self.names, &self.folded);
            Phase { name, per_step: of.count as f64 / steps, host: of.host as f64 / steps }
        };
        let mut phases: Vec<Phase> = all.iter().filter(is_phase).map(phase).collect();
        phases.sort_by(|a, b| b.host.total_cmp(&a.host).then(a.name.cmp(&b.name)));
        phases.truncate(PHASES);
        phases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuspy_wire::record::Namespace;

    /// With `--step 10..19` of a thousand steps, a phase of 10 ms took 990 ms per step: the ends of all ranges counted.
    #[test]
    fn a_phase_has_the_time_of_the_ranges_that_began_in_the_selected_steps() {
        let names = Names([((Namespace::NvtxRange, 1), "forward".to_owned())].into());
        let mut phases = PhaseFold::new(&names);
        for step in 0..1_000 {
            let mut observe = |change, at| {
                let range =
                    NvtxRange { change, id: 0, domain: 0, text: 1, category: 0, color: 0, payload: false };
                let record = Record { thread: 1, at, body: Body::NvtxRange(range) };
                phases.observe(&record, Some(step), (10..20).contains(&step));
            };
            observe(NvtxChange::Push, step * 100);
            observe(NvtxChange::Pop, step * 100 + 10);
        }
        let found: Vec<(f64, f64)> =
            phases.finish(10, 100_000).iter().map(|of| (of.per_step, of.host)).collect();
        assert_eq!(found, [(1.0, 10.0)]);
    }
}

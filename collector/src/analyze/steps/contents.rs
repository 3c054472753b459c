//! What is in a step.

use super::Contents;
use super::growth::Growth;
use crate::analyze::idle::by_step::FIRST;
use crate::analyze::quantile::Quantiles;
use crate::analyze::scope::Scope;
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::model::order::Reorder;
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::Body;
use std::collections::VecDeque;
use std::ops::Range;

/// The operations that are held back to put them in the order of their starts: those of two full streams (1024 entries
/// each in NVIDIA's queues).
const WINDOW: usize = 2048;

/// The steps without count whose numbers are kept: operations of earlier ones are not held back any more.
const LEFT_OUT: usize = 64;

/// The share of operations without a GPU time from which on busy time cannot be added up from operations.
const UNTIMED: f64 = 0.1;

/// What one step contains, or several.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    steps: u64,
    busy: u64,
    operations: u64,
    untimed: u64,
    copies: u64,
    copied_bytes: u64,
    syncs: u64,
    allocations: u64,
    allocated_bytes: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.steps += other.steps;
        self.busy = self.busy.saturating_add(other.busy);
        self.operations += other.operations;
        self.untimed += other.untimed;
        self.copies += other.copies;
        self.copied_bytes = self.copied_bytes.saturating_add(other.copied_bytes);
        self.syncs += other.syncs;
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
    }
}

/// The contents of all steps: those of the first ones apart, because they may be warm-up.
#[derive(Debug)]
pub(super) struct Filling {
    first: Vec<Sums>,
    /// The number of the first of them.
    from: Option<u64>,
    rest: Sums,
    /// The number of the step after the last one that counts and is over.
    to: u64,
    step: Option<u64>,
    /// The step that has not ended yet; `None` if it does not count.
    current: Option<Sums>,
    /// The last steps that began as if they counted, and do not.
    left_out: VecDeque<u64>,
    launches_of: Quantiles,
    launches_now: u64,
    launches: u64,
    live: u64,
    growth: Growth,
    order: Reorder<(i64, Option<u64>)>,
    /// The time until which operations are counted as busy.
    busy_until: i64,
}

impl Default for Filling {
    fn default() -> Self {
        Filling {
            first: Vec::new(),
            from: None,
            rest: Sums::default(),
            to: 0,
            step: None,
            current: None,
            left_out: VecDeque::new(),
            launches_of: Quantiles::default(),
            launches_now: 0,
            launches: 0,
            live: 0,
            growth: Growth::default(),
            order: Reorder::new(WINDOW),
            busy_until: i64::MIN,
        }
    }
}

/// What the steps contain.
#[derive(Clone, Debug, Default)]
pub(super) struct Filled {
    /// Launches, median.
    pub launches: u64,
    pub contents: Contents,
    /// The steps that this is about.
    pub steady: Range<u64>,
    /// The number of counted steps before them.
    pub warm_up: u64,
    /// Whether nearly all operations have a GPU time, so that busy time could be added up.
    pub is_busy_known: bool,
}

impl Filling {
    /// A step begins; `counts` if it is in the selected time.
    pub(super) fn began(&mut self, step: u64, counts: bool) {
        let counted = self.current.is_some();
        self.over();
        self.step = Some(step);
        self.current = counts.then(Sums::default);
        if counts {
            self.from.get_or_insert(step);
        }
        // What is held when the first step after the selected time begins is what the last one in it has left.
        if counts || counted {
            self.growth.note(step, self.live);
        }
    }

    /// Something is missing of the step that ends: it does not count.
    pub(super) fn leave_out(&mut self) {
        let Some(step) = self.step.filter(|_| self.current.take().is_some()) else { return };
        // Its place among the first steps stays.
        if self.first.len() < FIRST {
            self.first.push(Sums::default());
        }
        if self.left_out.len() >= LEFT_OUT {
            self.left_out.pop_front();
        }
        self.left_out.push_back(step);
    }

    /// Takes the next event, which is one of the steps' own if `is_own`. Memory is the process's: what one thread allocates another
    /// may free.
    pub(super) fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>, is_own: bool) {
        scope.memory().iter().for_each(|change| self.holds(change, is_own));
        if let Some(operation) = scope.operation_at_any_time() {
            let is_launch = matches!(operation.what, Action::Kernel { .. } | Action::Graph { .. });
            let is_launch = is_launch && operation.when != When::Captured;
            self.launches += u64::from(is_launch);
            if is_own {
                self.launches_now += u64::from(is_launch);
                self.operation(operation);
            }
        }
        if let Some(current) = self.current.as_mut()
            && matches!(event.record.body, Body::Synchronize(_))
            && event.call.is_some()
            && scope.call()
            && is_own
        {
            current.syncs += 1;
        }
    }

    /// Kernel and graph launches, in steps or not.
    pub(super) fn launches(&self) -> u64 {
        self.launches
    }

    /// Returns what a step contains after the warm-up, which ends before step `warm_up`, if its mean time is `mean` ns.
    pub(super) fn finish(mut self, warm_up: u64, mean: Option<f64>) -> Filled {
        // The last step is not over, and its end is not known.
        self.current = None;
        while let Some((start, (end, step))) = self.order.pop() {
            self.busy(start, end, step);
        }
        let mut all = self.rest;
        let skipped = warm_up.saturating_sub(self.from.unwrap_or(0));
        self.first.iter().skip(skipped as usize).for_each(|sums| all.add(sums));
        let per_step = |sum: u64| sum as f64 / all.steps.max(1) as f64;
        let is_known = all.untimed as f64 <= UNTIMED * all.operations as f64;
        let mean = mean.unwrap_or(0.0);
        let busy = per_step(all.busy).min(mean);
        let contents = Contents {
            busy,
            idle: mean - busy,
            copies: per_step(all.copies),
            copied_bytes: per_step(all.copied_bytes),
            syncs: per_step(all.syncs),
            allocations: per_step(all.allocations),
            allocated_bytes: per_step(all.allocated_bytes),
            growth_bytes: self.growth.per_step(warm_up),
            ..Contents::default()
        };
        let steady = warm_up.max(self.from.unwrap_or(0))..self.to;
        Filled {
            is_busy_known: is_known,
            steady,
            warm_up: skipped,
            launches: self.launches_of.quantile(0.5).unwrap_or(0),
            contents,
        }
    }

    fn over(&mut self) {
        let launches = std::mem::take(&mut self.launches_now);
        let Some(sums) = self.current.take() else { return };
        self.launches_of.add(launches);
        self.to = self.step.map_or(0, |step| step + 1);
        let sums = Sums { steps: 1, ..sums };
        if self.first.len() < FIRST {
            self.first.push(sums);
        } else {
            self.rest.add(&sums);
        }
    }

    fn operation(&mut self, operation: &Operation) {
        if operation.when == When::Captured {
            return;
        }
        let is_member = matches!(operation.when, When::Untimed { after: None, .. });
        if let Some(current) = self.current.as_mut() {
            if !matches!(operation.what, Action::Burst { .. }) {
                current.operations += 1;
                let is_untimed = matches!(operation.when, When::Untimed { .. }) && !is_member;
                current.untimed += u64::from(is_untimed);
            }
            if let Some((_, _, bytes)) = operation.what.moved() {
                current.copies += 1;
                current.copied_bytes = current.copied_bytes.saturating_add(bytes);
            }
        }
        if let When::Timed(interval) = operation.when {
            let step = self.step.filter(|_| self.current.is_some());
            if let Some((start, (end, step))) = self.order.push(interval.start, (interval.end, step)) {
                self.busy(start, end, step);
            }
        }
    }

    /// Counts the time of an operation in which no earlier one was running.
    fn busy(&mut self, start: i64, end: i64, step: Option<u64>) {
        let ns = end.saturating_sub(start.max(self.busy_until)).max(0) as u64;
        self.busy_until = self.busy_until.max(end);
        let Some(step) = step else { return };
        let is_current = self.step == Some(step);
        let sums = match self.current.as_mut().filter(|_| is_current) {
            Some(current) => current,
            // A step that is not over does not count, so neither does what it contains.
            None if step >= self.to || self.left_out.contains(&step) => return,
            None => {
                let at = step.saturating_sub(self.from.unwrap_or(0)) as usize;
                self.first.get_mut(at).unwrap_or(&mut self.rest)
            }
        };
        sums.busy = sums.busy.saturating_add(ns);
    }

    fn holds(&mut self, change: &MemoryChange, is_own: bool) {
        if !is_device_memory(change.memory()) {
            return;
        }
        let (mut blocks, mut allocated) = (0, 0);
        match *change {
            MemoryChange::Allocated { bytes, .. } => {
                self.live = self.live.saturating_add(bytes);
                (blocks, allocated) = (1, bytes);
            }
            MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => {
                self.live = self.live.saturating_sub(bytes);
            }
            MemoryChange::FreeFailed { bytes, .. } => self.live = self.live.saturating_add(bytes),
            MemoryChange::Passed { blocks: passed, bytes, .. } => (blocks, allocated) = (passed, bytes),
        }
        if let Some(current) = self.current.as_mut().filter(|_| is_own) {
            current.allocations += blocks;
            current.allocated_bytes = current.allocated_bytes.saturating_add(allocated);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::scope::Selected;
    use crate::model::filter::{Filter, RecordFilter};
    use crate::model::memory::Allocator;
    use crate::model::period::CaptureRanges;
    use crate::model::simulation::{exactly, operation};
    use crate::trace::record::{Context, Names, Record};
    use gpuspy_wire::record::{LossCause, Memory};

    const KERNEL: Action = Action::Kernel { name: 1, communication: false };

    fn launch(filling: &mut Filling, at: i64) {
        let timed = Operation { when: When::Timed(exactly(at, at + 10)), ..operation(KERNEL, (0, 1)) };
        filling.operation(&timed);
    }

    /// Twenty steps of a thousand kernels were busy for 5 % too long: the operations of the last one, which are put in order
    /// when all steps are over, were added to those that count.
    #[test]
    fn the_last_step_adds_no_busy_time_to_the_others() {
        for (kernels, in_the_last) in [(1_000, 1_000), (1_000, 10_000), (1, 3)] {
            let (mut filling, mut at) = (Filling::default(), 0);
            for step in 0..20 {
                filling.began(step, true);
                for _ in 0..if step == 19 { in_the_last } else { kernels } {
                    launch(&mut filling, at);
                    at += 20;
                }
            }
            let mean = 20.0 * kernels as f64;
            let filled = filling.finish(2, Some(mean));
            assert_eq!((filled.contents.busy, filled.contents.idle), (mean / 2.0, mean / 2.0));
            assert_eq!(filled.steady, 2..19);
        }
    }

    /// With `--device 0`, the allocations of all GPUs were shown.
    #[test]
    fn steps_have_the_allocations_that_pass_the_filter() {
        let (names, filter) = (Names::default(), Filter { devices: vec![0], ..Filter::default() });
        let mut records = RecordFilter::new(&filter, &names, None, 0, &CaptureRanges::default());
        let mut observe = |filling: &mut Filling, body: Body, memory: Vec<MemoryChange>| {
            let record = Record { thread: 1, at: 1, body };
            let event = Event { memory, ..Event::new(&record) };
            let selected = Selected::of(&mut records, &event);
            filling.observe(&event, &Scope::of(&event, &selected), true);
        };
        let mut filling = Filling::default();
        for device in [0, 1] {
            let context = Context { context: device + 1, device, handle: 1, destroyed: false };
            observe(&mut filling, Body::Context(context), Vec::new());
        }
        for step in 0..4 {
            filling.began(step, true);
            for context in [1, 2] {
                let of = Allocator { context, thread: 1, stream: None, caller: 0, correlation: 0 };
                let change = MemoryChange::Allocated { memory: Memory::Device, bytes: 100, of };
                observe(&mut filling, Body::Loss { cause: LossCause::RingFull, count: 0 }, vec![change]);
            }
        }
        let contents = filling.finish(0, None).contents;
        assert_eq!(
            (contents.allocations, contents.allocated_bytes, contents.growth_bytes),
            (1.0, 100.0, 100.0)
        );
    }

    /// With `--step`, the growth was that of all steps of the run.
    #[test]
    fn memory_grows_by_what_the_selected_steps_add() {
        for selected in [10..14, 10..11] {
            let mut filling = Filling::default();
            for step in 0..20 {
                let counts = selected.contains(&step);
                filling.began(step, counts);
                let (memory, bytes) = (Memory::Device, if counts { 100 } else { 5_000 });
                filling.holds(&MemoryChange::Allocated { memory, bytes, of: Allocator::default() }, true);
            }
            assert_eq!(filling.finish(0, None).contents.growth_bytes, 100.0, "{selected:?}");
        }
    }
}

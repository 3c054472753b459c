//! When did the first operation of each step start on the GPU?
//!
//! An operation with a GPU time of its own says it. On a deep stream most launches are timed together, as a run: then the
//! start of a launch inside lies between those of its neighbours that are known, and is taken to be at its place among
//! them. That is wrong by less than a run lasts.

use crate::hash::HashMap;
use crate::model::{Action, Operation, When};
use std::collections::VecDeque;

/// The most steps that wait for the record of their run. A run has at most some thousand launches.
const MOST_WAITING: usize = 16 * 1024;

/// When a step began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Its number.
    pub step: u64,
    /// Host ns at which it began on the host.
    pub host: u64,
    /// Host ns on the line at which its first operation started on the GPU, if that is known.
    pub gpu: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
enum Gpu {
    /// No operation has come yet, or the run's record.
    Waiting,
    Known(Option<i64>),
}

/// A run whose record has not come yet.
#[derive(Clone, Debug, Default)]
struct Run {
    launches: u64,
    /// Launches in it that were timed alone as well: their place and start.
    timed: Vec<(u64, i64)>,
    /// Steps that began in it, and the place of their first launch.
    began: Vec<(u64, u64)>,
}

/// The starts of steps, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    waiting: VecDeque<(Start, Gpu)>,
    /// Whether the last step's first operation has not come yet.
    is_open: bool,
    /// By context and stream.
    runs: HashMap<(u32, u64), Run>,
}

impl Starts {
    /// A step began on the host.
    pub(super) fn began(&mut self, step: u64, host: u64) {
        if self.is_open
            && let Some(last) = self.waiting.back_mut()
        {
            last.1 = Gpu::Known(None);
        }
        self.waiting.push_back((Start { step, host, gpu: None }, Gpu::Waiting));
        self.is_open = true;
    }

    /// Takes the next operation of the trace.
    pub(super) fn operation(&mut self, operation: &Operation, is_drawn: bool) {
        let stream = (operation.context, operation.stream);
        if matches!(operation.what, Action::Burst { .. }) {
            if let Some(run) = self.runs.remove(&stream) {
                self.ended(&run, operation);
            }
            return;
        }
        let first = if self.is_open { self.waiting.back().map(|(start, _)| start.step) } else { None };
        match operation.when {
            When::Captured => return,
            When::Timed(interval) => {
                // One before the run's first launch is not in it, and may have started long before it.
                if is_drawn && let Some(run) = self.runs.get_mut(&stream) {
                    run.timed.push((run.launches, interval.start));
                    run.launches += 1;
                }
                first.into_iter().for_each(|step| self.known(step, Some(interval.start)));
            }
            When::Untimed { after: None, .. } => {
                let run = self.runs.entry(stream).or_default();
                first.into_iter().for_each(|step| run.began.push((step, run.launches)));
                run.launches += 1;
            }
            When::Untimed { .. } => first.into_iter().for_each(|step| self.known(step, None)),
        }
        self.is_open = false;
    }

    /// Returns the next start, once it is known when it was on the GPU, or that nobody knows.
    pub(super) fn next(&mut self) -> Option<Start> {
        let is_too_long = self.waiting.len() > MOST_WAITING;
        let gpu = match self.waiting.front()?.1 {
            Gpu::Known(gpu) => gpu,
            Gpu::Waiting if is_too_long => None,
            Gpu::Waiting => return None,
        };
        self.waiting.pop_front().map(|(start, _)| Start { gpu, ..start })
    }

    /// Ends the fold: what was not known by now is not known.
    pub(super) fn end(&mut self) {
        for (_, gpu) in self.waiting.iter_mut().filter(|(_, gpu)| matches!(gpu, Gpu::Waiting)) {
            *gpu = Gpu::Known(None);
        }
    }

    fn ended(&mut self, run: &Run, operation: &Operation) {
        let When::Timed(interval) = operation.when else {
            return run.began.iter().for_each(|(step, _)| self.known(*step, None));
        };
        for (step, place) in &run.began {
            let after = run.timed.partition_point(|(at, _)| at <= place);
            let from = after.checked_sub(1).map_or((0, interval.start), |at| run.timed[at]);
            let to = run.timed.get(after).copied().unwrap_or((run.launches, interval.end));
            let share = (place - from.0) as f64 / (to.0 - from.0).max(1) as f64;
            let start = from.1 + ((to.1 - from.1).max(0) as f64 * share) as i64;
            self.known(*step, Some(start));
        }
    }

    fn known(&mut self, step: u64, gpu: Option<i64>) {
        let at = self.waiting.binary_search_by_key(&step, |(start, _)| start.step);
        if let Ok(at) = at {
            self.waiting[at].1 = Gpu::Known(gpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Reason, simulation};
    use gpuspy_wire::record::Untimed;

    /// After a while in which each launch was timed alone, the first run was taken to begin with the launch before that while: a
    /// step in it started too early, which took 0 ns, and the next one too long.
    #[test]
    fn a_launch_that_was_timed_alone_long_before_a_run_is_not_in_it() {
        let kernel = Action::Kernel { name: 1, communication: false };
        let timed = |what, start, end| Operation {
            when: When::Timed(simulation::exactly(start, end)),
            ..simulation::operation(what, (0, 0))
        };
        let mut starts = Starts::default();
        starts.operation(&timed(kernel, 0, 100), true);
        starts.operation(&timed(kernel, 10_000, 10_100), false);
        let reason = Reason::Untimed(Untimed::Run);
        let when = When::Untimed { reason, after: None };
        for step in 0..4 {
            starts.began(step, step);
            starts.operation(&Operation { when, ..simulation::operation(kernel, (0, 0)) }, false);
        }
        let run = Action::Burst { launches: 4, ordinary: 4, communication: false };
        starts.operation(&timed(run, 10_100, 10_500), false);
        let gpu: Vec<_> = std::iter::from_fn(|| starts.next()).map(|start| start.gpu).collect();
        assert_eq!(gpu, [10_100, 10_200, 10_300, 10_400].map(Some));
    }
}

//! How much work did the legacy default stream and other streams do in turns, that could have run at the same time?
//!
//! Work on the legacy default stream starts when all work before it on the blocking streams of its context is done, and
//! their next work starts when it is done (CUDA Programming Guide, "Implicit Synchronization"). So the two sides take
//! **turns**: a turn is all work of one side until work of the other side is called.
//!
//! Two turns count as a pair if nothing else orders them: no wait of the host, no copy that the host waits for, and no
//! wait of a stream for an event lies in them or between them. In a pair, a copy could run beside the kernels of the other
//! side. Kernels could run beside each other if both have few enough blocks that each block gets a multiprocessor.

use super::analysis::{Analysis, End, Start};
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use super::source::Lines;
use crate::hash::{HashMap, HashSet};
use crate::model::transfer::blocks_host;
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::{Body, What, Work};
use gpuspy_wire::record::flag;

/// `CU_STREAM_NON_BLOCKING` (cuda.h): a stream without the order of the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// The most streams that are told apart.
const MOST: usize = 64;

/// What the two sides did in turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Pairs of turns.
    pub pairs: u64,
    /// Of them, those all work of which was timed.
    pub timed: u64,
    /// In the timed ones: the time of copies that could have run beside kernels, ns.
    pub copies: Sum,
    /// In the timed ones: the time of kernels that could have run beside other kernels, ns. Its value counts those that
    /// have few enough blocks; its hi counts all.
    pub kernels: Sum,
    /// The streams of the other side.
    pub streams: HashSet<(u32, u64)>,
    /// ns from the start of the collection to the first pair; `None` without one.
    pub first: Option<u64>,
    /// The lines that begin the turns of the legacy default stream, by the number of pairs.
    pub lines: Lines,
}

impl Merge for Turns {
    fn merge(&mut self, other: &Turns) {
        self.pairs += other.pairs;
        self.timed += other.timed;
        self.copies.add(other.copies);
        self.kernels.add(other.kernels);
        self.streams.extend(&other.streams);
        self.first = self.first.into_iter().chain(other.first).min();
        self.lines.merge(&other.lines);
    }
}

/// One side's turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    is_legacy: bool,
    /// The number of the line of its first call.
    line: u32,
    /// When its first call was entered: host ns.
    began: u64,
    /// Whether some of its work was not timed.
    is_partly_timed: bool,
    /// The time of its kernels and graphs, ns.
    kernels: u64,
    /// The time of its copies and memsets, ns.
    copies: u64,
    /// The most blocks of a launch.
    blocks: u64,
}

/// The turns of a context that are not over.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The turn that has no partner yet.
    before: Option<Turn>,
    current: Option<Turn>,
    multiprocessors: u64,
}

/// The analysis. Its size grows with the number of streams that exist.
#[derive(Debug)]
pub struct LegacyTurns {
    began: u64,
    non_blocking: HashSet<(u32, u64)>,
    contexts: HashMap<u32, Open>,
    multiprocessors: HashMap<u32, u64>,
    found: Turns,
    /// The pairs whose legacy side begins at each line.
    lines: HashMap<u32, u64>,
}

impl<'a> Analysis<'a> for LegacyTurns {
    type Rows = Turns;

    fn new(start: &Start<'a>) -> Self {
        LegacyTurns {
            began: start.began,
            non_blocking: HashSet::default(),
            contexts: HashMap::default(),
            multiprocessors: HashMap::default(),
            found: Turns::default(),
            lines: HashMap::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        match &event.record.body {
            Body::Device(device) => {
                self.multiprocessors.insert(device.ordinal, device.multiprocessors.into());
            }
            Body::Stream(stream) if stream.destroyed => {
                self.non_blocking.remove(&(stream.context, stream.stream));
            }
            Body::Stream(stream) if stream.flags & NON_BLOCKING != 0 => {
                self.non_blocking.insert((stream.context, stream.stream));
            }
            Body::Context(context) if context.destroyed => {
                self.contexts.remove(&context.context);
            }
            Body::EventWait(wait) => self.ordered(wait.call.context),
            Body::Synchronize(sync) => self.ordered(sync.call.context),
            Body::Work(work) => {
                let Some(operation) = scope.operation() else { return };
                self.work(work, operation);
            }
            _ => {}
        }
    }

    fn finish(mut self, end: &End<'_>) -> Turns {
        let contexts: Vec<u32> = self.contexts.keys().copied().collect();
        contexts.into_iter().for_each(|context| self.ordered(context));
        let mut found = self.found;
        self.lines.into_iter().for_each(|(line, pairs)| found.lines.add(end.line_of(line), pairs));
        found
    }
}

impl LegacyTurns {
    fn work(&mut self, work: &Work, operation: &Operation) {
        let stream = (operation.context, operation.stream);
        let is_legacy = work.call.flags & flag::LEGACY_STREAM != 0;
        let is_burst = matches!(operation.what, Action::Burst { .. });
        let is_other = !is_legacy && self.non_blocking.contains(&stream);
        if is_burst || is_other || operation.when == When::Captured {
            return;
        }
        let device = operation.device.and_then(|device| self.multiprocessors.get(&device));
        let open = self.contexts.entry(operation.context).or_default();
        open.multiprocessors = device.copied().unwrap_or(0);
        if open.current.is_none_or(|turn| turn.is_legacy != is_legacy) {
            let line = operation.caller.line;
            let new = Turn { is_legacy, line, began: operation.called, ..Turn::default() };
            let ended = open.current.replace(new);
            if let (Some(before), Some(ended)) = (open.before.take(), ended) {
                self.found.add(&before, &ended, open.multiprocessors, self.began);
                *self.lines.entry(legacy_line(&before, &ended)).or_default() += 1;
            } else {
                open.before = ended;
            }
            if !is_legacy && self.found.streams.len() < MOST {
                self.found.streams.insert(stream);
            }
        }
        if let Some(turn) = &mut open.current {
            turn.add(work, operation);
        }
        if blocks_host(work.call.flags, operation.what.moved()) {
            self.ordered(operation.context);
        }
    }

    /// What comes next in a context is ordered behind what came before by the program itself.
    fn ordered(&mut self, context: u32) {
        let Some(open) = self.contexts.get_mut(&context) else { return };
        if let (Some(before), Some(current)) = (open.before.take(), open.current.take()) {
            self.found.add(&before, &current, open.multiprocessors, self.began);
            *self.lines.entry(legacy_line(&before, &current)).or_default() += 1;
        }
    }
}

/// Returns where the turn of the legacy default stream begins in a pair.
fn legacy_line(one: &Turn, other: &Turn) -> u32 {
    if one.is_legacy { one.line } else { other.line }
}

impl Turn {
    fn add(&mut self, work: &Work, operation: &Operation) {
        let When::Timed(interval) = operation.when else {
            self.is_partly_timed = true;
            return;
        };
        match operation.what {
            Action::Transfer { .. } => self.copies = self.copies.saturating_add(interval.value()),
            _ => self.kernels = self.kernels.saturating_add(interval.value()),
        }
        let blocks = match work.what {
            What::Kernel { grid, .. } => grid.into_iter().map(u64::from).fold(1, u64::saturating_mul),
            What::Graph { .. } => u64::MAX,
            _ => 0,
        };
        self.blocks = self.blocks.max(blocks);
    }
}

impl Turns {
    fn add(&mut self, one: &Turn, other: &Turn, multiprocessors: u64, began: u64) {
        self.pairs += 1;
        self.first = self.first.or(Some(one.began.saturating_sub(began)));
        if one.is_partly_timed || other.is_partly_timed {
            return;
        }
        self.timed += 1;
        let (ours, theirs) = (one.kernels.min(other.copies), other.kernels.min(one.copies));
        let copies = ours.saturating_add(theirs);
        self.copies.add(Sum { value: copies, lo: 0, hi: copies });
        let kernels = (one.kernels - ours).min(other.kernels - theirs);
        let is_room = one.blocks.saturating_add(other.blocks) <= multiprocessors;
        self.kernels.add(Sum { value: if is_room { kernels } else { 0 }, lo: 0, hi: kernels });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(kernels: u64, copies: u64, blocks: u64) -> Turn {
        Turn { kernels, copies, blocks, ..Turn::default() }
    }

    fn pair(one: Turn, other: Turn) -> (u64, u64, u64) {
        let mut turns = Turns::default();
        turns.add(&one, &other, 132, 0);
        (turns.copies.value, turns.kernels.value, turns.kernels.hi)
    }

    #[test]
    fn kernels_overlap_if_both_have_room_and_copies_overlap_kernels() {
        assert_eq!(pair(turn(100, 0, 66), turn(300, 0, 66)), (0, 100, 100));
        assert_eq!(pair(turn(100, 0, 66), turn(300, 0, 67)), (0, 0, 100), "there is no room for both");
        assert_eq!(pair(turn(100, 0, 500), turn(0, 80, 0)), (80, 0, 0));
        assert_eq!(pair(turn(0, 100, 0), turn(0, 80, 0)), (0, 0, 0), "copies share the bus");
        assert_eq!(pair(turn(200, 0, 1), turn(100, 100, 1)), (100, 100, 100));
    }

    #[test]
    fn a_pair_that_was_not_timed_whole_is_only_counted() {
        let mut turns = Turns::default();
        let partly = Turn { is_partly_timed: true, ..turn(100, 0, 1) };
        turns.add(&partly, &turn(100, 0, 1), 132, 0);
        assert_eq!((turns.pairs, turns.timed, turns.kernels.hi), (1, 0, 0));
    }
}

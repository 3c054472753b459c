//! Analytic time: the start and end of each piece of work, computed as soon as those of its predecessors are known.
//!
//! The module is pure: it reads no clock. A task starts when it has been submitted, all its predecessors have ended and
//! its lane (a copy engine) has room; it ends a fixed length later. A *gate* ends when the program or another process
//! opens it; work after a closed gate waits here. Work whose times are known at submission is not stored.

use crate::clocks::Ns;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A task whose end was not known when it was submitted.
#[derive(Debug)]
pub struct Node {
    id: u64,
    /// Host ns, or [`Node::OPEN`]. Written under the simulator's lock; it pairs only with itself.
    end: AtomicU64,
}

impl Node {
    const OPEN: Ns = Ns::MAX;
}

/// When a piece of work is done.
#[derive(Clone, Debug)]
pub enum Done {
    /// It ends at this host time, which may be in the future.
    At(Ns),
    /// It waits for a gate.
    When(Arc<Node>),
}

impl Done {
    /// Returns the end, if it is known.
    pub fn end(&self) -> Option<Ns> {
        match self {
            Self::At(end) => Some(*end),
            Self::When(node) => Some(node.end.load(Ordering::Relaxed)).filter(|&end| end != Node::OPEN),
        }
    }

    /// It is done by `now`.
    pub fn by(&self, now: Ns) -> bool {
        self.end().is_some_and(|end| end <= now)
    }
}

/// How long a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// ns.
    Fixed(Ns),
    /// Until [`Engine::open`].
    Gate,
}

/// A task to be scheduled.
#[derive(Debug)]
pub struct Task<P> {
    /// Host ns from which it can start.
    pub submit: Ns,
    /// How long it takes.
    pub length: Length,
    /// The lane that runs one task at a time, if any.
    pub lane: Option<usize>,
    /// The data that is returned with its times.
    pub payload: P,
}

/// Times that became known, in an order in which every task follows its predecessors.
#[derive(Debug)]
pub enum Known<P> {
    /// A task of fixed length has its times.
    Scheduled {
        /// The task's.
        payload: P,
        /// Submitted and at the head of its stream, host ns.
        head: Ns,
        /// Start, host ns.
        start: Ns,
        /// End, host ns.
        end: Ns,
    },
    /// A gate's turn comes at `head`.
    Reached {
        /// The task's.
        payload: P,
        /// Submitted and at the head of its stream, host ns.
        head: Ns,
        /// What opens it.
        gate: Arc<Node>,
    },
}

#[derive(Debug)]
struct Waiting<P> {
    task: Task<P>,
    missing: usize,
    head: Ns,
    node: Arc<Node>,
}

/// The schedule.
#[derive(Debug)]
pub struct Engine<P> {
    next: u64,
    waiting: HashMap<u64, Waiting<P>>,
    behind: HashMap<u64, Vec<u64>>,
    lanes: HashMap<usize, VecDeque<(Ns, Ns)>>,
}

impl<P> Default for Engine<P> {
    fn default() -> Self {
        Self { next: 0, waiting: HashMap::new(), behind: HashMap::new(), lanes: HashMap::new() }
    }
}

impl<P> Engine<P> {
    /// Adds a task after `predecessors`, and appends the times that become known to `known`.
    pub fn add(&mut self, predecessors: &[Done], task: Task<P>, known: &mut Vec<Known<P>>) -> Done {
        let mut head = task.submit;
        let mut missing = 0;
        for done in predecessors {
            match done.end() {
                Some(end) => head = head.max(end),
                None => missing += 1,
            }
        }
        if missing == 0 {
            return self.place(task, head, None, known);
        }
        let node = self.node();
        for done in predecessors {
            if let Done::When(gate) = done
                && done.end().is_none()
            {
                self.behind.entry(gate.id).or_default().push(node.id);
            }
        }
        self.waiting.insert(node.id, Waiting { task, missing, head, node: node.clone() });
        Done::When(node)
    }

    /// Opens a gate at `at`, and schedules the tasks that waited for it.
    pub fn open(&mut self, gate: &Arc<Node>, at: Ns, known: &mut Vec<Known<P>>) {
        gate.end.store(at, Ordering::Relaxed);
        let mut ended = VecDeque::from([(gate.id, at)]);
        while let Some((id, end)) = ended.pop_front() {
            for behind in self.behind.remove(&id).unwrap_or_default() {
                let Some(waiting) = self.waiting.get_mut(&behind) else { continue };
                waiting.head = waiting.head.max(end);
                waiting.missing -= 1;
                if waiting.missing > 0 {
                    continue;
                }
                let Some(ready) = self.waiting.remove(&behind) else { continue };
                let done = self.place(ready.task, ready.head, Some(ready.node), known);
                if let Some(end) = done.end() {
                    ended.push_back((behind, end));
                }
            }
        }
    }

    /// Removes the tasks that wait for closed gates and will never run.
    pub fn abandon(&mut self) -> Vec<P> {
        self.behind.clear();
        self.waiting.drain().map(|(_, waiting)| waiting.task.payload).collect()
    }

    /// Tasks that wait for a closed gate.
    pub fn blocked(&self) -> usize {
        self.waiting.len()
    }

    fn node(&mut self) -> Arc<Node> {
        self.next += 1;
        Arc::new(Node { id: self.next, end: AtomicU64::new(Node::OPEN) })
    }

    fn place(&mut self, task: Task<P>, head: Ns, node: Option<Arc<Node>>, known: &mut Vec<Known<P>>) -> Done {
        let Task { submit, length, lane, payload } = task;
        match length {
            Length::Gate => {
                let gate = node.unwrap_or_else(|| self.node());
                known.push(Known::Reached { payload, head, gate: gate.clone() });
                Done::When(gate)
            }
            Length::Fixed(length) => {
                let start = match lane {
                    Some(lane) => reserve(self.lanes.entry(lane).or_default(), submit, head, length),
                    None => head,
                };
                let end = start + length;
                if let Some(node) = &node {
                    node.end.store(end, Ordering::Relaxed);
                }
                known.push(Known::Scheduled { payload, head, start, end });
                node.map_or(Done::At(end), Done::When)
            }
        }
    }
}

/// Returns the first gap of a lane after `head` that has the length `length`. Tasks that ended before `now` no longer
/// matter.
fn reserve(lane: &mut VecDeque<(Ns, Ns)>, now: Ns, head: Ns, length: Ns) -> Ns {
    while lane.front().is_some_and(|&(_, end)| end <= now) {
        lane.pop_front();
    }
    let mut start = head;
    let mut position = lane.len();
    for (index, &(busy, free)) in lane.iter().enumerate() {
        if start + length <= busy {
            position = index;
            break;
        }
        start = start.max(free);
    }
    lane.insert(position, (start, start + length));
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &'static str, submit: Ns, length: Length) -> Task<&'static str> {
        Task { submit, length, lane: None, payload: name }
    }

    fn times(known: &[Known<&'static str>]) -> Vec<(&'static str, Ns, Ns, Ns)> {
        let scheduled = |known: &Known<&'static str>| match known {
            Known::Scheduled { payload, head, start, end } => Some((*payload, *head, *start, *end)),
            Known::Reached { .. } => None,
        };
        known.iter().filter_map(scheduled).collect()
    }

    #[test]
    fn a_task_starts_when_submitted_and_its_predecessor_has_ended() {
        let (mut engine, mut known) = (Engine::default(), Vec::new());
        let a = engine.add(&[], task("a", 100, Length::Fixed(50)), &mut known);
        let b = engine.add(std::slice::from_ref(&a), task("b", 110, Length::Fixed(5)), &mut known);
        engine.add(&[b], task("c", 500, Length::Fixed(1)), &mut known);
        assert_eq!(times(&known), [("a", 100, 100, 150), ("b", 150, 150, 155), ("c", 500, 500, 501)]);
        assert!(a.by(150) && !a.by(149));
        assert_eq!(engine.blocked(), 0);
    }

    #[test]
    fn work_after_a_gate_is_scheduled_when_the_gate_opens() {
        let (mut engine, mut known) = (Engine::default(), Vec::new());
        let gate = engine.add(&[], task("gate", 10, Length::Gate), &mut known);
        let b = engine.add(std::slice::from_ref(&gate), task("b", 20, Length::Fixed(5)), &mut known);
        let free = engine.add(&[], task("free", 20, Length::Fixed(1000)), &mut known);
        let join = engine.add(&[b.clone(), free], task("join", 30, Length::Fixed(0)), &mut known);
        let second = engine.add(std::slice::from_ref(&join), task("second", 40, Length::Gate), &mut known);
        assert_eq!((gate.end(), b.end(), join.end()), (None, None, None));
        assert_eq!(engine.blocked(), 3);
        let Some(Known::Reached { head: 10, gate: handle, .. }) = known.first() else { panic!("{known:?}") };
        let handle = handle.clone();
        known.clear();
        engine.open(&handle, 700, &mut known);
        assert_eq!(times(&known), [("b", 700, 700, 705), ("join", 1020, 1020, 1020)]);
        assert!(matches!(known.last(), Some(Known::Reached { payload: "second", head: 1020, .. })));
        assert_eq!((b.end(), join.end(), second.end()), (Some(705), Some(1020), None));
    }

    #[test]
    fn a_gate_named_twice_is_waited_for_once() {
        let (mut engine, mut known) = (Engine::default(), Vec::new());
        let gate = engine.add(&[], task("gate", 0, Length::Gate), &mut known);
        let after = engine.add(&[gate.clone(), gate], task("after", 0, Length::Fixed(1)), &mut known);
        let Some(Known::Reached { gate, .. }) = known.pop() else { panic!("the gate is reached") };
        engine.open(&gate, 9, &mut known);
        assert_eq!(after.end(), Some(10));
    }

    #[test]
    fn a_lane_runs_one_task_at_a_time_and_fills_gaps() {
        let (mut engine, mut known) = (Engine::default(), Vec::new());
        let copy =
            |submit, length| Task { submit, length: Length::Fixed(length), lane: Some(0), payload: "" };
        let kernel = engine.add(&[], task("kernel", 0, Length::Fixed(1000)), &mut known);
        let late = engine.add(std::slice::from_ref(&kernel), copy(1, 100), &mut known);
        let early = engine.add(&[], copy(2, 100), &mut known);
        let next = engine.add(&[], copy(3, 950), &mut known);
        assert_eq!(late.end(), Some(1100), "behind the kernel");
        assert_eq!(early.end(), Some(102), "in the gap before it");
        assert_eq!(next.end(), Some(2050), "too long for the gap");
    }
}

//! What did a process launch last, and which operation did its GPUs not end?
//!
//! Of a job that [stopped](super::ranks::stopped), this tells the ranks that wait in a collective from those for which they wait. An operation
//! counts as not ended if its end was looked for: it has events, and the last one had not come when the collection ended. In a
//! pause of `--timing auto` operations have none. There, a collective counts as not ended if nothing shows that it is over, which is
//! [known](Unended::is_known) if a thread was [blocked](blocked_since) in a call to the end.

use super::analysis::{Analysis, End, Start};
use super::scope::Scope;
use super::timeline::completed;
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::hangs::blocked_since;
use crate::model::stacks::Frame;
use crate::model::{Action, Drained, Event, Operation, Reason, When};
use crate::trace::record::Names;
use gpuspy_wire::record::{Namespace, Untimed};

/// The end of a process's work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWork {
    /// The last operation that it launched.
    pub launched: Option<Launched>,
    /// The operation that its GPUs did not end: a collective if there is one, and else the one that was pending for longest.
    pub unended: Option<Unended>,
}

/// The last operation of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Launched {
    /// What it is.
    pub work: Work,
    /// The line of the program; `None` if it is not known.
    pub line: Option<Frame>,
    /// The id of the thread in the system.
    pub tid: Option<u32>,
    /// How long before the end of the collection its call returned, ns.
    pub ago: u64,
}

/// An operation that did not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Unended {
    /// What it is.
    pub work: Work,
    /// How long no GPU of the process has completed anything while it was pending, ns.
    pub ns: u64,
    /// Whether it is known not to have ended. Otherwise the process launched nothing more after it.
    pub is_known: bool,
}

/// What an operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A communication kernel, by its symbol.
    Collective(String),
    /// Another kernel, by its symbol.
    Kernel(String),
    /// A graph.
    Graph,
    /// A copy or a memset.
    Transfer,
}

/// The same, by the number of the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Kernel { name: u32, communication: bool },
    Graph,
    Transfer,
}

/// An operation that is not known to be over.
#[derive(Clone, Copy, Debug)]
struct Open {
    what: What,
    called: u64,
    returned: u64,
}

/// A launch.
#[derive(Clone, Copy, Debug)]
struct Last {
    what: What,
    line: u32,
    thread: u32,
    returned: u64,
}

/// The analysis.
#[derive(Debug, Default)]
pub struct LastFold {
    last: Option<Last>,
    /// By context and stream: the first operation of which the events had not come.
    open: HashMap<(u32, u64), Open>,
    /// The first collective in a pause that nothing shows to be over, with its context and stream.
    paused: Option<((u32, u64), Open)>,
    /// When the last operation ended that was timed: host ns on the line.
    ended: Option<i64>,
}

impl What {
    fn of(action: Action) -> Option<What> {
        match action {
            Action::Kernel { name, communication } => Some(What::Kernel { name, communication }),
            Action::Graph { .. } => Some(What::Graph),
            Action::Transfer { .. } => Some(What::Transfer),
            Action::Burst { .. } => None,
        }
    }

    fn named(self, names: &Names) -> Work {
        let symbol = |name| names.get(Namespace::Kernel, name).unwrap_or_default().to_owned();
        match self {
            What::Kernel { name, communication: true } => Work::Collective(symbol(name)),
            What::Kernel { name, communication: false } => Work::Kernel(symbol(name)),
            What::Graph => Work::Graph,
            What::Transfer => Work::Transfer,
        }
    }

    fn is_collective(self) -> bool {
        matches!(self, What::Kernel { communication: true, .. })
    }
}

impl LastFold {
    fn operation(&mut self, operation: &Operation, thread: u32) {
        let &Operation { context, stream, caller, called, returned, .. } = operation;
        let what = What::of(operation.what);
        match operation.when {
            When::Captured => return,
            When::Timed(interval) => {
                self.ended = self.ended.max(Some(interval.end));
                // What came before it on its stream is over.
                self.over(context, Some(stream), called);
            }
            When::Untimed { reason: Reason::Lost, .. } => {
                // The launches of a burst come before it, without events of their own: the last one stands for them.
                let launched = what.or(self.last.map(|last| last.what));
                if let Some(what) = launched {
                    self.open.entry((context, stream)).or_insert(Open { what, called, returned });
                }
            }
            When::Untimed { reason: Reason::Untimed(Untimed::Budget), .. } => {
                if let Some(what) = what.filter(|what| what.is_collective()) {
                    self.paused.get_or_insert(((context, stream), Open { what, called, returned }));
                }
            }
            When::Untimed { .. } => {}
        }
        if let Some(what) = what {
            self.last = Some(Last { what, line: caller.line, thread, returned });
        }
    }

    /// Forgets what is over: the operations on a stream, or on all of a context, whose calls had returned by host ns `until`.
    fn over(&mut self, context: u32, stream: Option<u64>, until: u64) {
        let is_over = |key: &(u32, u64), open: &Open| {
            key.0 == context && stream.is_none_or(|stream| stream == key.1) && open.returned <= until
        };
        self.paused.take_if(|(key, open)| is_over(key, open));
        // Most processes have nothing here until their end.
        if !self.open.is_empty() {
            self.open.retain(|key, open| !is_over(key, open));
        }
    }

    /// Returns what did not end.
    fn unended(&self, end: &End<'_>) -> Option<Unended> {
        let since = |from: u64| host(end.ended).saturating_sub(host(from)).max(0) as u64;
        let pending = |open: &Open| {
            let ended = host(end.ended).saturating_sub(self.ended.unwrap_or(i64::MIN)).max(0) as u64;
            since(open.called).min(ended)
        };
        let open = self.open.values().max_by_key(|open| (open.what.is_collective(), pending(open)));
        if let Some(open) = open {
            return Some(Unended { work: open.what.named(end.names), ns: pending(open), is_known: true });
        }
        let (_, open) = self.paused?;
        let blocked = end.status.and_then(blocked_since);
        let from = blocked.unwrap_or(0).max(self.last?.returned);
        Some(Unended { work: open.what.named(end.names), ns: since(from), is_known: blocked.is_some() })
    }
}

impl<'a> Analysis<'a> for LastFold {
    type Rows = LastWork;

    fn new(_: &Start<'a>) -> Self {
        LastFold::default()
    }

    fn observe(&mut self, event: &Event<'_>, _: &Scope<'_>) {
        if let Some(operation) = &event.operation {
            self.operation(operation, event.record.thread);
        }
        if self.paused.is_some() || !self.open.is_empty() {
            completed(event).for_each(|Drained { context, stream, issued_before, .. }| {
                self.over(context, stream, issued_before);
            });
        }
    }

    fn finish(self, end: &End<'_>) -> LastWork {
        LastWork {
            launched: self.last.map(|last| Launched {
                work: last.what.named(end.names),
                line: end.line_of(last.line),
                tid: end.status.and_then(|status| status.threads.get(&last.thread).copied()),
                ago: end.ended.saturating_sub(last.returned),
            }),
            unended: self.unended(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::*;
    use crate::model::simulation::{exactly, operation};
    use crate::trace::record::{Blocked, Body, Hang, Record, Status};
    use gpuspy_wire::record::LossCause;

    const COMPUTE: Action = Action::Kernel { name: 1, communication: false };
    const REDUCE: Action = Action::Kernel { name: 2, communication: true };
    const LOST: When = When::Untimed { reason: Reason::Lost, after: None };

    fn observe(fold: &mut LastFold, operation: Operation) {
        let record = Record { thread: 3, at: 0, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let event = Event { operation: Some(operation), ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
    }

    /// Returns what did not end of operations on one stream, called at these times, if the collection ended at 9 000 ns.
    fn unended(operations: &[(Action, u64, When)]) -> Option<(Work, u64)> {
        let mut fold = LastFold::default();
        for (what, called, when) in operations {
            observe(&mut fold, Operation { when: *when, ..operation(*what, (*called, *called + 10)) });
        }
        finish_at(fold, 9_000).unended.map(|open| (open.work, open.ns))
    }

    #[test]
    fn a_collective_waits_since_the_gpu_last_ended_something() {
        let ran = When::Timed(exactly(1_000, 3_000));
        let collective = Some((Work::Collective(String::new()), 6_000));
        assert_eq!(unended(&[(COMPUTE, 900, ran), (REDUCE, 950, LOST), (REDUCE, 970, LOST)]), collective);
        let late = Some((Work::Collective(String::new()), 1_000));
        assert_eq!(unended(&[(COMPUTE, 900, ran), (REDUCE, 8_000, LOST)]), late, "not before it was called");
    }

    #[test]
    fn what_is_over_or_was_not_looked_for_is_not_unended() {
        let ran = When::Timed(exactly(1_000, 3_000));
        assert_eq!(unended(&[(REDUCE, 900, LOST), (COMPUTE, 950, ran)]), None, "the stream went on");
        let paused = When::Untimed { reason: Reason::Untimed(Untimed::Budget), after: Some(900) };
        assert_eq!(unended(&[(COMPUTE, 900, paused)]), None);
        let mut fold = LastFold::default();
        observe(&mut fold, Operation { when: LOST, ..operation(REDUCE, (900, 910)) });
        let record = Record { thread: 3, at: 0, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let waited = Drained { context: 1, stream: None, issued_before: 910, by: 2_000 };
        let event = Event { drained: vec![waited], ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
        assert_eq!(finish_at(fold, 9_000).unended, None, "the program waited for it");
    }

    /// The job of a rank that failed while the timing of the others was paused.
    #[test]
    fn in_a_pause_a_collective_is_known_to_be_unended_if_a_thread_is_blocked_to_the_end() {
        let paused = When::Untimed { reason: Reason::Untimed(Untimed::Budget), after: Some(900) };
        let unended = |is_over| {
            let mut fold = LastFold::default();
            observe(&mut fold, Operation { when: paused, ..operation(REDUCE, (900, 910)) });
            let call = Some(Blocked { since: 1_000, ..Blocked::default() });
            let status =
                Status { hangs: vec![Hang { is_over, call, ..Hang::default() }], ..Status::default() };
            let (names, known) = (Names::default(), crate::model::Process::default());
            let line = super::super::Line::default();
            let end =
                End { names: &names, known: &known, pid: None, status: Some(&status), ended: 9_000, line };
            fold.finish(&end).unended.map(|open| (open.ns, open.is_known))
        };
        assert_eq!((unended(false), unended(true)), (Some((8_000, true)), Some((8_090, false))));
    }

    #[test]
    fn a_burst_that_did_not_end_is_named_by_its_launch() {
        let burst = Action::Burst { launches: 1, ordinary: 0, communication: true };
        let within = When::Untimed { reason: Reason::Untimed(Untimed::Run), after: None };
        assert_eq!(
            unended(&[(REDUCE, 1_000, within), (burst, 1_000, LOST)]),
            Some((Work::Collective(String::new()), 8_000))
        );
    }
}

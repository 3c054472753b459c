//! What is an analysis, and what is it given?

use super::Damage;
use super::scope::Scope;
use super::source::Source;
use crate::model::host_time::host;
use crate::model::lost::Lost;
use crate::model::period::Period;
use crate::model::stacks::{Caller, Frame};
use crate::model::thread_times::ThreadTimes;
use crate::model::{self, Event};
use crate::trace::record::{Names, Status};
use std::sync::Arc;

/// One analysis: it takes the events of a process one by one, with bounded state, and returns the rows of one table.
pub trait Analysis<'a>: Sized {
    /// The rows of its table. Tables that add up over processes implement [`Merge`](super::merge::Merge).
    type Rows;

    /// Creates the analysis, before the first event.
    fn new(start: &Start<'a>) -> Self;

    /// Takes the next event, in the trace's order, and what the record filter lets through of it.
    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>);

    /// Returns the rows, after the last event.
    fn finish(self, end: &End<'_>) -> Self::Rows;
}

/// What is known of a process before its first event.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The texts of its trace.
    pub names: &'a Names,
    /// Its last status, if the trace has one.
    pub status: Option<&'a Status>,
    /// What reading the trace lost.
    pub damage: Damage,
    /// When its collection began: host ns.
    pub began: u64,
    /// When its run began, which is when the first of the processes on its machine did: host ns.
    pub origin: u64,
    /// The time that the filter selects.
    pub period: Period,
    /// The time that `--capture-range` recorded, whatever the filter selects of it.
    pub captured: Period,
    /// How long its threads ran.
    pub thread_times: Arc<ThreadTimes>,
    /// When records of it may have been lost.
    pub lost: Lost,
    /// The thread whose steps are the program's; `None`: all of them together have its steps.
    pub steps_of: Option<u32>,
}

/// What is known of a process after its last event.
#[derive(Clone, Copy, Debug)]
pub struct End<'e> {
    /// The texts of its trace.
    pub names: &'e Names,
    /// What the model has learned of it.
    pub known: &'e model::Process,
    /// Its process id, if the trace has a status.
    pub pid: Option<u32>,
    /// Its last status, if the trace has one.
    pub status: Option<&'e Status>,
    /// When its collection ended: host ns.
    pub ended: u64,
    /// The time that the report is about.
    pub line: Line,
}

impl End<'_> {
    /// Returns the path of the library that a code address lies in, if that is known.
    pub fn library(&self, address: u64) -> Option<String> {
        self.known.modules.resolve(address, self.names).map(|site| site.path)
    }

    /// Returns a line of the program, by its number.
    pub fn line_of(&self, number: u32) -> Option<Frame> {
        self.known.stacks.line(number).cloned()
    }

    /// Returns where in the program a call was made.
    pub fn source(&self, caller: Caller) -> Source {
        Source::of(caller, self.known, self.names)
    }
}

/// The time that a report is about. Of several processes on one line it is from the first start to the last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// When the collection began: host ns.
    pub began: u64,
    /// From the start to the end of the collection, ns.
    pub wall_ns: u64,
    /// The first and the last selected moment, ns since the collection began.
    pub period_ns: (u64, u64),
    /// The length of the selected time, ns; of several capture ranges, without the time between them.
    pub looked_ns: u64,
    /// Whether that time is capture ranges (`--capture-range`).
    pub is_captured: bool,
}

impl Line {
    /// The line of a collection between two host ns, of which `period` is selected.
    pub fn of(began: u64, ended: u64, period: &Period) -> Line {
        let wall_ns = ended.saturating_sub(began);
        let (from, to) = period.ends();
        let in_wall = |moment: i64| (moment.saturating_sub(host(began)).max(0) as u64).min(wall_ns);
        Line {
            began,
            wall_ns,
            period_ns: (in_wall(from), in_wall(to)),
            looked_ns: period.length(host(began), host(ended)),
            is_captured: period.is_span(),
        }
    }

    /// Returns when the collection ended: host ns.
    pub fn ended(&self) -> u64 {
        self.began.saturating_add(self.wall_ns)
    }
}

#[cfg(test)]
impl<'a> Start<'a> {
    /// A process of which nothing is known but its texts.
    pub fn of(names: &'a Names) -> Start<'a> {
        let (period, captured) = (Period::default(), Period::default());
        let (damage, thread_times, lost) = (Damage::default(), Arc::default(), Lost::default());
        Start {
            names,
            status: None,
            damage,
            began: 0,
            origin: 0,
            period,
            captured,
            thread_times,
            lost,
            steps_of: None,
        }
    }
}

/// Returns the rows of an analysis of a collection that ended at host ns `ended`.
#[cfg(test)]
pub fn finish_at<'a, A: Analysis<'a>>(analysis: A, ended: u64) -> A::Rows {
    let (names, known) = (Names::default(), model::Process::default());
    analysis.finish(&End {
        names: &names,
        known: &known,
        pid: None,
        status: None,
        ended,
        line: Line::default(),
    })
}

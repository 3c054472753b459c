//! What was a thread doing, and when? The calls of each thread of a process, as far back as a gap may reach.
//!
//! A gap that an operation ends begins no earlier than the work before it was over, and the operation's record comes
//! after those of all earlier calls of its thread. So when it comes, the calls that lie in its gap are known: they are
//! copied out then, and what a thread keeps is bounded by a number of calls. Time before the oldest of them is undecided.

use super::Cause;
use super::pauses::HostTimes;
use crate::hash::HashMap;
use crate::model::period::Period;
use crate::model::stacks::Caller;
use std::collections::VecDeque;

/// The most calls that are kept of all threads of a process.
const KEPT: usize = 1 << 17;
/// The least that are kept of each thread, however many there are.
const KEPT_OF_EACH: usize = 64;

/// A call, or a part of one. Times are host ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// When it began.
    pub from: i64,
    /// When it ended.
    pub to: i64,
    /// The cause that it is of idle time.
    pub cause: Cause,
    /// The number of its API.
    pub api: u16,
    /// Where it was made.
    pub caller: Caller,
}

/// A wait of a thread for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The number of its API.
    pub api: u16,
    /// The number of the line that made it; 0 = not known.
    pub line: u32,
    /// When it began: host ns.
    pub from: i64,
    /// When it returned: host ns.
    pub to: i64,
    /// The time in which any thread of the process had waited until then, ns.
    pub total: u64,
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    spent: VecDeque<Spent>,
    /// What it did before this is not known.
    known_from: i64,
    /// The last wait for the GPU that held it up.
    pub waited: Option<Waited>,
    /// From its first to its last call: host ns.
    pub ends: Option<(i64, i64)>,
    /// What it spent in calls and between them.
    pub host: HostTimes,
    /// Whether its last call was in a pause.
    is_paused: bool,
}

impl Thread {
    fn new() -> Self {
        let (spent, host) = (VecDeque::new(), HostTimes::default());
        Thread { spent, known_from: i64::MIN, waited: None, ends: None, host, is_paused: false }
    }

    /// Adds a part of a call. Calls of a thread do not overlap: what a part covers of the one before is left out.
    pub fn add(&mut self, part: Spent, most: usize) {
        let from = self.spent.back().map_or(part.from, |last| last.to.max(part.from));
        if part.to <= from {
            return;
        }
        while self.spent.len() >= most {
            self.known_from = self.spent.pop_front().map_or(self.known_from, |oldest| oldest.to);
        }
        self.spent.push_back(Spent { from, ..part });
    }

    /// Counts the time of a call for a cause.
    pub fn count(&mut self, cause: Cause, from: i64, to: i64, period: &Period) {
        self.host.of(self.is_paused).call(cause, period.length(from, to));
    }

    /// Notes a call, for the time from the first to the last and for that between them. A pause of `--timing auto` ends with
    /// a call, so the time before a call is of the pause if the call before it was.
    pub fn reach(&mut self, from: i64, to: i64, is_paused: bool, period: &Period) {
        let (first, last) = self.ends.unwrap_or((from, to));
        if from > last {
            self.host.of(self.is_paused).outside(period.length(last, from));
        }
        self.is_paused = is_paused;
        self.ends = Some((first.min(from), last.max(to)));
    }

    /// Records of this thread were lost until host ns `at`, so that what it did before is not known.
    pub fn lost_until(&mut self, at: i64) {
        self.spent.clear();
        self.known_from = self.known_from.max(at);
        self.waited = None;
    }

    /// Returns its calls after a moment, in order, from when on they are all known, and when the call before them returned,
    /// or `i64::MIN`. It returns `most` calls at most.
    pub fn since(&self, from: i64, most: usize) -> (Box<[Spent]>, i64, i64) {
        let after = self.spent.iter().rev().take(most).take_while(|spent| spent.to > from).count();
        let first = self.spent.len() - after;
        let left_out = first.checked_sub(1).map(|left_out| self.spent[left_out].to);
        let known_from =
            left_out.filter(|to| *to > from).map_or(self.known_from, |to| to.max(self.known_from));
        (self.spent.range(first..).copied().collect(), known_from, left_out.unwrap_or(i64::MIN))
    }
}

/// The threads of a process.
#[derive(Debug, Default)]
pub struct History {
    numbers: HashMap<u32, usize>,
    threads: Vec<Thread>,
    /// The thread of the last record, and its place.
    last: Option<(u32, usize)>,
    /// The last wait of any thread.
    waited: Option<Waited>,
    /// When the last of the time ended in which a thread waited: host ns.
    waited_until: i64,
}

impl History {
    /// Returns a thread, and how many calls are kept of it.
    pub fn of(&mut self, number: u32) -> (&mut Thread, usize) {
        let place = match self.last {
            Some((last, place)) if last == number => place,
            _ => *self.numbers.entry(number).or_insert_with(|| {
                self.threads.push(Thread::new());
                self.threads.len() - 1
            }),
        };
        self.last = Some((number, place));
        let most = (KEPT / self.threads.len().next_power_of_two()).max(KEPT_OF_EACH);
        (&mut self.threads[place], most)
    }

    /// Notes a call of a thread, by its API and its line, that waited for the GPU. `at`: from when, until when, and when it
    /// returned.
    pub fn wait(&mut self, number: u32, (api, line): (u16, u32), at: (i64, i64, i64), period: &Period) {
        let (from, until, to) = at;
        let before = self.waited.map_or(0, |last| last.total);
        let since = self.waited_until.max(from);
        let total = before.saturating_add(period.length(since, until.max(since)));
        self.waited_until = until.max(since);
        self.waited = Some(Waited { api, line, from, to, total });
        self.of(number).0.waited = self.waited;
    }

    /// Returns a thread that launches, with the last wait for the GPU that held it up. That is its own, or one of another
    /// thread since which it has made no call: it may have waited for that thread, as the thread in which PyTorch runs the
    /// backward pass does.
    pub fn held_up(&mut self, number: u32) -> &Thread {
        let last = self.waited;
        let thread = self.of(number).0;
        let is_quiet = |since: &Waited| thread.ends.is_none_or(|(_, returned)| returned <= since.from);
        if let Some(other) = last.filter(is_quiet) {
            thread.waited = Some(other);
        }
        thread
    }

    /// Returns a thread, if it has made a call.
    pub fn get(&self, number: u32) -> Option<&Thread> {
        self.threads.get(*self.numbers.get(&number)?)
    }
}

//! What was a thread doing, and when? The calls of each thread of a process, as far back as a gap may reach.
//!
//! A gap that an operation ends begins no earlier than the work before it was over, and the operation's record comes
//! after those of all earlier calls of its thread. So when it comes, the calls that lie in its gap are known: they are
//! copied out then, and what a thread keeps is bounded by a number of calls. Time before the oldest of them is undecided.
//!
//! A server may have a thread for each request, and no record says that a thread has ended. So calls are kept of some thousand
//! threads: when there are more, those that have been silent longest lose theirs.

use super::pauses::HostTimes;
use super::{Cause, LONG};
use crate::hash::HashMap;
use crate::model::period::Period;
use crate::model::stacks::Caller;
use std::collections::VecDeque;

/// The most calls that are kept of all threads of a process.
const KEPT: usize = 1 << 17;
/// The least that are kept of each thread, however many there are.
const KEPT_OF_EACH: usize = 64;
/// The most threads of which calls are kept.
const KEEPING: usize = 4096;
/// How many of them lose their calls when there are too many: sorting all seldom costs less than finding one each time.
const SILENT: usize = KEEPING / 8;

/// When the first and the last operation had been enqueued, where there was none.
const NO_WORK: (i64, i64) = (i64::MAX, i64::MIN);

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

/// Which call waits: the number of its API, and that of the line that made it; 0 = not known.
pub type WaitPlace = (u16, u32);

/// A wait of a thread for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The number of the thread.
    pub thread: u32,
    /// Which call it was.
    pub place: WaitPlace,
    /// When it began: host ns.
    pub from: i64,
    /// When it returned: host ns.
    pub to: i64,
    /// For how long it waited, ns.
    pub ns: u64,
    /// The wait that held the thread up most of those until then, this one included, and for how long, ns.
    pub longest: (WaitPlace, u64),
    /// The time in which any thread of the process had waited until then, ns.
    pub total: u64,
}

impl Waited {
    /// Of the longest wait, one in so many parts of its time is forgotten with each shorter one behind it: what waited in an earlier phase
    /// of the program is not meant.
    const FORGOTTEN: u64 = 8;

    /// Returns which wait was the longest, behind one that was the longest `before`. What one line waits for in several calls, as a copy and
    /// the wait for its stream, is one wait.
    fn longest(place: WaitPlace, ns: u64, before: Option<(WaitPlace, u64)>) -> (WaitPlace, u64) {
        match before {
            Some((other, most)) if place.1 != 0 && other.1 == place.1 => (place, most.max(ns)),
            Some((other, most)) if most / 2 > ns => (other, most - most / Self::FORGOTTEN),
            _ => (place, ns),
        }
    }

    /// Returns the wait that `owed` ns of idle time behind this one are owed to, and this one, if it has waited for little of that: it would
    /// wait if the other did not.
    pub fn of(&self, owed: u64) -> (WaitPlace, Option<WaitPlace>) {
        let (longest, _) = self.longest;
        if longest == self.place || self.ns >= owed / 2 {
            (self.place, None)
        } else {
            (longest, Some(self.place))
        }
    }
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
    /// What it spent in calls, and between them until the last operation of its process.
    pub host: HostTimes,
    /// The time between calls that counts if its process enqueues another operation: while operations were timed, and in pauses; of each
    /// the short times, and the [long](LONG) ones, ns.
    open: [[u64; 2]; 2],
    /// Until when that is: host ns.
    open_until: i64,
    /// Whether its last call was in a pause.
    is_paused: bool,
    /// Whether it is one of those of which calls are kept.
    is_kept: bool,
    /// When the first and the last operation of its process had been enqueued, as far as that was so at its last call: host ns.
    worked: (i64, i64),
}

impl Thread {
    fn new() -> Self {
        let (spent, host) = (VecDeque::new(), HostTimes::default());
        let (is_paused, is_kept) = (false, false);
        let (known_from, open_until) = (i64::MIN, i64::MAX);
        Thread {
            spent,
            known_from,
            waited: None,
            ends: None,
            host,
            open: [[0; 2]; 2],
            open_until,
            is_paused,
            is_kept,
            worked: NO_WORK,
        }
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
        self.host.before.call(cause, period.length(from, to.min(self.worked.0)));
        self.host.of(self.is_paused).call(cause, period.length(from.max(self.worked.0), to));
    }

    /// Notes a call, for the time from the first to the last and for that between them. A pause of `--timing auto` ends with
    /// a call, so the time before a call is of the pause if the call before it was. Time outside CUDA before the first
    /// operation of the process, and behind the last one, is not counted: no GPU was idle for it.
    pub fn reach(&mut self, from: i64, to: i64, is_paused: bool, period: &Period) {
        let (first, last) = self.ends.unwrap_or((from, to));
        if from > last {
            self.settle();
            let ns = period.length(last.max(self.worked.0), from);
            let open = &mut self.open[usize::from(self.is_paused)][usize::from(ns >= LONG)];
            *open = open.saturating_add(ns);
            self.open_until = from;
            self.settle();
        }
        self.is_paused = is_paused;
        self.ends = Some((first.min(from), last.max(to)));
    }

    /// Counts the time between calls that an operation has followed.
    fn settle(&mut self) {
        if self.open_until <= self.worked.1 {
            let [timed, paused] = std::mem::take(&mut self.open);
            for (is_paused, [short, long]) in [(false, timed), (true, paused)] {
                let host = self.host.of(is_paused);
                host.outside_of(false, short);
                host.outside_of(true, long);
            }
        }
    }

    /// Whether the time since its last call is of a pause; `None` if it has made no call, so that its time does not count yet.
    pub fn is_in_pause(&self) -> Option<bool> {
        self.ends.map(|_| self.is_paused)
    }

    /// Where its last call was made, if that copied or waited.
    pub fn last(&self) -> Option<Caller> {
        let last = self.spent.back()?;
        let is_of_copy = matches!(last.cause, Cause::Copying | Cause::ExplicitSync | Cause::ImplicitSync);
        is_of_copy.then_some(last.caller)
    }

    /// Records of this thread were lost until host ns `at`, so that what it did before is not known.
    pub fn lost_until(&mut self, at: i64) {
        self.spent.clear();
        self.known_from = self.known_from.max(at);
        self.waited = None;
    }

    /// Drops its calls, and what they take: what it did before the last one returned is not known any more.
    fn forget(&mut self) {
        self.known_from = self.spent.back().map_or(self.known_from, |last| last.to);
        self.spent = VecDeque::new();
        self.is_kept = false;
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
    /// The places of those of which calls are kept; at most [`KEEPING`].
    keeping: Vec<usize>,
    /// The thread of the last record, and its place.
    last: Option<(u32, usize)>,
    /// When the calls of the first and the last operation had returned: host ns.
    worked: Option<(i64, i64)>,
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
            _ => self.place(number),
        };
        self.last = Some((number, place));
        let most = (KEPT / self.threads.len().next_power_of_two()).max(KEPT_OF_EACH);
        let thread = &mut self.threads[place];
        thread.worked = self.worked.unwrap_or(NO_WORK);
        (thread, most)
    }

    /// Notes an operation whose call returned at host ns `at`.
    pub fn enqueued(&mut self, at: i64) {
        self.worked = Some(self.worked.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
    }

    /// Returns the place of a thread, of which calls are kept from now on.
    fn place(&mut self, number: u32) -> usize {
        let place = *self.numbers.entry(number).or_insert_with(|| {
            self.threads.push(Thread::new());
            self.threads.len() - 1
        });
        if !self.threads[place].is_kept {
            if self.keeping.len() >= KEEPING {
                self.forget_silent();
            }
            self.threads[place].is_kept = true;
            self.keeping.push(place);
        }
        place
    }

    /// Drops the calls of the threads that have been silent longest.
    fn forget_silent(&mut self) {
        let History { threads, keeping, .. } = self;
        keeping.sort_unstable_by_key(|place| threads[*place].ends.map(|(_, last)| last));
        keeping.drain(..SILENT).for_each(|place| threads[place].forget());
    }

    /// Notes a call of a thread, by its API and its line, that waited for the GPU. `at`: from when, until when, and when it
    /// returned.
    pub fn wait(&mut self, number: u32, place: WaitPlace, at: (i64, i64, i64), period: &Period) {
        let (from, until, to) = at;
        let before = self.waited.map_or(0, |last| last.total);
        let since = self.waited_until.max(from);
        let total = before.saturating_add(period.length(since, until.max(since)));
        self.waited_until = until.max(since);
        let ns = period.length(from, until);
        let thread = self.of(number).0;
        let longest = Waited::longest(place, ns, thread.waited.map(|last| last.longest));
        thread.waited = Some(Waited { thread: number, place, from, to, ns, longest, total });
        self.waited = thread.waited;
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

    /// No thread makes another call: drops those that were kept.
    pub fn end(&mut self) {
        for thread in &mut self.threads {
            thread.worked = self.worked.unwrap_or(NO_WORK);
            thread.settle();
        }
        self.keeping.drain(..).for_each(|place| self.threads[place].forget());
    }

    /// Returns the thread whose call returned last: its number, itself, and when that was.
    pub fn latest(&self) -> Option<(u32, &Thread, i64)> {
        let all = self.numbers.iter().filter_map(|(number, place)| {
            let thread = &self.threads[*place];
            thread.ends.map(|(_, returned)| (*number, thread, returned))
        });
        all.max_by_key(|(number, _, returned)| (*returned, *number))
    }

    /// Returns a thread, if it has made a call.
    pub fn get(&self, number: u32) -> Option<&Thread> {
        self.threads.get(*self.numbers.get(&number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread makes a call of 5 ns at this time.
    fn call(history: &mut History, number: u32, from: i64) {
        let (thread, most) = history.of(number);
        let (to, cause, caller) = (from + 5, Cause::Launching, Caller::default());
        thread.reach(from, to, false, &Period::default());
        thread.add(Spent { from, to, cause, api: 1, caller }, most);
    }

    /// A program that wrote its results for a second, behind its last operation, and then freed its memory, was to share what its loop
    /// does among 14 threads instead of 4.
    #[test]
    fn time_outside_cuda_behind_the_last_operation_is_not_counted() {
        const MS: u64 = 1_000_000;
        let (mut history, period) = (History::default(), Period::default());
        let mut calls = |number: u32, from: u64, launches: bool| {
            let (from, to) = ((from * MS) as i64, ((from + 1) * MS) as i64);
            if launches {
                history.enqueued(to);
            }
            history.of(number).0.reach(from, to, false, &period);
        };
        [10, 14].into_iter().for_each(|from| calls(1, from, true));
        calls(2, 12, false);
        calls(2, 16, false);
        calls(1, 18, true);
        calls(1, 1_000, false);
        calls(2, 1_000, false);
        history.end();
        let outside = |number| history.get(number).unwrap().host.long_outside();
        assert_eq!([outside(1), outside(2)], [(3 + 3) * MS, 3 * MS]);
    }

    /// In each step a free waited for 8 ms, and then a stream for a copy of 10 µs: the 3 ms of idle time behind both were owed to the wait for
    /// the stream.
    #[test]
    fn idle_time_is_owed_to_the_wait_that_held_the_thread_up_and_not_to_a_short_one_behind_it() {
        let [free, read, sync]: [WaitPlace; 3] = [(1, 10), (2, 10), (2, 20)];
        let (mut history, period, mut now) = (History::default(), Period::default(), 0);
        let mut wait = |place, ns: i64| {
            let from = now;
            now += ns + 3_000_000;
            history.wait(1, place, (from, from + ns, from + ns), &period);
            history.held_up(1).waited.unwrap()
        };
        for _ in 0..20 {
            wait(free, 8_000_000);
            let last = wait(sync, 10_000);
            assert_eq!(last.of(3_000_000), (free, Some(sync)));
            assert_eq!(last.of(15_000), (sync, None), "it waited for that long itself");
        }
        wait(free, 8_000_000);
        assert_eq!(wait(read, 2_000).of(3_000_000), (read, None), "one line waits in both");
        assert_eq!(wait(sync, 10_000).of(3_000_000), (read, Some(sync)));
        let of_later = (0..60).map(|_| wait(sync, 10_000)).last().unwrap();
        assert_eq!(of_later.of(3_000_000), (sync, None), "the others are of an earlier phase");
    }

    /// Of a server with a thread for each request, the calls of all threads that there had been were kept.
    #[test]
    fn threads_that_have_ended_do_not_keep_their_calls() {
        let mut history = History::default();
        let threads = 3 * KEEPING as u32;
        for number in 1..=threads {
            // One thread goes on all the time.
            call(&mut history, 0, i64::from(number) * 100);
            (1..4).for_each(|n| call(&mut history, number, i64::from(number) * 100 + 10 * n));
        }
        let kept = history.threads.iter().filter(|thread| thread.spent.capacity() > 0).count();
        assert!(kept <= KEEPING && history.keeping.len() <= KEEPING, "{kept}");
        let since = |history: &History, number| {
            let (calls, known_from, _) = history.get(number).unwrap().since(i64::MIN, KEPT_OF_EACH);
            (calls.len(), known_from)
        };
        assert_eq!(since(&history, threads), (3, i64::MIN));
        assert_eq!(since(&history, 0).0, KEPT_OF_EACH, "it was never silent for long");
        assert_eq!(since(&history, 1), (0, 135), "until its last call returned");
        call(&mut history, 1, 10_000_000);
        assert_eq!(since(&history, 1), (1, 135), "it had not ended");
        history.end();
        assert!(history.threads.iter().all(|thread| thread.spent.capacity() == 0));
    }
}

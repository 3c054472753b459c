//! Which NVTX ranges are open, and around which calls?
//!
//! Ranges that are pushed and popped nest on their thread, separately in each domain. Ranges that are started and
//! ended belong to the process: any thread may end them, and they may cross. A call lies in a range that is open when
//! the call begins: in a pushed range if its own thread pushed it, in a started range whichever thread calls.
//!
//! A call's record comes when the call ends, a range's record when the range changes. Within a thread those two
//! orders agree. Across threads a range can end while a call is under way, so the ranges that ended last are kept for
//! late calls.

use crate::hash::HashMap;
use crate::trace::record::NvtxRange;
use gpuspy_wire::record::NvtxChange;
use std::collections::{BTreeMap, VecDeque};

/// The number of started ranges that are kept after their end, for calls that began before it.
pub const RECENT: usize = 64;
/// Limit on the open ranges in one thread's domain. Further ones are not followed.
const MOST_OPEN: usize = 4096;
/// Limit on the open started ranges. It is lower, since every operation lies in all of them.
const MOST_STARTED: usize = 256;

/// What a user of [`Ranges`] collects inside a range.
pub trait Inside {
    /// Adds what a nested range has collected.
    fn absorb(&mut self, inner: &Self);
}

/// A range that has begun.
#[derive(Clone, Debug)]
pub struct Begun<T> {
    /// The thread that began it.
    pub thread: u32,
    /// Host ns at which it began.
    pub at: u64,
    /// Its domain, text and other attributes.
    pub range: NvtxRange,
    /// What was collected inside it.
    pub inside: T,
}

/// A range that has ended.
#[derive(Clone, Debug)]
pub struct Over<T> {
    /// Its beginning.
    pub begun: Begun<T>,
    /// Host ns at which it ended.
    pub end: u64,
}

/// A thread's ranges in a domain: the innermost last.
#[derive(Clone, Debug)]
struct Stack<T> {
    open: Vec<Begun<T>>,
    /// The number of open ranges that are not followed.
    beyond: u64,
}

/// The fold.
#[derive(Clone, Debug)]
pub struct Ranges<T> {
    /// By thread and domain.
    pushed: BTreeMap<(u32, u32), Stack<T>>,
    started: HashMap<u64, Begun<T>>,
    /// The number of open ranges that are not followed.
    beyond: u64,
    ended: VecDeque<Over<T>>,
    recent: usize,
}

impl<T: Inside> Ranges<T> {
    /// No range is open. `recent` ended ones are kept for late calls: [`RECENT`] or 0.
    pub fn new(recent: usize) -> Self {
        let (pushed, started) = (BTreeMap::new(), HashMap::default());
        Ranges { pushed, started, beyond: 0, ended: VecDeque::new(), recent }
    }

    /// Begins a range; returns false if there are too many to follow it.
    pub fn begin(&mut self, begun: Begun<T>) -> bool {
        let NvtxRange { change, id, domain, .. } = begun.range;
        if change == NvtxChange::Start {
            let is_followed = self.started.len() < MOST_STARTED;
            if is_followed {
                self.started.insert(id, begun);
            } else {
                self.beyond += 1;
            }
            return is_followed;
        }
        let stack = self.pushed.entry((begun.thread, domain));
        let stack = stack.or_insert_with(|| Stack { open: Vec::new(), beyond: 0 });
        let is_followed = stack.open.len() < MOST_OPEN;
        if is_followed {
            stack.open.push(begun);
        } else {
            stack.beyond += 1;
        }
        is_followed
    }

    /// Ends the range that a thread pushed last in a domain; `Err` if there is none. What lies in it also lies in the
    /// outer one.
    pub fn pop(&mut self, thread: u32, domain: u32, end: u64) -> Result<Option<Over<T>>, Stray> {
        let stack = self.pushed.get_mut(&(thread, domain)).ok_or(Stray)?;
        if stack.beyond > 0 {
            stack.beyond -= 1;
            return Ok(None);
        }
        let begun = stack.open.pop().ok_or(Stray)?;
        match stack.open.last_mut() {
            Some(around) => around.inside.absorb(&begun.inside),
            None => drop(self.pushed.remove(&(thread, domain))),
        }
        Ok(Some(Over { begun, end }))
    }

    /// Ends a started range; `Err` if there is none with this id. Returns the oldest ended range when too many are
    /// kept.
    pub fn end(&mut self, id: u64, end: u64) -> Result<Option<Over<T>>, Stray> {
        let Some(begun) = self.started.remove(&id) else {
            // Which ones are not followed is not kept.
            self.beyond = self.beyond.checked_sub(1).ok_or(Stray)?;
            return Ok(None);
        };
        self.ended.push_back(Over { begun, end });
        Ok(if self.ended.len() > self.recent { self.ended.pop_front() } else { None })
    }

    /// How many ranges a thread has pushed in a domain and not popped, of those that are followed.
    pub fn depth(&self, thread: u32, domain: u32) -> usize {
        self.pushed.get(&(thread, domain)).map_or(0, |stack| stack.open.len())
    }

    /// The range that a thread pushed last in a domain and has not popped.
    pub fn innermost(&self, thread: u32, domain: u32) -> Option<&Begun<T>> {
        self.pushed.get(&(thread, domain))?.open.last()
    }

    /// The ranges around a call that a thread began at some time: of each domain the innermost, which passes on what
    /// it has collected when it is popped, and all started ones.
    pub fn around(&mut self, thread: u32, began: u64) -> impl Iterator<Item = &mut Begun<T>> {
        let of_thread = self.pushed.range_mut((thread, 0)..=(thread, u32::MAX));
        let innermost = of_thread.filter_map(|(_, stack)| stack.open.last_mut());
        let ended = self.ended.iter_mut().filter(move |over| began < over.end).map(|over| &mut over.begun);
        innermost.chain(self.started.values_mut().chain(ended).filter(move |begun| begun.at <= began))
    }

    /// Returns the ended ranges that are still kept, and the open ones, which get the end `now`. Inner ones come first.
    pub fn finish(mut self, now: u64) -> (Vec<Over<T>>, Vec<Over<T>>) {
        let mut open = Vec::new();
        for stack in self.pushed.values_mut() {
            while let Some(begun) = stack.open.pop() {
                if let Some(around) = stack.open.last_mut() {
                    around.inside.absorb(&begun.inside);
                }
                open.push(Over { begun, end: now });
            }
        }
        let mut started: Vec<Begun<T>> = self.started.into_values().collect();
        started.sort_unstable_by_key(|begun| begun.range.id);
        open.extend(started.into_iter().map(|begun| Over { begun, end: now }));
        (self.ended.into(), open)
    }
}

/// The end of a range that never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray;

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls in a range.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Calls(Vec<u64>);

    impl Inside for Calls {
        fn absorb(&mut self, inner: &Self) {
            self.0.extend(&inner.0);
        }
    }

    fn begun(thread: u32, at: u64, domain: u32, id: u64) -> Begun<Calls> {
        let change = if id == 0 { NvtxChange::Push } else { NvtxChange::Start };
        let range = NvtxRange { change, id, domain, text: 1, category: 0, color: 0, payload: false };
        Begun { thread, at, range, inside: Calls::default() }
    }

    fn call(ranges: &mut Ranges<Calls>, thread: u32, began: u64) {
        ranges.around(thread, began).for_each(|begun| begun.inside.0.push(began));
    }

    fn calls(over: Result<Option<Over<Calls>>, Stray>) -> Vec<u64> {
        over.unwrap().unwrap().begun.inside.0
    }

    #[test]
    fn pushed_ranges_nest_on_their_thread_in_each_domain() {
        let mut ranges = Ranges::new(RECENT);
        ranges.begin(begun(1, 0, 0, 0));
        call(&mut ranges, 1, 1);
        ranges.begin(begun(1, 2, 0, 0));
        ranges.begin(begun(1, 3, 5, 0));
        call(&mut ranges, 1, 4);
        call(&mut ranges, 2, 5);
        assert_eq!(calls(ranges.pop(1, 0, 6)), [4]);
        call(&mut ranges, 1, 7);
        assert_eq!(calls(ranges.pop(1, 0, 8)), [1, 4, 7], "and all inside");
        call(&mut ranges, 1, 9);
        assert_eq!(calls(ranges.pop(1, 5, 10)), [4, 7, 9], "domains may cross");
        assert_eq!(ranges.pop(1, 0, 11).unwrap_err(), Stray);
        assert_eq!(ranges.pop(2, 0, 11).unwrap_err(), Stray);
    }

    #[test]
    fn started_ranges_contain_all_threads_calls_and_may_end_during_a_call() {
        let mut ranges = Ranges::new(1);
        ranges.begin(begun(1, 10, 0, 77));
        call(&mut ranges, 2, 9);
        call(&mut ranges, 2, 10);
        assert_eq!(ranges.end(78, 20).unwrap_err(), Stray);
        assert!(ranges.end(77, 20).unwrap().is_none(), "not yet");
        call(&mut ranges, 1, 19);
        call(&mut ranges, 1, 20);
        ranges.begin(begun(1, 30, 0, 79));
        assert_eq!(calls(ranges.end(79, 40)), [10, 19]);
    }

    #[test]
    fn ranges_that_are_open_at_the_end_have_collected_what_is_inside() {
        let mut ranges = Ranges::new(RECENT);
        ranges.begin(begun(1, 0, 0, 0));
        ranges.begin(begun(1, 1, 0, 0));
        ranges.begin(begun(3, 1, 0, 9));
        call(&mut ranges, 1, 2);
        let (ended, open) = ranges.finish(50);
        assert!(ended.is_empty());
        let open: Vec<_> =
            open.into_iter().map(|over| (over.begun.at, over.begun.inside.0, over.end)).collect();
        assert_eq!(open, [(1, vec![2], 50), (0, vec![2], 50), (1, vec![2], 50)]);
    }

    #[test]
    fn started_ranges_are_followed_up_to_a_limit_and_the_ends_of_others_are_not_strays() {
        let mut ranges = Ranges::new(0);
        let started = 1..=MOST_STARTED as u64 + 2;
        let followed = started.clone().filter(|id| ranges.begin(begun(1, *id, 0, *id))).count();
        assert_eq!(followed, MOST_STARTED);
        assert_eq!(ranges.around(1, 1_000).count(), MOST_STARTED);
        let ends = started.map(|id| ranges.end(id, 2_000).unwrap().is_some());
        assert_eq!(ends.filter(|is_reported| *is_reported).count(), MOST_STARTED);
        assert_eq!(ranges.end(7, 2_000).unwrap_err(), Stray);
    }

    #[test]
    fn ranges_that_are_never_closed_are_followed_to_a_depth() {
        let mut ranges = Ranges::new(RECENT);
        let followed = (0..MOST_OPEN as u64 + 3).filter(|at| ranges.begin(begun(1, *at, 0, 0))).count();
        assert_eq!(followed, MOST_OPEN);
        (0..3).for_each(|_| assert!(ranges.pop(1, 0, 9).unwrap().is_none()));
        assert_eq!(ranges.pop(1, 0, 9).unwrap().unwrap().begun.at, MOST_OPEN as u64 - 1);
    }
}

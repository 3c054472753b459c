//! What does each line of the program hold, in whichever thread and NVTX range it allocates?
//!
//! That is what memory is judged by: a server may allocate in a thread for each request, or in a range that has the name of
//! a user.

use super::level::Level;
use super::{Key, ORIGINS};
use crate::analyze::memory::churn::Place;
use crate::hash::HashMap;

/// How long a block was held: in steps, and in µs between operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lasted {
    steps: u64,
    micros: u64,
}

impl Lasted {
    fn between(then: Place, now: Place) -> Lasted {
        let since = |now: Option<u64>, then: Option<u64>| now.unwrap_or(0).saturating_sub(then.unwrap_or(0));
        Lasted { steps: since(now.steps, then.steps), micros: since(now.micros, then.micros) }
    }

    fn max(self, other: Lasted) -> Lasted {
        Lasted { steps: self.steps.max(other.steps), micros: self.micros.max(other.micros) }
    }
}

/// What one line holds.
#[derive(Debug, Default)]
pub(super) struct LineAccount {
    /// The bytes over time.
    pub level: Level,
    turnover: Turnover,
}

/// What a line allocates and frees.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turnover {
    /// Bytes of all its blocks, and of those that the program freed.
    allocated: u64,
    freed: u64,
    /// The longest that a block was held which the program freed before its last operation.
    longest: Lasted,
    /// The same of the blocks that were freed since the last operation so far, and the number of that operation.
    latest: (u64, Lasted),
}

impl LineAccount {
    /// Records an allocation.
    pub fn allocated(&mut self, bytes: u64) {
        self.turnover.allocated = self.turnover.allocated.saturating_add(bytes);
    }

    /// Records that the program freed a block of another place of the run.
    pub fn freed(&mut self, bytes: u64, then: Place, now: Place) {
        let turnover = &mut self.turnover;
        turnover.freed = turnover.freed.saturating_add(bytes);
        turnover.settle(now);
        turnover.latest.1 = turnover.latest.1.max(Lasted::between(then, now));
    }

    /// Returns what the line allocates and frees, at the end of the run.
    pub fn turnover(&self, end: Place) -> Turnover {
        let mut turnover = self.turnover;
        turnover.settle(end);
        turnover
    }
}

impl Turnover {
    fn settle(&mut self, now: Place) {
        if self.latest.0 != now.operations {
            self.longest = self.longest.max(self.latest.1);
            self.latest = (now.operations, Lasted::default());
        }
    }

    /// Adds that of other calls of the line.
    pub fn join(&mut self, other: Turnover) {
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.freed = self.freed.saturating_add(other.freed);
        self.longest = self.longest.max(other.longest);
    }

    /// Returns up to which age a block may be held only because the run ends, in steps or in µs: the line frees most of
    /// what it allocates, like a ring that is emptied when it is full, and had others that were held as long, or four fifths
    /// of it. What a program frees after its last operation says nothing about that.
    pub fn usual_age(&self, in_steps: bool) -> u64 {
        let longest = if in_steps { self.longest.steps } else { self.longest.micros };
        let frees_most = self.freed >= self.allocated.saturating_sub(self.freed);
        if frees_most { longest.saturating_add(longest / 4) } else { 0 }
    }
}

/// The lines of a program. Their number is bounded by [`ORIGINS`].
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Each line's number.
    pub keys: HashMap<Key, u32>,
    /// By number.
    pub accounts: Vec<LineAccount>,
}

impl Lines {
    /// Returns the number of the line of an origin.
    pub fn of(&mut self, origin: &Key) -> u32 {
        let key = origin.line();
        let is_full = self.keys.len() >= ORIGINS && !self.keys.contains_key(&key);
        let next = self.accounts.len() as u32;
        let line = *self.keys.entry(if is_full { Key::default() } else { key }).or_insert(next);
        if line == next {
            self.accounts.push(LineAccount::default());
        }
        line
    }
}

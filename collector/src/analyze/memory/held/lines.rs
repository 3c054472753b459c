//! What does each line of the program hold, in whichever thread and NVTX range it allocates?
//!
//! That is what memory is judged by: a server may allocate in a thread for each request, or in a range that has the name of
//! a user.

use super::level::Level;
use super::{Key, ORIGINS};
use crate::hash::HashMap;

/// What one line holds.
#[derive(Debug, Default)]
pub(super) struct LineAccount {
    /// The bytes over time.
    pub level: Level,
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

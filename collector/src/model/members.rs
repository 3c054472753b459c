//! Which launches were timed together, by one event pair?
//!
//! The record of a burst or a run comes after those of its launches and contains only their number. This module keeps
//! what the launches were until then, by stream.

use super::stacks::Caller;
use crate::hash::HashMap;
use crate::trace::record::{What, Work};
use gpuspy_wire::record::{Untimed, flag};

/// The launches of one burst or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    launches: u64,
    /// Where the first launch was made; `None` if it is not known.
    pub caller: Option<Caller>,
    communication: u64,
    /// The number of launches whose typical length is known, and the sum of those lengths, ns.
    typical: u64,
    expected: u64,
}

/// The launches of all open bursts and runs, by context and stream.
#[derive(Debug, Default)]
pub struct Open(HashMap<(u32, u64), Members>);

/// Whether an operation is part of a burst or a run.
pub fn is_member(work: &Work) -> bool {
    matches!(work.untimed, Untimed::Programmatic | Untimed::Run) && work.call.flags & flag::BURST != 0
}

impl Members {
    /// Whether all of them move data between GPUs.
    pub fn are_communication(&self) -> bool {
        self.launches > 0 && self.communication == self.launches
    }

    /// Their typical total length if they run one after another, ns; `None` if the typical length of less than half
    /// of them is known. The rest is assumed to take as long on average.
    pub fn expected(&self) -> Option<u64> {
        let all = u128::from(self.expected) * u128::from(self.launches);
        let all = all.checked_div(u128::from(self.typical)).and_then(|all| u64::try_from(all).ok());
        all.filter(|_| self.typical * 2 >= self.launches)
    }
}

impl Open {
    /// Takes an operation that `caller` made. `communication`: whether it moves data between GPUs; `typical` returns its
    /// typical length, ns.
    pub fn observe(
        &mut self,
        work: &Work,
        caller: Caller,
        communication: bool,
        typical: impl FnOnce() -> Option<u64>,
    ) {
        if is_member(work) && matches!(work.what, What::Kernel { .. }) {
            let typical = typical();
            let members = self.0.entry((work.call.context, work.stream)).or_default();
            members.caller.get_or_insert(caller);
            members.launches += 1;
            members.communication += u64::from(communication);
            members.typical += u64::from(typical.is_some());
            members.expected = members.expected.saturating_add(typical.unwrap_or(0));
        }
    }

    /// The launches of the burst or run that `work` records.
    pub fn of(&self, work: &Work) -> Members {
        self.0.get(&(work.call.context, work.stream)).copied().unwrap_or_default()
    }

    /// Starts again after the record of a burst or run.
    pub fn ended(&mut self, work: &Work) {
        self.0.remove(&(work.call.context, work.stream));
    }

    /// Drops a destroyed stream.
    pub fn forget(&mut self, context: u32, stream: u64) {
        self.0.remove(&(context, stream));
    }

    /// Drops a destroyed context's streams.
    pub fn forget_context(&mut self, context: u32) {
        self.0.retain(|(owner, _), _| *owner != context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_unknown_length_are_assumed_to_be_like_the_others() {
        let members = |launches, typical, expected| Members {
            launches,
            caller: None,
            communication: 0,
            typical,
            expected,
        };
        assert_eq!(members(4, 4, 100).expected(), Some(100));
        assert_eq!(members(4, 2, 60).expected(), Some(120));
        assert_eq!(members(4, 1, 60).expected(), None);
        assert_eq!(members(0, 0, 0).expected(), None);
    }
}

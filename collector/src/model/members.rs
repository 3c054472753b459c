//! What were the launches that were timed together?
//!
//! The record of a burst or a run comes behind those of its launches and says how many they were. What they were is kept
//! here until then, by stream.

use crate::trace::record::{What, Work};
use gpuspy_wire::record::{Untimed, flag};
use std::collections::HashMap;

/// The launches of one burst or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    launches: u64,
    communication: u64,
}

/// Those of all bursts and runs that are open, by context and stream.
#[derive(Debug, Default)]
pub struct Open(HashMap<(u32, u64), Members>);

/// Whether an operation is a part of a burst or a run.
pub fn is_member(work: &Work) -> bool {
    matches!(work.untimed, Untimed::Chain | Untimed::Run) && work.call.flags & flag::BURST != 0
}

impl Members {
    /// Whether all of them move data between GPUs.
    pub fn are_communication(&self) -> bool {
        self.launches > 0 && self.communication == self.launches
    }
}

impl Open {
    /// Takes an operation; `communication`: it moves data between GPUs.
    pub fn observe(&mut self, work: &Work, communication: bool) {
        if is_member(work) && matches!(work.what, What::Kernel { .. }) {
            let members = self.0.entry((work.call.context, work.stream)).or_default();
            members.launches += 1;
            members.communication += u64::from(communication);
        }
    }

    /// The launches of the burst or run that has ended on a stream.
    pub fn ended(&mut self, context: u32, stream: u64) -> Members {
        self.0.remove(&(context, stream)).unwrap_or_default()
    }

    /// A stream is gone.
    pub fn forget(&mut self, context: u32, stream: u64) {
        self.0.remove(&(context, stream));
    }

    /// A context is gone.
    pub fn forget_context(&mut self, context: u32) {
        self.0.retain(|(owner, _), _| *owner != context);
    }
}

//! Where does a trace begin whose process another collector has drained before? Where the agent begins to tell again what it had
//! told that one: names, contexts, streams and modules, without which records mean nothing.

use super::convert::Item;
use super::host_ticks::Clock;
use super::windows::{since, since_1970};
use crate::trace::record::{Body, Status};
use gpuspy_wire::record::{Fact, Namespace};

/// The beginning of such a trace.
#[derive(Debug)]
pub(super) struct Beginning {
    /// What had been counted by then.
    status: Status,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The agent has not noticed that there is another collector.
    Unnoticed,
    /// It has read the clocks at this moment: host ns.
    Noticed(u64),
    /// It has begun to tell.
    Tells,
}

impl Beginning {
    /// A process with this status was taken over at that moment: CLOCK_MONOTONIC_RAW, ns.
    pub fn of(status: &Status, at: u64) -> Beginning {
        Beginning { status: begun(status, at), state: State::Unnoticed }
    }

    /// When it is: host ns.
    pub fn began(&self) -> u64 {
        self.status.began
    }

    /// Returns the part of a status that is about the trace.
    pub fn part_of(&self, status: &Status) -> Status {
        since(status, &self.status)
    }

    /// Whether an item is in the trace. `before` is the time of its thread's record before it, `now` the status of the process.
    pub fn takes(
        &mut self,
        item: &mut Item<'_>,
        before: u64,
        clock: &Clock,
        now: impl FnOnce() -> Status,
    ) -> bool {
        match (self.state, &*item) {
            (State::Tells, _) => {}
            (_, Item::Anchor(anchor)) => {
                // There may be older ones in the ring.
                if anchor.monotonic_raw >= self.status.began {
                    self.state = State::Noticed(clock.ns(anchor.ticks));
                }
                return false;
            }
            // The first that it tells.
            (State::Noticed(at), Item::Name(Namespace::Fact, id, _)) if *id == Fact::AgentVersion as u32 => {
                *self = Beginning { status: begun(&now(), at), state: State::Tells };
            }
            _ => return false,
        }
        let (Item::Record(record) | Item::Range(record, _)) = item else { return true };
        let began = self.status.began;
        let is_before = record.began().is_some_and(|call| call < began);
        // A thread tells what was lost with its next record: the first is about the time before.
        let is_loss_before = matches!(record.body, Body::Loss { .. }) && before == began;
        record.at = record.at.max(began);
        !is_before && !is_loss_before
    }
}

/// Returns a status that begins at a moment: host ns.
fn begun(status: &Status, at: u64) -> Status {
    let passed = u128::from(status.ended.saturating_sub(at));
    let began_realtime = u64::try_from(since_1970().as_nanos().saturating_sub(passed)).unwrap_or(0);
    let session_realtime = Some(status.session_realtime.unwrap_or(status.began_realtime));
    Status { began: at, began_realtime, session_realtime, ..status.clone() }
}

//! Which thread leads a gap, and what did it do in it? Noted when the operation that may end the gap comes.

use super::history::{Spent, Waited};
use super::{Cause, Next};
use crate::model::stacks::Caller;

/// What is known of an operation that may end a gap, and of the thread that enqueued it. Times are host ns.
#[derive(Clone, Debug)]
pub struct Lead {
    /// The number of its process on the line.
    pub process: u32,
    /// The thread of its call.
    pub thread: u32,
    /// The number of its API.
    pub api: u16,
    /// Where its call was made.
    pub caller: Caller,
    /// When its call was entered.
    pub called: i64,
    /// When its call returned.
    pub returned: i64,
    /// What the time between those is.
    pub in_call: Cause,
    /// What the time after its call is.
    pub enqueued: Cause,
    /// What a thread goes on with that enqueues it.
    pub next: Next,
    /// The calls of the thread before that one, from `known_from` on.
    pub calls: Box<[Spent]>,
    /// What the thread did before this is not known.
    pub known_from: i64,
    /// When the last call before `calls` returned; `i64::MIN` if that is not known.
    pub before: i64,
    /// The text of the innermost NVTX range of the thread; 0 = none.
    pub range: u32,
    /// The last wait for the GPU that held the thread up.
    pub waited: Option<Waited>,
    /// Whether the process has loaded a module or created a context since that returned.
    pub is_behind_load: bool,
    /// The number of operations of the process until this one.
    pub launches: u64,
    /// The step of the program that its call belongs to. Of a burst or a run it is that of the last launch.
    pub step: Option<u64>,
    /// Whether the program still prepared: its second step had not begun.
    pub is_preparing: bool,
    /// Whether it set up until then: no operation of its first step has come before, and it launches little until then.
    pub is_setting_up: bool,
    /// Whether the time since the thread's last call is of a [pause](super::pauses); `None` if it has made no other call.
    pub is_paused: Option<bool>,
}

/// The most calls that are kept of one gap. What comes before them is undecided.
const MOST_CALLS: usize = 4096;
/// While the leads have more calls than this together, each new one keeps only [`FEW_CALLS`].
const MANY_CALLS: usize = 1 << 18;
/// The least calls that are kept of one gap: a gap of a loop that only launches has fewer.
const FEW_CALLS: usize = 16;

/// The leads of the operations that have not been passed yet, by number.
#[derive(Debug, Default)]
pub struct Leads {
    places: Vec<Option<Lead>>,
    free: Vec<u32>,
    /// The number of calls in all of them.
    calls: usize,
}

/// The number of a lead. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeadNumber(u32);

impl Leads {
    /// The number of calls that the next lead may have.
    pub fn most_calls(&self) -> usize {
        if self.calls < MANY_CALLS { MOST_CALLS } else { FEW_CALLS }
    }

    /// Keeps a lead.
    pub fn add(&mut self, lead: Lead) -> LeadNumber {
        self.calls += lead.calls.len();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some(lead);
        LeadNumber(place + 1)
    }

    /// Returns a lead; `None` if the number has none.
    pub fn get(&self, number: LeadNumber) -> Option<&Lead> {
        self.places.get(number.0.checked_sub(1)? as usize)?.as_ref()
    }

    /// Notes that the burst or the run with this lead has a launch of this step.
    pub fn reach(&mut self, number: LeadNumber, step: Option<u64>) {
        let place = number.0.checked_sub(1).and_then(|place| self.places.get_mut(place as usize));
        if let Some(lead) = place.and_then(Option::as_mut) {
            lead.step = lead.step.max(step);
        }
    }

    /// Forgets a lead.
    pub fn remove(&mut self, number: LeadNumber) {
        let Some(place) = number.0.checked_sub(1) else { return };
        let Some(kept) = self.places.get_mut(place as usize) else { return };
        if let Some(lead) = kept {
            self.calls -= lead.calls.len();
            self.free.push(place);
            *kept = None;
        }
    }
}

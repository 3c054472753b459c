//! Which idle time would not be there if the threads did not wait for the GPU?
//!
//! While a thread waits for the GPU it enqueues nothing. Had it not waited, each of its later calls would have come earlier by
//! the time that it had waited until then, and the GPU's work would have started earlier by the idle time that this removes.
//! So each process is replayed without its waits: its calls are earlier by all that was waited, the GPU is earlier by the
//! idle time that was *saved*, and a gap is shorter by what its call is still ahead of the GPU:
//!
//! - A gap that begins after its operation was enqueued is not the host's, and stays.
//! - What a thread waited and no gap has used is what the host is ahead of the GPU. A stream's queue holds about a thousand
//!   launches, so the host is never ahead by more than the time of these.
//! - How much of it is used in time that was not observed is not known: what was waited until then counts no more.
//! - A call that loads a module waits for the GPU itself (`load_waits` in docs/hardware.md), and one that creates a context most often
//!   follows the end of another one: what was waited until then counts no more either.
//!
//! Without its waits, a host that launches more slowly than the GPU works waits hardly, so nearly all of its gaps stay.

use super::Cause;
use super::closed::Closed;
use super::lead::Lead;
use std::collections::VecDeque;

/// The launches that a stream's queue holds (docs/hardware.md, `launch_queue`).
const QUEUE: u64 = 1024;
/// Of so many launches, the time of one is kept.
const EACH: u64 = 64;

/// The replay of the processes on a timeline.
#[derive(Clone, Debug, Default)]
pub struct WithoutWaits {
    /// By the number of the process.
    processes: Vec<Replay>,
    /// How often time has passed that was not observed.
    unobserved: u64,
}

/// The replay of one process.
#[derive(Clone, Debug, Default)]
struct Replay {
    /// Of the time that its threads waited, what gaps have used, or no gap can use any more, ns.
    used: u64,
    /// [`WithoutWaits::unobserved`] when that was known.
    unobserved: u64,
    /// The last launches, one of [`EACH`]: their numbers in the process, and when they started on the line.
    launches: VecDeque<(u64, i64)>,
    /// The return of the last wait that a gap was owed to.
    last_wait: Option<i64>,
}

/// The part of a gap that is owed to waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// Its length, ns.
    pub ns: u64,
    /// Whether it is the first gap that is owed to the last wait before it.
    pub is_first: bool,
}

impl WithoutWaits {
    /// Notes that time has passed in which not everything was observed.
    pub fn skip(&mut self) {
        self.unobserved += 1;
    }

    /// Notes that an operation starts at `time`.
    pub fn start(&mut self, lead: &Lead, time: i64) {
        let launches = &mut self.of(lead.process).launches;
        if launches.back().is_none_or(|(last, _)| lead.launches >= last + EACH) {
            launches.push_back((lead.launches, time));
        }
        while launches.front().is_some_and(|(first, _)| lead.launches > first + QUEUE) {
            launches.pop_front();
        }
    }

    /// Returns the part of a gap that would not be there without the waits, if the operation with this lead ended it.
    pub fn owed(&mut self, gap: &Closed, lead: &Lead) -> Owed {
        let Some(waited) = lead.waited else { return Owed::default() };
        let unobserved = self.unobserved;
        let replay = self.of(lead.process);
        if replay.unobserved != unobserved {
            (replay.unobserved, replay.used) = (unobserved, waited.total);
        }
        if lead.is_behind_load {
            replay.used = replay.used.max(waited.total);
        }
        let oldest = replay.launches.front().map_or(gap.from, |(_, time)| *time);
        let queue = gap.to.saturating_sub(oldest).max(0) as u64;
        let ahead = waited.total.saturating_sub(replay.used).min(queue);
        let ns = of_host(gap, lead).min(ahead);
        replay.used = replay.used.max(waited.total.saturating_sub(ahead - ns));
        let is_first = ns > 0 && replay.last_wait != Some(waited.to);
        if is_first {
            replay.last_wait = Some(waited.to);
        }
        Owed { ns, is_first }
    }

    fn of(&mut self, process: u32) -> &mut Replay {
        let at = process as usize;
        if self.processes.len() <= at {
            self.processes.resize_with(at + 1, Replay::default);
        }
        &mut self.processes[at]
    }
}

/// Returns what of a gap is there because the operation was enqueued late, ns.
fn of_host(gap: &Closed, lead: &Lead) -> u64 {
    let late = lead.returned.min(gap.to).saturating_sub(gap.from).max(0) as u64;
    match lead.enqueued {
        _ if late == 0 => 0,
        // The time from a launch to its start passes while the work before it runs.
        Cause::Starting => gap.duration.value,
        _ => late.min(gap.duration.value),
    }
}

#[cfg(test)]
mod tests;

//! When is a process looked at, and what does its segment say of its calls and its poller?

use super::{HangNotice, HangWatch, InCall, Look, Watch};
use crate::collect::host_ticks::Clock;
use crate::trace::record::{Ending, Hang};
use gpuspy_wire::record::LossCause;
use gpuspy_wire::ring::Phase;
use gpuspy_wire::segment::{POLLER_SLOT, Segment};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What the poller's last pass left pending. Read before the rings are emptied, so that all that the pass found complete
/// has been taken by then.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::collect) struct Polled {
    /// Ticks when the pass began; 0 = there was none.
    at: u64,
    /// The number of operations that were pending.
    pending: u64,
}

impl Polled {
    pub(in crate::collect) fn read(segment: Segment<'_>) -> Polled {
        let live = &segment.header().live.0;
        // Acquire pairs with the release of the poller: what that pass has published is in its ring.
        let at = live.polled.load(Ordering::Acquire);
        // Relaxed: of that pass or a later one.
        Polled { at, pending: live.pending.load(Ordering::Relaxed) }
    }
}

/// The watch over a process, and who gets the report of it.
#[derive(Debug)]
pub(in crate::collect) struct ProcessWatch<'s> {
    segment: Segment<'s>,
    watch: Watch,
    tell: Option<fn(&HangNotice<'_>)>,
    pid: u32,
    program: &'s str,
    /// When to look next.
    due: Instant,
    polled: Polled,
    /// The number of GPU times that the poller had no room for.
    lost: u64,
}

impl<'s> ProcessWatch<'s> {
    /// Begins the watch; `None` if hangs are not looked for.
    pub(in crate::collect) fn new(
        segment: Segment<'s>,
        hangs: HangWatch,
        pid: u32,
        program: &'s str,
    ) -> Option<ProcessWatch<'s>> {
        let HangWatch { after, tell } = hangs;
        let (watch, due, polled) = (Watch::new(after?), Instant::now(), Polled::default());
        Some(ProcessWatch { segment, watch, tell, pid, program, due, polled, lost: 0 })
    }

    /// What takes the records.
    pub(in crate::collect) fn watch(&mut self) -> &mut Watch {
        &mut self.watch
    }

    /// All hangs, for the status.
    pub(in crate::collect) fn hangs(&self) -> Vec<Hang> {
        self.watch.hangs()
    }

    /// Looks for what hangs, if it is time, and tells it. All records up to `polled` have been taken. `host_now` returns
    /// host ns.
    pub(in crate::collect) fn look(&mut self, polled: Polled, clock: &Clock, host_now: impl FnOnce() -> u64) {
        self.polled = polled;
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + self.watch.period();
        let lost = self.lost();
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.watch.forget();
        }
        let (found, more) = self.watch.look(&self.seen(clock, host_now()));
        let Some(tell) = self.tell else { return };
        for (left, hang) in (0..found.len()).rev().zip(&found) {
            let more = if left == 0 { more } else { 0 };
            let (pid, program, names) = (self.pid, self.program, self.watch.names());
            tell(&HangNotice { pid, program, hang, names, more });
        }
    }

    /// Looks for the last time.
    pub(in crate::collect) fn finish(&mut self, clock: &Clock, host_now: u64, ending: Ending) {
        let look = self.seen(clock, host_now);
        self.watch.finish(&look, ending);
    }

    /// What there is to look at, at `now` (host ns).
    fn seen(&self, clock: &Clock, now: u64) -> Look {
        let began = self.segment.header().anchor_ticks;
        let slots = (0..self.segment.layout().slots as usize).filter_map(|n| self.segment.slot(n));
        let calls = slots.filter_map(|slot| {
            let is_open = slot.state.get().0 == Phase::Open;
            // A call cannot be older than the process: whoever writes that is not our agent.
            let call = slot.counters.0.in_progress.get().filter(|call| is_open && call.since >= began)?;
            // Relaxed: published by the release that opened the slot, which `state.get` acquired.
            let tid = slot.tid.load(Ordering::Relaxed) as u32;
            Some(InCall { tid, api: call.api, caller: call.caller, since: clock.ns(call.since) })
        });
        let Polled { at, pending } = self.polled;
        let polled = (at >= began && pending > 0).then(|| clock.ns(at).min(now));
        Look { now, polled, calls: calls.collect() }
    }

    /// The number of GPU times that were lost because the poller's ring was full.
    fn lost(&self) -> u64 {
        let counters = self.segment.slot(POLLER_SLOT).map(|slot| &slot.counters.0);
        // Relaxed: a counter.
        counters.map_or(0, |counters| counters.lost[LossCause::RingFull as usize].load(Ordering::Relaxed))
    }
}

//! When did a launch of an executable graph begin that was behind the launch before it?
//!
//! A launch "is ordered behind both any previous work in this stream and any previous launches of this graph" (cuda.h,
//! `cuGraphLaunch`). So a launch on another stream than the one before may wait for that, and its start event fires as it
//! begins to wait. That time is none of the graph's.

use super::gpu_interval::{Basis, GpuInterval, host};
use crate::hash::HashMap;
use crate::trace::record::Synchronize;
use gpuspy_wire::record::SyncScope;

/// The last launch of each executable graph, by context and `CUgraphExec`.
#[derive(Debug, Default)]
pub struct GraphOrder {
    /// Its stream, and when it ran.
    ran: HashMap<(u32, u64), (u64, GpuInterval)>,
    /// The streams of those that have no GPU time, and may be running.
    open: HashMap<(u32, u64), u64>,
}

impl GraphOrder {
    /// Takes the next launch of an executable graph: the context, the graph and the stream. `interval` is when it ran by its own events,
    /// if it has a GPU time; what it waited for the launch before is taken off that.
    pub fn launched(&mut self, context: u32, graph: u64, stream: u64, interval: Option<&mut GpuInterval>) {
        let key = (context, graph);
        let Some(interval) = interval else {
            self.ran.remove(&key);
            self.open.insert(key, stream);
            return;
        };
        if self.open.remove(&key).is_some_and(|last| last != stream) {
            may_wait(interval, interval.latest_end);
        }
        if let Some((last, before)) = self.ran.get(&key)
            && *last != stream
        {
            behind(interval, before);
        }
        self.ran.insert(key, (stream, *interval));
    }

    /// The program waited: launches without a GPU time are over that it waited for.
    pub fn synchronized(&mut self, sync: &Synchronize) {
        let is_whole = matches!(sync.scope, SyncScope::Device | SyncScope::Context);
        let is_of = |stream: u64| is_whole || sync.scope == SyncScope::Stream && stream == sync.stream;
        self.open.retain(|(context, _), stream| *context != sync.call.context || !is_of(*stream));
    }
}

/// Takes off an interval what it waited for the operation before.
fn behind(interval: &mut GpuInterval, before: &GpuInterval) {
    // Two stamps of one time base differ by what their precision leaves open, and those of two also by what the clocks do.
    let of_clocks = || Some(host(before.off_by?).saturating_add(host(interval.off_by?)));
    let is_of_one = before.time_base == interval.time_base;
    let Some(off) = (if is_of_one { Some(0) } else { of_clocks() }) else {
        return may_wait(interval, interval.latest_end);
    };
    let off = before.stamps_off_by().saturating_add(off);
    let (least, most) = (before.earliest_end.saturating_sub(off), before.latest_end.saturating_add(off));
    may_wait(interval, most);
    let earliest = least.clamp(interval.earliest_start, interval.latest_end.max(interval.earliest_start));
    let waited = earliest.abs_diff(interval.earliest_start);
    interval.earliest_start = earliest;
    interval.earliest_end = interval.earliest_end.max(earliest);
    interval.raw = interval.raw.saturating_sub(waited);
    interval.start = interval.start.max(before.end).clamp(earliest, interval.end.max(earliest));
    let length = &mut interval.length;
    length.hi = length.hi.saturating_sub(waited).max(length.lo);
    length.value = interval.end.abs_diff(interval.start).clamp(length.lo, length.hi);
}

/// Says that an operation may have waited until a moment.
fn may_wait(interval: &mut GpuInterval, until: i64) {
    if until <= interval.earliest_start {
        return;
    }
    let until = until.min(interval.latest_end);
    let most = until.saturating_sub(interval.earliest_start).max(0) as u64;
    interval.length.lo = interval.length.lo.saturating_sub(most);
    interval.latest_start = interval.latest_start.max(until);
    interval.busy_from = interval.busy_from.max(until);
    if interval.basis == Basis::Proven {
        interval.basis = Basis::Corrected;
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulation::exactly;
    use super::*;
    use crate::trace::record::Call;

    const GRAPH: u64 = 0x10;

    /// A launch of 100 µs on stream 1, and one on `stream` whose start event fired 90 µs before that was over, and which
    /// took 110 µs from there. `is_timed`: whether the first one has a GPU time; `waits`: whether the program waits in between.
    fn second(stream: u64, is_timed: bool, waits: bool) -> GpuInterval {
        let mut order = GraphOrder::default();
        let (mut first, mut second) = (exactly(0, 100_000), exactly(10_000, 120_000));
        order.launched(1, GRAPH, 1, is_timed.then_some(&mut first));
        if waits {
            let call = Call { context: 1, ..Call::default() };
            order.synchronized(&Synchronize { call, scope: SyncScope::Stream, stream: 1, event: 0 });
        }
        order.launched(1, GRAPH, stream, Some(&mut second));
        second
    }

    #[test]
    fn a_launch_behind_another_one_of_its_graph_begins_when_that_has_ended() {
        let waited = second(2, true, false);
        assert_eq!((waited.start, waited.end, waited.earliest_start), (100_000, 120_000, 100_000));
        assert_eq!((waited.lo(), waited.value(), waited.hi()), (20_000, 20_000, 20_000));
        assert_eq!(second(1, true, false), exactly(10_000, 120_000), "its stream orders it");
    }

    #[test]
    fn behind_a_launch_without_a_time_nothing_is_certain() {
        let waited = second(2, false, false);
        assert_eq!((waited.lo(), waited.hi(), waited.busy_from), (0, 110_000, 120_000));
        assert_eq!(waited.earliest_start, 10_000);
        assert_eq!(second(2, false, true), exactly(10_000, 120_000), "the program waited for it");
    }
}

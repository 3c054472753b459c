//! How is a process, as far as its segment says it?

use super::host_time::HostTime;
use super::process::{self, Process};
use crate::trace::record::{Ending, Exit, Status};
use gpuspy_wire::record::LossCause;
use gpuspy_wire::segment::Segment;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) ending: Ending,
    pub(super) exit: Option<Exit>,
}

impl End {
    pub(super) const NONE: End = End { ending: Ending::Running, exit: None };
    /// Nobody writes what was recorded.
    pub(super) const GIVEN_UP: End = End { ending: Ending::Detached, exit: None };
}

/// Whether the agent's exit handler has run.
pub(super) fn is_exiting(segment: Segment<'_>) -> bool {
    // Acquire pairs with the agent's release: what was recorded before is in the rings.
    segment.header().live.0.exiting.load(Ordering::Acquire) == 1
}

/// A process's pid for display: in the collector's namespace, or in its own where the collector's has none for it, as that
/// of a container beside it.
pub(super) fn shown_pid(process: &Process, segment: Segment<'_>) -> u32 {
    if process.pid == 0 { segment.header().pid } else { process.pid }
}

/// The status as far as the segment contains it.
pub(super) fn status(segment: Segment<'_>, process: &Process, clock: &HostTime, end: End) -> Status {
    // Relaxed, all of them: counters that stand alone, exact once their writers have ended.
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let header = segment.header();
    let live = &header.live.0;
    let mut status = Status {
        pid: shown_pid(process, segment),
        start_time: header.start_time,
        began: clock.began,
        began_realtime: header.anchor_realtime,
        session_realtime: None,
        ended: clock.now(),
        ending: end.ending,
        exit: end.exit,
        boot: process::boot(),
        parent: process.parent,
        write_error: None,
        agent_ns: 0,
        poller_ns: read(&live.poller_ns),
        calls: 0,
        published: 0,
        collected: 0,
        pending: read(&live.pending),
        lost: BTreeMap::new(),
        outside_launches: 0,
        outside_others: 0,
        lookups: read(&live.lookups),
        lookups_hooked: read(&live.lookups_hooked),
        driver_hooked: read(&live.driver_hooked) == 1,
        threads: BTreeMap::new(),
        hangs: Vec::new(),
    };
    let mut lose = |counters: &[AtomicU64]| {
        for &cause in LossCause::ALL {
            match read(&counters[cause as usize]) {
                0 => {}
                count => add(status.lost.entry(cause).or_default(), count),
            }
        }
    };
    lose(&live.lost);
    let mut agent_ticks = 0;
    for slot in (0..segment.layout().slots as usize).filter_map(|n| segment.slot(n)) {
        let counters = &slot.counters.0;
        lose(&counters.lost);
        add(&mut agent_ticks, read(&counters.agent_ticks));
        add(&mut status.calls, read(&counters.calls));
        add(&mut status.published, read(&counters.records));
    }
    status.agent_ns = clock.clock().length(agent_ticks);
    status
}

/// Adds without overflow: a peer can write any number into a counter.
pub(super) fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

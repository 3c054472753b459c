//! Which number stands for which process, thread, GPU and stream in a file that may contain several processes?

use super::Source;
use super::scene::Stream;
use super::sink::Row;
use crate::hash::HashMap;
use crate::model::streams::Numbers;
use std::collections::BTreeMap;

/// Linux gives no process or thread so high a number (PID_MAX_LIMIT, linux/threads.h): free for processes without a
/// known pid.
const NO_PID: u32 = 1 << 22;

/// The numbers of all processes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The real-time clock at time 0 of the file, ns.
    pub base: i128,
    pub processes: Vec<ProcessRows>,
    /// Numbers of streams' rows, and of the rows beside them.
    pub rows: Numbers,
}

/// The numbers of a process.
#[derive(Debug)]
pub(super) struct ProcessRows {
    pub pid: u32,
    /// Claim number → Linux tid.
    tids: BTreeMap<u32, u32>,
    /// Ordinal → the pid of its rows, which is also the device's number. `None` stands for contexts with an unknown
    /// device.
    pub gpus: BTreeMap<Option<u32>, u32>,
    /// Host ns of time 0 of the file.
    pub zero: i64,
    /// (context, stream id) → its row.
    pub streams: HashMap<(u32, u64), Place>,
}

/// A stream's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Its pid.
    pub gpu: u32,
    /// Its tid.
    pub row: u32,
}

impl Place {
    /// The row as it is shown.
    pub fn shown(&self) -> Row {
        Row { pid: self.gpu, tid: self.row }
    }
}

impl ProcessRows {
    /// A thread's tid.
    pub fn tid(&self, thread: u32) -> u32 {
        self.tids.get(&thread).copied().unwrap_or_else(|| NO_PID.saturating_add(thread))
    }
}

impl Layout {
    pub fn of(sources: &[Source]) -> Layout {
        let base = sources.iter().map(|source| source.place.base).min().unwrap_or(0);
        let mut pids = Numbers::default();
        let pid = |(index, source): (usize, &Source)| {
            source.status.as_ref().map_or(NO_PID + index as u32, |status| status.pid)
        };
        let own: Vec<u32> = sources.iter().enumerate().map(pid).collect();
        pids.reserve(own.iter().copied());
        let mut rows = Numbers::default();
        let mut processes = Vec::new();
        for (source, pid) in sources.iter().zip(own) {
            let gpus = gpus(source, &mut pids);
            let place = |stream: &Stream| {
                let gpu = gpus[&source.clocks.devices.get(&stream.context).copied()];
                // The numbers of a run's streams fit into 32 bits.
                let row = source.place.filter.number_of(stream.context, stream.stream) as u32;
                (stream.key(), Place { gpu, row })
            };
            let streams: HashMap<_, _> = source.scene.streams.iter().map(place).collect();
            rows.reserve(streams.values().map(|place| place.row));
            let tids = source.status.as_ref().map(|status| status.threads.clone()).unwrap_or_default();
            processes.push(ProcessRows { pid, tids, gpus, streams, zero: source.place.zero });
        }
        Layout { base, processes, rows }
    }
}

/// Numbers every GPU that the trace reports or that has rows: by its ordinal if that is free, else by the next free
/// number.
fn gpus(source: &Source, pids: &mut Numbers) -> BTreeMap<Option<u32>, u32> {
    let with_rows = source.scene.streams.iter().map(|s| source.clocks.devices.get(&s.context).copied());
    let reported = source.scene.devices.keys().copied().map(Some);
    let mut gpus: BTreeMap<Option<u32>, u32> =
        with_rows.chain(reported).map(|ordinal| (ordinal, 0)).collect();
    // `None` comes first, but must not take a known GPU's number.
    let known = gpus.iter_mut().filter(|(ordinal, _)| ordinal.is_some());
    known.for_each(|(ordinal, number)| *number = pids.take(*ordinal));
    if let Some(number) = gpus.get_mut(&None) {
        *number = pids.take(None);
    }
    gpus
}

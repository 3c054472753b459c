//! Which number stands for which process, thread, GPU and stream in a file that may contain several processes?

use super::Source;
use super::scene::Stream;
use super::sink::Row;
use crate::hash::{HashMap, HashSet};
use crate::model::streams::Numbers;
use std::collections::BTreeMap;

/// Linux gives no process or thread so high a number (PID_MAX_LIMIT, linux/threads.h): free for processes without a
/// known pid, and for those whose pid another process of the file has.
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
    /// Its pid in the system, if the rows have another one.
    pub real_pid: Option<u32>,
    /// Claim number → Linux tid.
    tids: BTreeMap<u32, u32>,
    /// Claim number → the tid of its row, where that is another one.
    moved: BTreeMap<u32, u32>,
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
    /// The tid of a thread's row.
    pub fn tid(&self, thread: u32) -> u32 {
        self.moved.get(&thread).copied().unwrap_or_else(|| self.real_tid(thread))
    }

    /// A thread's tid in the system, which its name has.
    pub fn real_tid(&self, thread: u32) -> u32 {
        self.tids.get(&thread).copied().unwrap_or_else(|| NO_PID.saturating_add(thread))
    }
}

impl Layout {
    pub fn of(sources: &[Source]) -> Layout {
        let base = sources.iter().map(|source| source.place.base).min().unwrap_or(0);
        let mut pids = Numbers::default();
        let mut free = Free { taken: sources.iter().filter_map(Source::pid).collect() };
        let mut known: HashSet<u32> = HashSet::default();
        let mut pid = |(index, source): (usize, &Source)| {
            // Processes of several machines or containers, or of one before and after exec, may have one pid.
            let own = source.pid().filter(|pid| known.insert(*pid));
            own.unwrap_or_else(|| free.from(NO_PID + index as u32))
        };
        let own: Vec<u32> = sources.iter().enumerate().map(&mut pid).collect();
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
            let real_pid = source.pid().filter(|real| *real != pid);
            let moved = real_pid.map(|real| free.tids(source, (real, pid))).unwrap_or_default();
            let zero = source.place.zero;
            processes.push(ProcessRows { pid, real_pid, tids, moved, gpus, streams, zero });
        }
        Layout { base, processes, rows }
    }
}

/// Numbers that no process has.
struct Free {
    taken: HashSet<u32>,
}

impl Free {
    /// Takes the first free number from this one on.
    fn from(&mut self, first: u32) -> u32 {
        let mut number = first;
        while !self.taken.insert(number) {
            number = number.saturating_add(1);
        }
        number
    }

    /// Numbers the threads of a process that has another pid in the file: readers know a thread by its tid.
    fn tids(&mut self, source: &Source, (real, pid): (u32, u32)) -> BTreeMap<u32, u32> {
        let known = source.status.as_ref().map(|status| &status.threads);
        let mut threads = source.scene.threads.clone();
        threads.extend(known.into_iter().flat_map(BTreeMap::keys));
        let mut next = pid;
        let mut number = |thread: u32| {
            // The tid of the main thread is the pid.
            let is_main = known.and_then(|known| known.get(&thread)) == Some(&real);
            if is_main {
                return pid;
            }
            next = self.from(next);
            next
        };
        threads.into_iter().map(|thread| (thread, number(thread))).collect()
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

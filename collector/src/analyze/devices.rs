//! The rows about GPUs: which they are, where their time went, and when they had nothing to do.

use super::gaps::Neighbour;
use super::gaps::rows::{GapReport, side};
use super::graphs::GraphUse;
use super::identity::Identity;
use super::kernels::{self, Kernel};
use super::merge::Merge;
use super::pipeline::End;
use super::summary::Line;
use super::timeline::DeviceTime;
use super::transfers::{self, Transfers};
use super::whole::{Work, extrapolated};
use crate::model::gpu_interval::host;
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// A GPU and where its time went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReport {
    /// Its ordinal in the process; `None` when its context was never told.
    pub id: Option<u32>,
    /// Its UUID, as nvidia-smi prints it.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// Host ns from the begin of its line to the begin of its span; `None` if it had no work, or for several timelines added.
    pub began_ns: Option<u64>,
    /// The time that its row is about.
    pub line: Line,
    /// The parts of its time.
    pub identity: Identity,
    /// What its operations took in the time that was observed, and in the pauses of the budget.
    pub work: Work,
    /// Streams that had work.
    pub streams: u64,
    /// How many timelines there are: one, or one for each context whose device was never told, added side by side.
    pub timelines: u64,
    /// How many processes used it.
    pub processes: u64,
    /// Operations with a GPU time, in the time that is asked for or outside of it.
    pub timed: u64,
    /// Operations that came too late for their place.
    pub late: u64,
    /// When it had nothing to do.
    pub gaps: GapReport,
}

impl DeviceReport {
    /// Fills in what its untimed operations took: those that were called in pauses, and others. By that its gaps are bounded,
    /// too: they are no longer than it can have been idle.
    pub fn extrapolate(&mut self, kernels: &[Kernel], graphs: &GraphUse, transfers: &Transfers) {
        let id = self.id;
        let [compute, communication] = kernels::untimed(kernels, |strata| strata.paused(id));
        let copies = transfers::untimed(transfers, |strata| strata.paused(id));
        self.work.paused = [compute, graphs.strata.paused(id), communication, copies];
        let [compute, communication] = kernels::untimed(kernels, |strata| strata.unseen(id));
        let copies = transfers::untimed(transfers, |strata| strata.unseen(id));
        self.work.unseen = [compute, graphs.strata.unseen(id), communication, copies];
        self.gaps.total.hi = self.whole().idle.hi;
    }

    /// The parts of its time, with what passed in pauses of the budget shared out, as far as that can be told.
    pub fn whole(&self) -> Identity {
        extrapolated(&self.identity, &self.work).unwrap_or(self.identity)
    }
}
/// Returns the row of every device that the trace names or that had work.
pub fn rows(mut times: BTreeMap<Option<u32>, DeviceTime>, end: &End<'_>) -> Vec<DeviceReport> {
    let End { names, known, line, .. } = *end;
    for ordinal in known.devices.keys() {
        times.entry(Some(*ordinal)).or_default();
    }
    let beside = |neighbour: &Neighbour| Some((end.pid, side(neighbour, neighbour.caller, known, names)));
    let row = |(id, time): (Option<u32>, DeviceTime)| {
        let device = id.and_then(|id| known.devices.get(&id));
        let began_ns = time.began.map(|at| at.saturating_sub(host(line.began)).max(0) as u64);
        let found = time.gaps.finish(time.identity.idle.hi);
        DeviceReport {
            id,
            uuid: device.map(|device| uuid(&device.uuid)),
            name: id.and_then(|id| names.get(Namespace::Device, id.checked_add(1)?)).map(str::to_owned),
            memory_bytes: device.map(|device| device.memory_bytes),
            began_ns,
            line,
            timed: time.timed,
            identity: time.identity,
            work: Work { observed: time.work, ..Work::default() },
            streams: time.streams,
            timelines: time.timelines,
            processes: u64::from(time.timelines > 0),
            late: time.late,
            gaps: GapReport::of(found, (id, began_ns), beside, |caller| end.library(caller)),
        }
    };
    times.into_iter().map(row).collect()
}

/// Returns the gaps of all devices together.
pub fn gaps(devices: &[DeviceReport]) -> GapReport {
    let mut all = GapReport::default();
    devices.iter().for_each(|device| all.merge(&device.gaps));
    all
}

/// A UUID as nvidia-smi prints it.
fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

//! The rows about GPUs: which they are, where their time went, and when they were idle.

use super::analysis::End;
use super::analysis::Line;
use super::bins::Bins;
use super::estimate::Sum;
use super::gaps::Neighbour;
use super::gaps::rows::{GapReport, side};
use super::graphs::GraphUse;
use super::identity::Identity;
use super::idle::IdleReport;
use super::idle::by_step::{BeforeSteps, StepIdle};
use super::idle::rows::Resolve;
use super::kernels::{self, Kernel};
use super::merge::Merge;
use super::source::Source;
use super::timeline::DeviceTime;
use super::transfers::{self, Transfers};
use super::whole::{Work, whole};
use crate::model::gpu_interval::host;
use crate::model::job::Job;
use crate::model::stacks::Caller;
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// A GPU and where its time went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReport {
    /// Its ordinal in the process; `None` if the trace does not say which device its context belongs to.
    pub id: Option<u32>,
    /// Its UUID, as nvidia-smi prints it.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The size of its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Host ns from the start of its line to the start of its span; `None` if it had no work, or for several
    /// timelines that were added.
    pub began_ns: Option<u64>,
    /// The time that this row is about.
    pub line: Line,
    /// The parts of its time.
    pub identity: Identity,
    /// What ran when, as far as it was observed; empty for several timelines that were added.
    pub bins: Bins,
    /// The time of its operations, observed and in the pauses of the budget.
    pub work: Work,
    /// The number of streams that had work.
    pub streams: u64,
    /// The number of timelines: one, or one for each context whose device is unknown; those are added.
    pub timelines: u64,
    /// The number of processes that used it.
    pub processes: u64,
    /// Operations with a GPU time, inside and outside the selected period.
    pub timed: u64,
    /// Operations that arrived too late for their place in GPU order.
    pub late: u64,
    /// Its idle gaps.
    pub gaps: GapReport,
    /// Why it was idle: the gaps by cause, and the rest of its idle time.
    pub idle: IdleReport,
    /// The gaps of each of its timelines by the steps of the process, and by cause. Several processes together have none.
    pub idle_by_step: Vec<StepIdle>,
    /// Its time before the first step of its process. Several processes together have none.
    pub before_steps: BeforeSteps,
}

impl DeviceReport {
    /// Adds the estimated time of untimed operations: those that were called in pauses of the budget, and others.
    /// That also bounds the gaps: together they are no longer than the device can have been idle.
    /// `listed`: what the tables have of the operations that used it.
    pub fn extrapolate(
        &mut self,
        kernels: &[Kernel],
        graphs: &GraphUse,
        transfers: &Transfers,
        listed: Listed,
    ) {
        let id = self.id;
        let [compute, communication] = kernels::untimed(kernels, |strata| strata.paused(id));
        let copies = transfers::untimed(transfers, |strata| strata.paused(id));
        self.work.paused = [compute, graphs.strata.paused(id), communication, copies];
        let [compute, communication] = kernels::untimed(kernels, |strata| strata.unseen(id));
        let copies = transfers::untimed(transfers, |strata| strata.unseen(id));
        self.work.unseen = [compute, graphs.strata.unseen(id), communication, copies];
        let ordinary = || kernels.iter().filter(|kernel| !kernel.communication);
        match listed {
            Listed::All => self.work.most_compute = ordinary().map(|kernel| kernel.strata.most(id)).sum(),
            Listed::Kernels => {
                let total = |kernel: &Kernel| kernel.strata.total_on(id).map(Sum::from);
                self.work.selected = ordinary().map(total).reduce(both).flatten();
            }
            Listed::Some => {}
        }
        self.gaps.total.hi = self.whole().idle.hi;
        self.complete_idle();
    }

    /// Adds to the gaps the idle time that lies in none.
    pub fn complete_idle(&mut self) {
        let idle = self.whole().idle;
        self.idle.add_pauses(idle.value.saturating_sub(self.identity.idle.value));
        self.idle.complete(idle);
    }

    /// Returns the parts of its time, with the pauses of the budget divided among them as far as that can be
    /// estimated.
    pub fn whole(&self) -> Identity {
        whole(&self.identity, &self.work, self.streams)
    }

    /// Returns the row without the gaps and the places of its idle time, which are most of it. Those of all devices are in tables of
    /// their own.
    pub fn without_gaps(&self) -> DeviceReport {
        DeviceReport {
            uuid: self.uuid.clone(),
            name: self.name.clone(),
            bins: self.bins.clone(),
            gaps: GapReport::default(),
            idle: IdleReport { by_cause: self.idle.by_cause.clone(), ..IdleReport::default() },
            idle_by_step: Vec::new(),
            ..*self
        }
    }
}

/// What the tables have of the operations that used a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All.
    All,
    /// All of some kernels, and nothing else is selected.
    Kernels,
    /// An unknown part.
    Some,
}

/// Returns the sum of two times; `None` if one of them is not known.
pub fn both(one: Option<Sum>, other: Option<Sum>) -> Option<Sum> {
    let (mut sum, other) = one.zip(other)?;
    sum.add(other);
    Some(sum)
}

/// Returns a row for every device that the trace names or that had work.
pub fn rows(mut times: BTreeMap<Option<u32>, DeviceTime>, end: &End<'_>) -> Vec<DeviceReport> {
    let End { names, known, line, .. } = *end;
    for ordinal in known.devices.keys() {
        times.entry(Some(*ordinal)).or_default();
    }
    let process = [end.pid, Job::of(names).rank];
    let beside = |neighbour: &Neighbour| Some((process, side(neighbour, neighbour.caller, known, names)));
    let row = |(id, time): (Option<u32>, DeviceTime)| {
        let device = id.and_then(|id| known.devices.get(&id));
        let began_ns = time.began.map(|at| at.saturating_sub(host(line.began)).max(0) as u64);
        let idle = time.idle.report(end);
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
            bins: time.bins,
            work: Work { observed: time.work, ..Work::default() },
            streams: time.streams,
            timelines: time.timelines,
            processes: u64::from(time.timelines > 0),
            late: time.late,
            gaps: GapReport::of(found, (id, began_ns), beside, |caller| end.source(caller), end),
            idle,
            idle_by_step: time.idle_by_step,
            before_steps: time.before_steps,
        }
    };
    times.into_iter().map(row).collect()
}

impl Resolve for End<'_> {
    fn tid(&self, _: u32, thread: u32) -> Option<u32> {
        self.status?.threads.get(&thread).copied()
    }

    fn text(&self, _: u32, namespace: Namespace, id: u32) -> Option<&str> {
        self.names.get(namespace, id)
    }

    fn source(&self, _: u32, caller: Caller) -> Source {
        End::source(self, caller)
    }
}

/// Returns why all devices together were idle.
pub fn idle(devices: &[DeviceReport]) -> IdleReport {
    let mut all = IdleReport::default();
    devices.iter().for_each(|device| all.merge(&device.idle));
    all
}

/// Returns the gaps of all devices together.
pub fn gaps(devices: &[DeviceReport]) -> GapReport {
    let mut all = GapReport::default();
    devices.iter().for_each(|device| all.merge(&device.gaps));
    all
}

/// Formats a UUID as nvidia-smi prints it.
fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

//! GPUs: where each one's time went.

use super::numbers::Estimate;
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::{self, Kind, Sum};
use crate::analyze::identity::Class;
use crate::analyze::whole::extrapolated;
use crate::hash::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

/// A GPU and where its time went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Device {
    /// The ordinal of the device in the process; null = the device of the context is not known.
    pub id: Option<u32>,
    /// The rank of the process that uses it; null = processes have no ranks, or do not use one GPU each.
    pub rank: Option<u32>,
    /// The UUID, as nvidia-smi prints it.
    pub uuid: Option<String>,
    /// The name of the model.
    pub name: Option<String>,
    /// The size of its memory.
    pub memory_bytes: Option<u64>,
    /// The time from the start of the collection (of the first process) to the start of the span; null = the device had
    /// no work, or several timelines are added up.
    pub start_ns: Option<u64>,
    /// The number of streams that had work. If it equals timelines, nothing ran at the same time except inside graphs.
    pub streams: u64,
    /// 1, or the number of contexts whose device is not known, whose times are added up.
    pub timelines: u64,
    /// The number of processes that used the GPU. It is busy where any of them is, and idle where none is.
    pub processes: u64,
    /// The number of operations whose records came too late to be put in their order; the intervals allow for them.
    pub late_operations: u64,
    /// The time from the first start event to the last end event.
    pub span_ns: u64,
    /// The part of the span outside sampling pauses. If that is less than the span, or work outside of pauses has no time, the
    /// parts are extrapolated: such work is assumed to take as long as timed work of the same kernel and shape, size or
    /// graph, and the rest of the pauses is idle.
    pub observed_ns: u64,
    /// The time in which a kernel ran.
    pub compute_ns: Estimate,
    /// The time in which a communication kernel ran, and no other kernel and no graph.
    pub exposed_comm_ns: Estimate,
    /// The time in which a copy or memset ran, and no kernel or graph.
    pub exposed_copy_ns: Estimate,
    /// The time in which a graph launch ran, and no kernel beside it.
    pub graph_ns: Estimate,
    /// The time in which nothing ran.
    pub idle_ns: Estimate,
    /// The time that is neither certainly busy nor certainly idle, because work without an exact position may have run.
    /// hi is all time that is not certain.
    pub undecided_ns: Estimate,
    /// The time in which work may have run that was left untimed to keep within the budget.
    pub unobserved_ns: Estimate,
}

/// Returns the sum of the wall times of all GPUs that were used, ns.
pub fn wall(devices: &[DeviceReport]) -> u64 {
    let used = devices.iter().filter(|device| device.timelines > 0);
    used.map(|device| device.line.looked_ns).fold(0, u64::saturating_add)
}

impl Device {
    /// Returns the row, with the pauses of the budget divided among its parts as far as that can be estimated. `ranks` are
    /// those of GPUs, by UUID.
    pub fn of(device: &DeviceReport, ranks: &HashMap<&str, u32>) -> Device {
        let identity = device.whole();
        let is_extrapolated = extrapolated(&device.identity, &device.work, device.streams).is_some();
        let part = |sum: Sum| match is_extrapolated {
            true => estimate::Estimate { kind: Kind::Extrapolated, ..sum.estimate() }.into(),
            false => sum.into(),
        };
        let busy = |class: Class| part(identity.busy[class as usize]);
        Device {
            id: device.id,
            rank: device.uuid.as_deref().and_then(|uuid| ranks.get(uuid).copied()),
            uuid: device.uuid.clone(),
            name: device.name.clone(),
            memory_bytes: device.memory_bytes,
            start_ns: device.began_ns,
            streams: device.streams,
            timelines: device.timelines,
            processes: device.processes,
            late_operations: device.late,
            span_ns: identity.span,
            observed_ns: identity.span.saturating_sub(device.identity.unobserved.value),
            compute_ns: busy(Class::Compute),
            exposed_comm_ns: busy(Class::Communication),
            exposed_copy_ns: busy(Class::Copy),
            graph_ns: busy(Class::Graph),
            idle_ns: part(identity.idle),
            undecided_ns: part(identity.undecided),
            unobserved_ns: identity.unobserved.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::identity::Identity;
    use crate::analyze::whole::Work;

    /// The section and the JSON rows of GPUs said that kernels ran for longer than the table of kernels, the first screen and the
    /// findings say.
    #[test]
    fn a_gpus_row_has_the_times_that_everything_else_has() {
        let exactly = |value| Sum { value, lo: value, hi: value };
        let compute = Sum { value: 53, lo: 39, hi: 53 };
        let busy = [compute, exactly(0), exactly(0), exactly(0)];
        let identity = Identity { span: 73, busy, idle: exactly(20), ..Identity::default() };
        let work = Work { observed: [53, 0, 0, 0], most_compute: Some(50), ..Work::default() };
        let device = DeviceReport { identity, work, timelines: 1, ..DeviceReport::default() };
        let row = Device::of(&device, &HashMap::default());
        assert_eq!((row.compute_ns.value, row.idle_ns.value, row.span_ns), (50, 23, 73));
        assert_eq!((device.whole().busy[0].value, device.whole().idle.value), (50, 23));
    }
}

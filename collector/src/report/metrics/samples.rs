//! What does the report of a window add to the metrics?

use super::family::Family;
use crate::report::rows::Report;
use crate::report::rows::devices::Device;

/// A value of a metric, with the labels that it has besides those of its process.
#[derive(Debug)]
pub struct Sample {
    /// The metric.
    pub family: Family,
    /// The names and values of its labels.
    pub labels: Vec<(&'static str, String)>,
    /// In the metric's unit.
    pub value: u64,
}

fn sample<const N: usize>(family: Family, labels: [(&'static str, &str); N], value: u64) -> Sample {
    let labels = labels.map(|(name, value)| (name, value.to_owned()));
    Sample { family, labels: labels.into(), value }
}

/// Returns the values of a report of one process.
pub fn of(report: &Report) -> Vec<Sample> {
    let gpus = report.devices.iter().flat_map(|device| gpu(device, report.wall_ns.unwrap_or(0)));
    let causes = report.idle.by_cause.iter();
    let idle = causes.map(|row| sample(Family::Idle, [("cause", row.cause)], row.total_ns.value));
    let findings = report.findings.iter().flat_map(|found| {
        let of = |family, value| sample(family, [("finding", found.id)], value);
        [of(Family::Finding, found.saves_ns.value), of(Family::FindingWindows, 1)]
    });
    gpus.chain(idle)
        .chain(findings)
        .chain(calls(report))
        .chain(memory(report))
        .chain(steps(report))
        .chain(own(report))
        .collect()
}

/// Where the time of a GPU went, of a process that was observed for so long.
fn gpu(device: &Device, wall: u64) -> Vec<Sample> {
    let (uuid, model) = (device.uuid.as_deref().unwrap_or(""), device.name.as_deref().unwrap_or(""));
    let undecided = device.undecided_ns.value.saturating_add(device.unobserved_ns.value);
    let states = [
        ("compute", device.compute_ns.value),
        ("graph", device.graph_ns.value),
        ("exposed_communication", device.exposed_comm_ns.value),
        ("exposed_copy", device.exposed_copy_ns.value),
        ("idle", device.idle_ns.value),
        ("undecided", undecided),
        ("no_work", wall.saturating_sub(device.span_ns)),
    ];
    // NVIDIA's DCGM exporter calls this label so: both can be joined by it.
    let labels = |state| [("UUID", uuid), ("model", model), ("state", state)];
    states.into_iter().map(|(state, ns)| sample(Family::Gpu, labels(state), ns)).collect()
}

/// What was called.
fn calls(report: &Report) -> Vec<Sample> {
    let failed = report.apis.iter().map(|api| api.failed).sum();
    let mut samples = vec![
        sample(Family::Launches, [], report.coverage.launches),
        sample(Family::GraphLaunches, [], report.graphs.launches),
        sample(Family::FailedCalls, [], failed),
    ];
    for row in &report.transfers {
        let labels = || [("kind", row.kind), ("host_memory", row.host_memory)];
        samples.push(sample(Family::Copies, labels(), row.count));
        samples.push(sample(Family::CopiedBytes, labels(), row.bytes));
    }
    let waits = report.syncs.iter().map(|row| (&row.api, row.times.host_ns));
    let waits = waits.chain(report.implicit_syncs.iter().map(|row| (&row.api, row.waited.value)));
    samples.extend(waits.map(|(api, ns)| sample(Family::Wait, [("api", api)], ns)));
    samples
}

/// Which memory was held.
fn memory(report: &Report) -> Vec<Sample> {
    let mut samples = vec![sample(Family::OutOfMemory, [], report.memory.out_of_memory)];
    for (kind, held) in &report.memory.by_kind {
        let labels = || [("kind", *kind)];
        samples.push(sample(Family::Allocations, labels(), held.allocations));
        samples.push(sample(Family::Memory, labels(), held.live_bytes));
        samples.push(sample(Family::MemoryPeak, labels(), held.peak_bytes.value));
    }
    samples
}

/// How long the steps took.
fn steps(report: &Report) -> Vec<Sample> {
    let steps = &report.steps;
    let times = [("0.5", steps.median_ns), ("0.95", steps.p95_ns)];
    let times = times.into_iter().filter_map(|(of, ns)| Some(sample(Family::Step, [("quantile", of)], ns?)));
    times.chain([sample(Family::Steps, [], steps.count)]).collect()
}

/// What was seen of the process, and what that cost.
fn own(report: &Report) -> Vec<Sample> {
    let hanging = report.hangs.iter().filter(|hang| !hang.over).count();
    let cost = report.overhead.as_ref().map_or([0, 0], |cost| [cost.agent_ns, cost.poller_ns]);
    let damages = report.processes.iter().map(|process| &process.damage);
    let lost: u64 = damages.map(|damage| damage.records_lost + damage.times_lost).sum();
    let [hooks, poller] = cost.map(|ns| move |part| sample(Family::Overhead, [("part", part)], ns));
    vec![
        sample(Family::Hanging, [], hanging as u64),
        sample(Family::Timed, [], report.coverage.timed),
        sample(Family::Dropped, [], report.coverage.dropped + lost),
        hooks("hooks"),
        poller("poller"),
    ]
}

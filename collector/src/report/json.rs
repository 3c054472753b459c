//! The report as JSON. Its keys are a contract, stated in `collector/schema/report.schema.json`.

use super::names::demangle;
use super::view::Unread;
use crate::analyze::calls::{ByApi, HostTimes};
use crate::analyze::devices::DeviceReport;
use crate::analyze::durations::Durations;
use crate::analyze::estimate::{Estimate, Kind, Sum};
use crate::analyze::gaps::rows::GapReport;
use crate::analyze::gaps::{BANDS, LARGEST, Part};
use crate::analyze::graphs::GraphUse;
use crate::analyze::identity::Class;
use crate::analyze::kernels::{Kernel, never_timed};
use crate::analyze::memory::{MemoryUse, Use};
use crate::analyze::overhead::Overhead;
use crate::analyze::owners::Holding;
use crate::analyze::ranges::{MarkTimes, RangeName, RangeTimes, RangeUse};
use crate::analyze::shapes::{Launched, Shapes};
use crate::analyze::startup::{Calls, Division, Part as StartPart, Startup};
use crate::analyze::transfers::{SizeClass, SizePart, Transfer, Transfers};
use crate::analyze::waits::{Cause, ImplicitSyncs, Waited};
use crate::analyze::whole::extrapolated;
use crate::analyze::windows::{Duty, Timing};
use crate::analyze::{ProcessReport, Tables, lines};
use crate::model::gpu_clock::{DRIFT_PPM, TURN_PPM};
use crate::model::graphs::Moves;
use crate::model::outcome::{Outcome, signal_name};
use crate::model::transfer::{HostMemory, TransferKind};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Returns the report of one process, or the sums of several. `processes` lists each of them.
pub fn json(reports: &[ProcessReport]) -> Value {
    json_without(reports, &[])
}

/// Returns the report of a run of which some traces could not be read.
pub fn json_without(reports: &[ProcessReport], unread: &[Unread]) -> Value {
    let all = Tables::of_run(reports);
    json!({
        "coverage": coverage(&all),
        "overhead": all.overhead.as_ref().map(|taken| overhead(taken, &all.duty)),
        "clock": clock(&all),
        "devices": all.devices.iter().map(device).collect::<Vec<_>>(),
        "gaps": gaps(&all.gaps),
        "kernels": all.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "graphs": graphs(&all.graphs),
        "transfers": transfers(&all.transfers),
        "memory": memory(&all.memory),
        "apis": apis(&all.apis),
        "syncs": syncs(&all.syncs),
        "implicit_syncs": implicit_syncs(&all.implicit_syncs),
        "startup": all.startup.as_ref().map(startup),
        "ranges": ranges(&all.ranges),
        "markers": markers(&all.ranges),
        "wall_ns": lines(reports).map(|line| line.looked_ns).max(),
        "processes": reports.iter().map(process).collect::<Vec<_>>(),
        "unread": unread,
    })
}

fn clock(all: &Tables) -> Value {
    json!({
        "uncertainty_ns": all.clock.median().map(|half_width| half_width.value),
        "assumptions": { "drift_ppm": DRIFT_PPM, "drift_change_ppm_per_s": TURN_PPM },
    })
}

/// A row that serializes itself, with more keys.
fn with(row: &impl Serialize, more: Value) -> Value {
    // Rows have string keys and finite numbers: JSON can hold all of them.
    let mut row = serde_json::to_value(row).unwrap_or_default();
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

fn coverage(all: &Tables) -> Value {
    let more = json!({
        "dropped": all.coverage.dropped(),
        "stray_range_ends": all.ranges.stray,
        "ranges_not_followed": all.ranges.not_followed,
        "never_timed": never_timed(&all.kernels),
        "timing": timing(&all.duty),
    });
    with(&all.coverage, more)
}

fn timing(duty: &Duty) -> Value {
    let (mode, budget) = match duty.timing {
        Some(Timing::Auto(percent)) => (Some("auto"), Some(percent)),
        Some(Timing::Exact) => (Some("exact"), None),
        Some(Timing::Off) => (Some("off"), None),
        None => (None, None),
    };
    let (timed_ns, wall_ns) = duty.time();
    json!({
        "mode": mode,
        "budget_percent": budget,
        "windows": duty.windows,
        "timed_ns": timed_ns,
        "wall_ns": wall_ns,
        "first_phase": duty.first,
        "after_windows": duty.timed,
        "after_pauses": duty.counted,
        "cost_percent": duty.measured().percent(),
        "counting_exceeds_budget": duty.is_exhausted(),
        "gpu_slowdown": duty.slowdown(),
    })
}

fn overhead(overhead: &Overhead, duty: &Duty) -> Value {
    let cost = overhead.cost(duty);
    let more = json!({
        "cost_percent": cost.map(|cost| cost.total()),
        "hooks_percent": cost.map(|cost| cost.hooks),
        "poller_percent": cost.map(|cost| cost.poller),
        "events_percent": cost.and_then(|cost| cost.events),
    });
    with(overhead, more)
}

fn device(device: &DeviceReport) -> Value {
    let whole = extrapolated(&device.identity, &device.work);
    let identity = whole.as_ref().unwrap_or(&device.identity);
    let part = |sum: Sum| match whole {
        Some(_) => Estimate { kind: Kind::Extrapolated, ..sum.estimate() },
        None => sum.estimate(),
    };
    let busy = |class: Class| part(identity.busy[class as usize]);
    json!({
        "id": device.id,
        "uuid": device.uuid,
        "name": device.name,
        "memory_bytes": device.memory_bytes,
        "start_ns": device.began_ns,
        "streams": device.streams,
        "timelines": device.timelines,
        "processes": device.processes,
        "late_operations": device.late,
        "span_ns": identity.span,
        "observed_ns": identity.span.saturating_sub(device.identity.unobserved.value),
        "compute_ns": busy(Class::Compute),
        "exposed_comm_ns": busy(Class::Communication),
        "exposed_copy_ns": busy(Class::Copy),
        "graph_ns": busy(Class::Graph),
        "idle_ns": part(identity.idle),
        "undecided_ns": part(identity.undecided),
        "unobserved_ns": identity.unobserved,
    })
}

fn gaps(gaps: &GapReport) -> Value {
    let bounds = BANDS.into_iter().map(Some).chain([None]);
    let band = |(below, part): (Option<u64>, &Part)| with(part, json!({ "below_ns": below }));
    json!({
        "count": gaps.count,
        "total_ns": gaps.total,
        "bands": bounds.zip(&gaps.bands).map(band).collect::<Vec<_>>(),
        "by_library": gaps.by_library,
        "largest": gaps.largest.iter().take(LARGEST).collect::<Vec<_>>(),
    })
}

fn kernel(kernel: &Kernel) -> Value {
    let durations = &kernel.durations;
    let mut row = json!({
        "name": demangle(&kernel.symbol),
        "symbol": kernel.symbol,
        "count": kernel.count,
        "timed": durations.count(),
        "in_graphs": kernel.in_graphs,
        "total_ns": kernel.total(),
        "avg_ns": durations.mean(),
        "median_ns": durations.median(),
        "min_ns": durations.min(),
        "max_ns": durations.max(),
        "stddev_ns": durations.stddev(),
        "api": host_times(&kernel.api),
        "queue": {
            "total_ns": kernel.queue.total(),
            "avg_ns": kernel.queue.mean(),
            "median_ns": kernel.queue.median(),
            "min_ns": kernel.queue.min(),
            "max_ns": kernel.queue.max(),
            "stddev_ns": kernel.queue.stddev(),
        },
    });
    row.as_object_mut().into_iter().for_each(|row| row.extend(shape(&kernel.shapes)));
    row
}

/// Returns the most common launch shape, and what is known about the kernel in that shape.
fn shape(shapes: &Shapes) -> Map<String, Value> {
    let launched = shapes.commonest();
    let said = launched.and_then(|launched| launched.said.as_ref());
    let known = |number: u32| (number > 0).then_some(number);
    let between = |(min, max): (f64, f64)| json!({ "min": min, "max": max });
    let waves = launched.and_then(Launched::waves).map(between);
    let achieved = launched.and_then(Launched::achieved).map(between);
    let limits = said.map(|said| said.limits.iter().map(|limit| limit.name()).collect::<Vec<_>>());
    let fields = [
        ("shapes", json!(shapes.list.len())),
        ("threads", json!(launched.map(|launched| launched.threads))),
        ("dynamic_shared_bytes", json!(launched.map(|launched| launched.dynamic_shared_bytes))),
        ("static_shared_bytes", json!(said.map(|said| said.static_shared_bytes))),
        ("registers", json!(said.and_then(|said| known(said.registers)))),
        ("local_bytes", json!(said.map(|said| said.local_bytes))),
        ("blocks_per_multiprocessor", json!(said.and_then(|said| known(said.blocks_per_multiprocessor)))),
        ("theoretical_occupancy", json!(launched.and_then(Launched::occupancy))),
        ("est_achieved_occupancy", json!(achieved)),
        ("waves", json!(waves)),
        ("limited_by", json!(limits.unwrap_or_default())),
        ("library", json!(said.and_then(|said| said.library.as_ref()))),
        ("loaded_by", json!(said.and_then(|said| said.loaded_by.as_ref()))),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn host_times(calls: &HostTimes) -> Value {
    json!({
        "count": calls.count,
        "total_ns": calls.total,
        "avg_ns": calls.mean(),
        "median_ns": calls.median(),
        "min_ns": calls.min(),
        "max_ns": calls.max(),
        "stddev_ns": calls.stddev(),
    })
}

fn graphs(graphs: &GraphUse) -> Value {
    let moves = |moves: &Moves| json!({ "count": moves.count, "bytes": moves.bytes });
    let node = |(symbol, durations): (&String, &Durations)| {
        json!({
            "name": demangle(symbol),
            "symbol": symbol,
            "samples": durations.count(),
            "median_ns": durations.median(),
            "min_ns": durations.min(),
            "max_ns": durations.max(),
        })
    };
    json!({
        "launches": graphs.launches,
        "timed": graphs.durations.count(),
        "total_ns": graphs.total(),
        "median_ns": graphs.durations.median(),
        "kernels": graphs.kernels,
        "copies": moves(&graphs.copies),
        "memsets": moves(&graphs.sets),
        "others": graphs.others,
        "sampled": graphs.sampled,
        "nodes": graphs.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

fn transfers(transfers: &Transfers) -> Value {
    let size = |(class, part): (&SizeClass, &SizePart)| {
        json!({
            "up_to_bytes": class.most(),
            "count": part.count,
            "timed": part.timed,
            "bytes": part.bytes,
            "timed_bytes": part.timed_bytes,
            "timed_ns": part.time,
            "gbps": part.gbps(),
            "gbps_is_known": part.gbps_is_known(),
        })
    };
    let row = |key: &(TransferKind, HostMemory), transfer: &Transfer| {
        json!({
            "kind": key.0.name(),
            "host_memory": key.1.name(),
            "count": transfer.count,
            "timed": transfer.timed,
            "bytes": transfer.bytes,
            "total_ns": transfer.total(),
            "gbps": transfer.gbps(),
            "gbps_is_known": transfer.gbps_is_known(),
            "sizes": transfer.sizes.iter().map(size).collect::<Vec<_>>(),
            "host": host_times(&transfer.host),
        })
    };
    transfers.iter().map(|(key, transfer)| row(key, transfer)).collect()
}

fn memory(memory: &MemoryUse) -> Value {
    let mut out = uses(&memory.device);
    let by_kind: Map<String, Value> =
        memory.by_kind.iter().map(|(kind, part)| ((*kind).to_owned(), uses(part))).collect();
    out["by_kind"] = Value::Object(by_kind);
    let holding = |(library, row): (&Option<String>, &Holding)| with(row, json!({ "library": library }));
    out["by_library"] = memory.by_library.iter().map(holding).collect();
    out["out_of_memory"] = json!(memory.out_of_memory);
    let by_kind: Map<String, Value> =
        memory.timelines.iter().map(|(kind, line)| ((*kind).to_owned(), json!(line.peaks))).collect();
    out["timeline"] = with(&memory.timeline, json!({ "by_kind": by_kind }));
    out
}

fn uses(part: &Use) -> Value {
    json!({
        "peak_bytes": part.peak(),
        "peak_ns": (part.peak_bytes > 0).then_some(part.peak_at),
        "live_bytes": part.live_bytes,
        "allocations": part.allocations,
        "allocated_bytes": part.allocated_bytes,
        "frees": part.frees,
    })
}

fn apis(apis: &ByApi) -> Value {
    let row = |(name, calls): (&String, &HostTimes)| {
        let mut row = calls_row("name", name, calls);
        row["failed"] = calls.failed.into();
        row
    };
    apis.iter().map(row).collect()
}

fn syncs(syncs: &ByApi) -> Value {
    syncs.iter().map(|(name, calls)| calls_row("api", name, calls)).collect()
}

fn implicit_syncs(syncs: &ImplicitSyncs) -> Value {
    let row = |((api, cause), waited): (&(String, Cause), &Waited)| {
        json!({
            "api": api,
            "cause": cause.name(),
            "count": waited.count,
            "host_ns": waited.host_ns,
            "waited": waited.waited,
            "undecided": { "count": waited.undecided, "host_ns": waited.undecided_host_ns },
        })
    };
    syncs.iter().map(row).collect()
}

fn startup(startup: &Startup) -> Value {
    let division = |division: &Division| -> Map<String, Value> {
        StartPart::ALL.into_iter().map(|part| (part.name().to_owned(), division.of(part).into())).collect()
    };
    let loads = |(library, calls): (&Option<String>, &Calls)| with(calls, json!({ "library": library }));
    let first = &startup.first_launches;
    json!({
        "processes": startup.processes,
        "untimed": startup.untimed,
        "first_kernel_ns": startup.first_kernel,
        "until_first_kernel_ns": division(&startup.until_kernel),
        "steady": startup.steady,
        "warm_up_ns": startup.until_steady.whole(),
        "until_steady_ns": division(&startup.until_steady),
        "loads": startup.loads.iter().map(loads).collect::<Vec<_>>(),
        "first_launches": {
            "count": first.all.count,
            "host_ns": first.all.host_ns,
            "compared": first.compared.count,
            "compared_host_ns": first.compared.host_ns,
            "excess_ns": first.excess_ns,
        },
        "module_loading": startup.module_loading,
    })
}

fn ranges(ranges: &RangeUse) -> Value {
    let row = |(name, times): (&RangeName, &RangeTimes)| {
        json!({
            "domain": name.domain,
            "name": name.text,
            "count": times.host.count,
            "open": times.open,
            "payloads": times.payloads,
            "host_ns": times.host.total,
            "host_avg_ns": times.host.mean(),
            "host_median_ns": times.host.median(),
            "host_min_ns": times.host.min(),
            "host_max_ns": times.host.max(),
            "projected": times.gpu.count(),
            "gpu_ns": times.gpu.total(),
            "gpu_avg_ns": times.gpu.mean(),
            "gpu_median_ns": times.gpu.median(),
            "gpu_min_ns": times.gpu.min(),
            "gpu_max_ns": times.gpu.max(),
            "operations": times.operations,
            "timed": times.timed,
            "launches": times.launches,
        })
    };
    ranges.by_name.iter().map(row).collect()
}

fn markers(ranges: &RangeUse) -> Value {
    let row = |(name, times): (&RangeName, &MarkTimes)| {
        with(times, json!({ "domain": name.domain, "name": name.text }))
    };
    ranges.marks.iter().map(row).collect()
}

fn calls_row(key: &str, name: &str, calls: &HostTimes) -> Value {
    json!({
        key: name,
        "count": calls.count,
        "host_ns": calls.total,
        "avg_ns": calls.mean(),
        "median_ns": calls.median(),
        "min_ns": calls.min(),
        "max_ns": calls.max(),
        "stddev_ns": calls.stddev(),
    })
}

fn process(report: &ProcessReport) -> Value {
    let (process, coverage) = (&report.process, &report.tables.coverage);
    let memory = &report.tables.memory.device;
    let (exit_code, signal) = match process.outcome {
        Some(Outcome::Exited(code)) => (code, None),
        Some(Outcome::Left(code)) => (Some(code), None),
        Some(Outcome::Killed(signal) | Outcome::Crashed(signal)) => (None, Some(signal)),
        _ => (None, None),
    };
    json!({
        "pid": process.pid,
        "command": process.command,
        "path": process.path,
        "parent": process.parent,
        "rank": process.job.rank,
        "local_rank": process.job.local_rank,
        "world_size": process.job.world_size,
        "gpus": process.gpus,
        "ending": process.outcome.map(Outcome::name),
        "exit_code": exit_code,
        "signal": signal.map(signal_name),
        "wall_ns": if process.captured.is_some() { process.line.looked_ns } else { process.line.wall_ns },
        "captured": process.captured.as_ref().map(|captured| json!({
            "range": captured.requested,
            "count": captured.ranges,
            "run_ns": process.line.wall_ns,
        })),
        "launches": coverage.launches,
        "timed": coverage.timed,
        "memory": { "peak_bytes": memory.peak(), "live_bytes": memory.live_bytes },
        "dropped": coverage.dropped(),
        "damage": process.damage,
        "clock_contradictions": process.clock_contradictions,
        "causality_broken": process.causality_broken,
        "filter": process.filter,
        "notes": process.notes,
    })
}

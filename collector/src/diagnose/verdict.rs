//! The verdict: what bounds the program, in at most three lines.
//!
//! It starts from the [parts](super::buckets) of the wall time of the GPU that was used most. Each part belongs to one
//! bound:
//!
//! - `gpu`: kernels and graph launches ran; `communication` and `copies`: only those ran, or the host was in a call that
//!   copies;
//! - `syncs`: the GPU was idle while the host synchronized, while a stream waited for an event or a value, or because the host had
//!   waited: it [would not have been](crate::analyze::idle::without_waits) without the program's waits, unless the thread was off the
//!   CPU for long meanwhile, or the wait was in a free;
//! - `host`: the GPU was idle while the host was outside CUDA, for 100 µs or more on average, or while a stream waited for
//!   a function that the program had put onto it;
//! - `launches`: the GPU was idle while the host was in a launch or in another call, or outside CUDA for a shorter time;
//! - `allocations`: the host allocated or freed, or had waited in a free; `start_up`: before the first operation, or while modules were loaded, also by the
//!   first launch of a kernel;
//! - `tail`: after the last operation.
//!
//! The GPU bounds a program if kernels and graphs run for 85 % of the GPU's span or more. Otherwise the largest of the
//! other groups does, if it is a tenth of the wall time or more, or larger than the GPU's part. Start-up and the tail do
//! only if they are the largest of all groups.
//!
//! Of a program with ten steps or more, what comes once (start-up, loading code, the tail) is not judged if it is more than a tenth of the
//! wall time.
//!
//! Where a verdict is not safe, the text says so. Of a run that a fault [ended](super::findings::ended), it says that
//! first, and then what bounded it until then, if that is safe.
//!
//! Removing a bound saves at most its group. What is said to do first is the remedy of the bound, unless another finding saves
//! twice as much. Where no finding removes the bound, the remedy of the largest is said to be another gain.

mod groups;
mod safety;

use super::buckets::Bucket;
use super::finding::{Finding, Id, WORTH};
use super::findings::{self, pageable_copies};
use super::{Facts, Part};
use crate::analyze::Tables;
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::Estimate;
use crate::analyze::kernels::Kernel;
use crate::model::named::named;
use crate::model::names::demangle;
use crate::model::short_names::shorten;
use crate::units::{duration, percent};
use groups::{Group, NEARLY_ALL, groups};
use safety::Unsafe;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The share of its span from which on a GPU that runs kernels and graphs is the bound.
const BUSY: f64 = 0.85;
/// The smallest share of the wall time of a bound other than the GPU.
const LEAST: f64 = 0.1;
/// If more than this share of the span is undecided, there is no verdict.
const UNDECIDED: f64 = 0.25;
/// What another finding saves, as a multiple of what the one saves that removes the bound, from which on the other comes first.
const MUCH_MORE: u64 = 2;
/// The columns that a kernel's name has in the verdict.
const NAME: usize = 24;

named! {
    /// What bounds a program.
    pub enum Bound {
        /// Kernels: the GPU is busy.
        Gpu = "gpu",
        /// The host cannot launch work as fast as the GPU runs it.
        Launches = "launches",
        /// The host is busy outside CUDA.
        Host = "host",
        /// Synchronization empties the GPU's queue.
        Syncs = "syncs",
        /// Copies that overlap no kernel.
        Copies = "copies",
        /// Allocating and freeing memory.
        Allocations = "allocations",
        /// Communication that overlaps no other kernel.
        Communication = "communication",
        /// The time until the first kernel.
        StartUp = "start_up",
        /// The time after the last operation: the program goes on without the GPU, or was ended.
        Tail = "tail",
    }
}

impl Bound {
    /// Whether it is the time around the GPU's work, and not in it.
    fn is_around(self) -> bool {
        matches!(self, Bound::StartUp | Bound::Tail)
    }
}

/// The verdict on a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What bounds it; `None` if that is not safe to say.
    pub bound: Option<Bound>,
    /// At most three sentences.
    pub text: Vec<String>,
    /// The bound's share of the wall time, 0 to 1.
    pub share: Option<f64>,
    /// The most that removing the bound would save, ns.
    pub saves: Option<u64>,
    /// Why no verdict is safe, and what to run again; `None` if it is.
    pub is_unsafe: Option<String>,
}

impl Verdict {
    /// Judges a run.
    pub fn of(facts: &Facts<'_>, findings: &[Finding]) -> Verdict {
        if let Some(why) = safety::of_run(facts) {
            return Verdict::refused(facts, findings, why);
        }
        let groups = groups(facts);
        let bound = bound(facts, &groups);
        let group = groups.get(&bound).cloned().unwrap_or_default();
        if let Some(why) = safety::of_idle(facts, bound, &group) {
            return Verdict::refused(facts, findings, why);
        }
        // What is judged may be the steps alone.
        let is_judged = |id| facts.buckets.around == 0 || id != Id::ColdStart;
        let gaining = || findings.iter().filter(|finding| finding.saves.value > 0 && is_judged(finding.id));
        let removing = gaining().find(|finding| removes(facts, finding, bound, &group));
        // A remedy may remove more than the bound, as what follows from it.
        let most = removing.map_or(0, |finding| finding.saves.value).min(facts.buckets.judged());
        let saves = saves(facts, bound, &group).max(most);
        // Of kernels not all can be saved; of anything else, what is said to be saved is what the share is of.
        let lost = if bound == Bound::Gpu { group.ns } else { saves };
        let is_beside = removing.is_some_and(|finding| finding.id == Id::DefaultStream);
        let mut text = vec![what(facts, bound, &group, lost), gain(facts, bound, &group, saves, is_beside)];
        let largest = gaining().max_by_key(|finding| (finding.saves.value, Reverse(finding.id)));
        let is_first = |removing: &&Finding| {
            largest.is_none_or(|largest| removing.saves.value.saturating_mul(MUCH_MORE) > largest.saves.value)
        };
        let first = removing.filter(is_first).or(largest);
        let lead = |finding: &Finding| match removing {
            None => "Another gain",
            // Another finding saves more, and is listed before this one.
            Some(_) if largest.is_some_and(|largest| !std::ptr::eq(largest, finding)) => "For that",
            Some(_) => "First",
        };
        text.extend(first.map(|finding| format!("{}: {}", lead(finding), in_short(&finding.fix))));
        if let Some((fault, said)) = findings::ended(facts) {
            // What bounded a job until it stopped is of less use than why it did.
            let is_of_job = matches!(fault, Id::FailedRank | Id::StuckCollective);
            let (said, bound) = (said.into_iter().take(if is_of_job { 2 } else { 1 }), text.into_iter());
            text = said.chain(bound).take(2).chain(first_of_all(findings, fault)).collect();
        }
        let share = lost as f64 / facts.buckets.wall.max(1) as f64;
        Verdict { bound: Some(bound), text, share: Some(share), saves: Some(saves), is_unsafe: None }
    }

    fn refused(facts: &Facts<'_>, findings: &[Finding], Unsafe { why, remedy }: Unsafe) -> Verdict {
        let text = match findings::ended(facts) {
            Some((fault, mut said)) => {
                said.extend(first_of_all(findings, fault));
                said
            }
            None => vec![format!("No verdict: {why}"), remedy.clone()],
        };
        Verdict { text, is_unsafe: Some(format!("{why} {remedy}")), ..Verdict::default() }
    }
}

/// Returns what bounds a run.
fn bound(facts: &Facts<'_>, groups: &BTreeMap<Bound, Group>) -> Bound {
    let of = |bound| groups.get(&bound).map_or(0, |group| group.ns);
    let (gpu, wall) = (of(Bound::Gpu), facts.buckets.judged());
    let is_tenth = |bound: &Bound| of(*bound) as f64 >= wall as f64 * LEAST;
    let size = |bound: &Bound| (of(*bound), Reverse(*bound));
    let is_all_judged = facts.buckets.around == 0;
    let largest = groups.keys().copied().max_by_key(size);
    if let Some(around) = largest.filter(|bound| is_all_judged && bound.is_around() && is_tenth(bound)) {
        return around;
    }
    let span = if is_all_judged { facts.buckets.span() } else { wall };
    if gpu as f64 >= span as f64 * BUSY {
        return Bound::Gpu;
    }
    let others = groups.keys().copied().filter(|bound| *bound != Bound::Gpu && !bound.is_around());
    let largest = others.max_by_key(size).filter(|bound| is_tenth(bound) || of(*bound) > gpu);
    largest.unwrap_or(Bound::Gpu)
}

/// Returns the bound that the remedy of a fault removes, or a part of it; `None` if it removes none.
fn removed_by(fault: Id) -> Option<Bound> {
    match fault {
        Id::SlowerGpu | Id::UnstableKernel | Id::TailWave | Id::HiddenCopy => Some(Bound::Gpu),
        Id::TinyKernels | Id::AdaptiveLaunches | Id::DeviceSwitches => Some(Bound::Launches),
        Id::HostStall | Id::HostFunction | Id::Recompilation => Some(Bound::Host),
        Id::SyncPerStep | Id::DeviceWideSync | Id::DefaultStream => Some(Bound::Syncs),
        Id::PageableCopies
        | Id::SmallCopies
        | Id::SynchronousCopies
        | Id::NoOverlap
        | Id::DuplicateUploads => Some(Bound::Copies),
        Id::AllocationChurn => Some(Bound::Allocations),
        Id::StragglerRank => Some(Bound::Communication),
        Id::ColdStart => Some(Bound::StartUp),
        Id::GpuError
        | Id::FailedRank
        | Id::StuckCollective
        | Id::QueueFull
        | Id::ProfilerCost
        | Id::UnderfilledGrid
        | Id::Fragmentation
        | Id::MemoryGrows
        | Id::NeverFreed
        | Id::OutOfMemory
        | Id::PeakMemory => None,
    }
}

/// Whether the remedy of a fault removes a bound, or a part of it. What a stream waits for is not prepared ahead like what the host does
/// between launches, and is no wait of the host.
fn removes(facts: &Facts<'_>, finding: &Finding, bound: Bound, group: &Group) -> bool {
    let (fault, main_call) = (finding.id, group.main_call().map(|(call, _)| call.as_str()));
    match (bound, fault) {
        // Streams that take turns for nothing wait, and keep the GPU busy one after the other.
        (Bound::Gpu | Bound::Syncs, Id::DefaultStream) => true,
        // The waits may be those of the copies.
        (Bound::Syncs, Id::PageableCopies) => {
            let of_copies = [finding.evidence.api.as_deref(), pageable_copies::own_wait(facts)];
            main_call.is_some() && of_copies.contains(&main_call)
        }
        // The host may be elsewhere between two of them.
        (Bound::Host, Id::SmallCopies) => !group.is_on_stream(),
        (Bound::Host, _) if (fault == Id::HostFunction) != group.is_on_stream() => false,
        (Bound::Syncs, _) if group.is_on_stream() => false,
        // Code may be loaded in the launches, or compiled between them.
        (Bound::Launches, Id::Recompilation) => group.in_others > group.idle / 2,
        _ => removed_by(fault) == Some(bound),
    }
}

/// Returns the most that removing a bound would save, ns.
fn saves(facts: &Facts<'_>, bound: Bound, group: &Group) -> u64 {
    match bound {
        Bound::Gpu => leading(facts).map_or(group.ns, |(_, ns)| ns),
        _ => group.ns,
    }
}

/// Returns the kernel that takes most of the GPU's time, and the part of the wall time that is its own, ns; `None` if
/// graph launches take more, or no kernel was timed.
fn leading<'f>(facts: &Facts<'f>) -> Option<(&'f Kernel, u64)> {
    let compute = facts.buckets.get(Bucket::Compute).value - facts.buckets.once(Bucket::Compute);
    if facts.buckets.get(Bucket::Graphs).value > compute {
        return None;
    }
    let kernels = kernels_of_the_gpu(facts);
    let all = kernels.values().fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns));
    let (lead, ns) = kernels.into_values().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0)?;
    // Kernels that ran side by side are in the sum.
    let own = u128::from(compute) * u128::from(ns) / u128::from(all.max(1));
    Some((lead, u64::try_from(own).unwrap_or(u64::MAX)))
}

/// Returns the kernels, by their symbols, with what each takes on the GPU that is judged, ns; of a run of one GPU, or whose processes are
/// known together only, what it takes in all.
fn kernels_of_the_gpu<'f>(facts: &Facts<'f>) -> BTreeMap<&'f str, (&'f Kernel, u64)> {
    let ordinary = |tables: &'f Tables| tables.kernels.iter().filter(|kernel| !kernel.communication);
    let mut totals: Vec<(&Kernel, Option<Estimate<u64>>)> = Vec::new();
    let devices = &facts.all.devices;
    let judged = facts.buckets.device.and_then(|at| devices.get(at));
    let is_one_of_many = devices.iter().filter(|device| device.timelines > 0).count() > 1;
    if let Some(device) = judged.filter(|_| is_one_of_many) {
        for tables in facts.reports.iter().map(|report| &report.tables) {
            let is_it = |own: &&DeviceReport| match own.uuid {
                Some(_) => own.uuid == device.uuid,
                None => own.id == device.id,
            };
            for id in tables.devices.iter().filter(is_it).map(|own| own.id) {
                totals.extend(ordinary(tables).map(|kernel| (kernel, kernel.strata.total_on(id))));
            }
        }
    }
    if totals.is_empty() {
        totals.extend(ordinary(facts.all).map(|kernel| (kernel, kernel.total())));
    }
    let mut found: BTreeMap<&str, (&Kernel, u64)> = BTreeMap::new();
    for (kernel, total) in totals {
        let (_, ns) = found.entry(&kernel.symbol).or_insert((kernel, 0));
        *ns = ns.saturating_add(total.map_or(0, |total| total.value));
    }
    found
}

/// Returns what the judged time is called in a run: filters and capture ranges select a part of the wall time, and of that the
/// steps may be judged alone, or all but what comes once.
fn whole(facts: &Facts<'_>) -> &'static str {
    match (facts.part(), facts.buckets.around > 0, facts.judges_steps()) {
        (Some(Part::Selected), false, _) => "the selected part",
        (Some(Part::Selected), true, false) => "the selected part without start-up",
        (Some(Part::Selected), true, true) => "the steps of the selected part",
        (Some(Part::Captured), false, _) => "the captured time",
        (Some(Part::Captured), true, false) => "the captured time without start-up",
        (Some(Part::Captured), true, true) => "the steps of the captured time",
        (None, false, _) => "the wall",
        (None, true, false) => "the wall without start-up",
        (None, true, true) => "the steps",
    }
}

/// Returns the first sentence: the bound and the share that `lost` ns of it have.
fn what(facts: &Facts<'_>, bound: Bound, group: &Group, lost: u64) -> String {
    let (wall, whole) = (facts.buckets.judged(), whole(facts));
    let share = percent(lost, wall);
    let call = |other: &'static str| group.call().unwrap_or_else(|| other.to_owned());
    match bound {
        Bound::Gpu => match leading(facts) {
            Some((kernel, ns)) => {
                let name = shorten(&demangle(&kernel.symbol), NAME);
                format!("GPU-bound: {} of {whole} is {name}, {share} all kernels.", percent(ns, wall))
            }
            None => format!("GPU-bound: kernels and graph launches run for {share} of {whole}."),
        },
        Bound::Launches if group.in_others > group.idle / 2 => format!(
            "Launch-bound: for {share} of {whole} the GPU is idle, {} each, during {}.",
            duration(group.mean_gap()),
            call("other calls")
        ),
        Bound::Launches => format!(
            "Launch-bound: for {share} of {whole} the GPU waits for launches, {} each.",
            duration(group.mean_gap())
        ),
        Bound::Host if group.is_on_stream() => {
            format!("Host-bound: for {share} of {whole} the GPU waits for host functions.")
        }
        Bound::Host => format!("Host-bound: for {share} of {whole} the GPU waits for the host outside CUDA."),
        Bound::Syncs if group.is_on_stream() => {
            format!("Sync-bound: for {share} of {whole} streams wait for events or values.")
        }
        Bound::Syncs => {
            format!("Sync-bound: for {share} of {whole} the GPU idles after {}.", call("a wait"))
        }
        Bound::Copies if group.idle as f64 >= group.ns as f64 * NEARLY_ALL => {
            format!("Copy-bound: for {share} of {whole} the GPU is idle during {}.", call("copy calls"))
        }
        Bound::Copies if group.idle as f64 > group.ns as f64 * (1.0 - NEARLY_ALL) => {
            format!(
                "Copy-bound: for {share} of {whole} copies, or calls that copy, keep the GPU from kernels."
            )
        }
        Bound::Copies => format!("Copy-bound: for {share} of {whole} copies keep the GPU from kernels."),
        Bound::Allocations => format!(
            "Allocation-bound: for {share} of {whole} the GPU {} {}.",
            if group.owed > group.idle / 10 { "idles in and after" } else { "is idle during" },
            call("allocations")
        ),
        Bound::Communication => {
            format!("Communication-bound: for {share} of {whole} only communication runs.")
        }
        Bound::StartUp => match lost.saturating_sub(facts.buckets.get(Bucket::StartUp).value) {
            later if later as f64 >= WORTH * wall as f64 => {
                let later = duration(later);
                format!("Start-up takes {share} of {whole}, {later} of it loading code and set-up.")
            }
            _ => format!("Start-up takes {share} of {whole}, before the GPU is at work."),
        },
        Bound::Tail => {
            let (tail, wall) = (duration(lost), duration(wall));
            format!("After its last operation the GPU has nothing to do for {tail} of {wall}.")
        }
    }
}

/// Returns the second sentence: what there is to gain.
/// `is_beside`: kernels that run one after the other could run side by side.
fn gain(facts: &Facts<'_>, bound: Bound, group: &Group, saves: u64, is_beside: bool) -> String {
    let wall = facts.buckets.judged();
    if bound == Bound::Gpu {
        let (rest, whole) = (duration(wall.saturating_sub(group.ns)), duration(wall));
        let rest_is = match (is_beside, leading(facts)) {
            (true, _) => "; kernels could run side by side",
            // Host functions, waits for events and the like are in the time of a graph.
            (false, None) if facts.all.graphs.others > 0 => "; nodes of its graphs may only wait",
            (false, _) => ": the rest needs faster kernels",
        };
        return format!("All but GPU work takes {rest} of {whole}{rest_is}.");
    }
    if bound == Bound::Tail {
        return "The program goes on without it, or was ended then.".to_owned();
    }
    let faster = wall as f64 / wall.saturating_sub(saves).max(1) as f64;
    let faster = if faster < 100.0 { format!(" ({faster:.1}x)") } else { String::new() };
    let (saves, wall) = (duration(saves), duration(wall));
    match facts.buckets.around {
        0 => format!("Removing that saves at most {saves} of {wall}{faster}."),
        around if facts.judges_steps() => format!(
            "Removing that saves at most {saves} of the steps' {wall}{faster}, and nothing of the {} around them.",
            duration(around)
        ),
        around => format!(
            "Removing that saves at most {saves} of {wall}{faster}, and nothing of the {} of starting up and ending.",
            duration(around)
        ),
    }
}

/// Returns what to do about the fault that ended the program, in a sentence. Memory that grows from step to step runs out however small
/// the batch is.
fn first_of_all(findings: &[Finding], fault: Id) -> Option<String> {
    let grows = fault == Id::OutOfMemory && findings.iter().any(|finding| finding.id == Id::MemoryGrows);
    let fault = if grows { Id::MemoryGrows } else { fault };
    let fault = findings.iter().find(|finding| finding.id == fault)?;
    Some(format!("First: {}", in_short(&fault.fix)))
}

/// Returns the first sentence of an advice.
fn in_short(fix: &str) -> &str {
    let end = fix.find(". ").or_else(|| fix.find("; ")).unwrap_or(fix.len());
    fix[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests;

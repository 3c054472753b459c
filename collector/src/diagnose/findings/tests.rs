//! Findings of runs of several processes or GPUs: what all of them did is compared with the steps, the GPUs and the time of all of
//! them, and what one of them did with its own.

use super::*;
use crate::analyze::calls::HostTimes;
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::device_switches::Switches;
use crate::analyze::devices::DeviceReport;
use crate::analyze::durations::Durations;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::gaps::rows::{GapRow, Side};
use crate::analyze::gpu_errors::{GpuErrors, Stopped, Suspect};
use crate::analyze::idle::{Cause, Emptied, IdleReport, Part, Site, ThreadUse, Wait};
use crate::analyze::kernels::{Kernel, Shaped};
use crate::analyze::legacy_stream::Turns;
use crate::analyze::memory::churn::{Churn, Counts};
use crate::analyze::memory::holders::{Failure, Growth, Origin};
use crate::analyze::overhead::Overhead;
use crate::analyze::quantile::Quantiles;
use crate::analyze::ranks::Ranks;
use crate::analyze::shapes::Launched;
use crate::analyze::source::Source;
use crate::analyze::startup::{self, Startup};
use crate::analyze::steps::{Contents, SlowStretch, StepTimes, Steps};
use crate::analyze::transfers::{SizeClass, Transfer, Transfers};
use crate::analyze::waits::{Cause as Waiting, Waited};
use crate::analyze::{ProcessInfo, ProcessReport, Tables};
use crate::diagnose::Facts;
use crate::diagnose::buckets::{Bucket, Buckets};
use crate::diagnose::finding::{Claimed, Id};
use crate::model::CountedCall;
use crate::model::framework::Framework;
use crate::model::gpu_interval::Length;
use crate::model::job::Job;
use crate::model::stacks::Frame;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::count;
use std::collections::BTreeMap;

mod copies;
mod gpu;
mod host;
mod lines;
mod memory;
mod stopped_jobs;

const RANKS: usize = 8;
const STEPS: u64 = 100;
const GIB: u64 = 1 << 30;
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn exactly(value: u64) -> Sum {
    Sum { value, lo: value, hi: value }
}

/// A wait in an API, of a line that is not known.
fn wait_in(api: &str) -> Wait {
    Wait { api: api.to_owned(), line: None }
}

/// So many waits, in steps that are not known.
fn emptied(count: u64) -> Emptied {
    Emptied { count, steps: 0 }
}

/// Returns the tables of a process that uses GPUs of 80 GiB.
fn process(gpus: u32) -> Tables {
    let device = |id| DeviceReport {
        id: Some(id),
        memory_bytes: Some(80 * GIB),
        timelines: 1,
        streams: 2,
        ..DeviceReport::default()
    };
    let time = StepTimes { mean: S as f64, ..StepTimes::default() };
    let steps = Steps { count: STEPS, time: Some(time), ..Steps::default() };
    Tables { devices: (0..gpus).map(device).collect(), steps, ..Tables::default() }
}

/// Returns what is found in processes, if the wall time of one GPU has these parts.
fn found(processes: Vec<Tables>, parts: &[(Bucket, u64)], find: Find) -> Option<Claimed> {
    found_in(&ProcessInfo::default(), processes, parts, find)
}

/// Does the same for processes that are like this one.
fn found_in(
    process: &ProcessInfo,
    processes: Vec<Tables>,
    parts: &[(Bucket, u64)],
    find: Find,
) -> Option<Claimed> {
    let parts: Vec<_> = parts.iter().map(|(bucket, ns)| (*bucket, exactly(*ns))).collect();
    found_between(process, processes, &parts, find)
}

/// Does the same for parts that have bounds.
fn found_between(
    process: &ProcessInfo,
    processes: Vec<Tables>,
    parts: &[(Bucket, Sum)],
    find: Find,
) -> Option<Claimed> {
    let report = |tables| ProcessReport { process: process.clone(), tables, together: None, findings: None };
    let reports: Vec<ProcessReport> = processes.into_iter().map(report).collect();
    let all = Tables::of_run(&reports);
    let parts: BTreeMap<Bucket, Sum> = parts.iter().copied().collect();
    let wall = parts.values().map(|part| part.value).sum();
    let buckets = Buckets { wall, parts, device: Some(0), ..Buckets::default() };
    find(&Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() })
}

fn text(found: Option<Claimed>) -> String {
    found.map_or_else(String::new, |found| found.finding.evidence.text)
}

fn calls(calls: u64, host_ns: u64) -> HostTimes {
    let mut times = HostTimes::default();
    times.add(CountedCall { api: 1, calls: calls as u32, host_ns, failed: false });
    times
}

fn copies(size: SizeClass, copied: Copied) -> BTreeMap<CopySite, Copied> {
    let site = CopySite {
        api: "cudaMemcpyAsync".to_owned(),
        source: Source::default(),
        kind: TransferKind::HtoD,
        host_memory: HostMemory::Pinned,
        blocks: false,
        size,
        sets_up: false,
        of_selection: false,
    };
    [(site, copied)].into()
}

/// What one of eight processes held was compared with the memory of all GPUs: 561 GiB were free.
#[test]
fn a_failed_allocation_is_compared_with_the_gpu_of_its_process() {
    let mut ranks = vec![process(1); RANKS];
    ranks[3].memory.out_of_memory = 1;
    ranks[3].memory.holders.failure = Some(Failure {
        requested: Some(2 * GIB),
        live: 79 * GIB,
        by_gpu: [(0, 79 * GIB)].into(),
        ..Failure::default()
    });
    let said = text(found(ranks, &[], out_of_memory::find));
    assert!(said.contains("asked for 2.00 GiB"), "{said}");
    assert!(said.ends_with("Of the GPU's 80.0 GiB it left 1.00 GiB."), "{said}");
}

#[test]
fn memory_that_grows_fills_the_gpu_of_its_process() {
    let mut ranks = vec![process(1); RANKS];
    ranks[5].memory.holders.growth = Some(Growth {
        is_per_step: true,
        slope: (10 << 20) as f64,
        first: 60 * GIB,
        last: 70 * GIB,
        origins: vec![(Origin::default(), 10 * GIB)],
    });
    let said = text(found(ranks.clone(), &[], memory_grows::find));
    assert!(said.contains(&format!("is full after {} more steps", count(1_024))), "{said}");
    // It had run out, and was said to be full 17 steps later.
    ranks[5].memory.holders.failure = Some(Failure::default());
    let said = text(found(ranks, &[], memory_grows::find));
    assert!(!said.contains("is full after"), "{said}");
}

/// A call in each step of eight ranks was said to be made eight times per step.
#[test]
fn waits_are_counted_for_each_step_of_their_process() {
    const WAIT: &str = "cudaStreamSynchronize";
    let after_wait = Some(wait_in(WAIT));
    let part = Part { count: STEPS, total: exactly(S) };
    let idle = IdleReport {
        by_cause: [(Cause::OutsideCuda, part)].into(),
        sites: [((Cause::OutsideCuda, Site { after_wait, ..Site::default() }), part)].into(),
        waits: [(wait_in(WAIT), emptied(STEPS))].into(),
        ..IdleReport::default()
    };
    let mut rank = process(1);
    rank.devices[0].idle = idle;
    rank.apis.insert(WAIT.to_owned(), calls(STEPS, S));
    rank.syncs.insert(WAIT.to_owned(), calls(STEPS, S));
    let parts = [(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)];
    let said = text(found(vec![rank; RANKS], &parts, sync_per_step::find));
    assert!(said.contains("800 waits in cudaStreamSynchronize (1.0 per step)"), "{said}");
}

/// Returns a PyTorch program that waits in each step and has these copies.
fn waits_of_pytorch(copied: &[(TransferKind, HostMemory, u64)]) -> Option<Claimed> {
    const WAIT: &str = "cudaStreamSynchronize";
    let site = Site { after_wait: Some(wait_in(WAIT)), ..Site::default() };
    let part = Part { count: STEPS, total: exactly(S) };
    let mut one = process(1);
    one.idle = IdleReport {
        by_cause: [(Cause::OutsideCuda, part)].into(),
        sites: [((Cause::OutsideCuda, site), part)].into(),
        waits: [(wait_in(WAIT), emptied(STEPS))].into(),
        ..IdleReport::default()
    };
    one.apis.insert(WAIT.to_owned(), calls(8 * STEPS, S));
    one.syncs.insert(WAIT.to_owned(), calls(8 * STEPS, S));
    for (kind, host_memory, count) in copied {
        let of = Copied { count: *count, ..Copied::default() };
        let of = copies(SizeClass::UpTo4KiB, of).into_iter();
        one.copy_sites
            .extend(of.map(|(site, of)| (CopySite { kind: *kind, host_memory: *host_memory, ..site }, of)));
    }
    let process = ProcessInfo { framework: Framework::PyTorch, ..ProcessInfo::default() };
    let parts = [(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)];
    found_in(&process, vec![one], &parts, sync_per_step::find)
}

/// A program that moves a small batch to the GPU in each step was told to call `.item()` less often, and that pinned memory does not help;
/// and one that infers, to add up `loss.detach()`. All calls of the API were said to be waits.
#[test]
fn waits_of_pytorch_are_told_by_what_it_copies() {
    let said = |copied: &[(TransferKind, HostMemory, u64)]| {
        let found = waits_of_pytorch(copied).unwrap().finding;
        assert_eq!(found.evidence.count, STEPS, "{}", found.evidence.text);
        (found.title, found.fix)
    };
    let (title, fix) = said(&[(TransferKind::HtoD, HostMemory::Pageable, STEPS)]);
    assert!(
        title.ends_with("tensor.to(device) or the like") && fix.contains("non_blocking=True"),
        "{title}: {fix}"
    );
    let reads = (TransferKind::DtoH, HostMemory::Pageable, STEPS);
    let (_, fix) = said(&[reads]);
    assert!(fix.starts_with("Read the results of several batches at once"), "nothing trains: {fix}");
    let (title, _) = said(&[(TransferKind::HtoD, HostMemory::Pinned, STEPS)]);
    assert_eq!(title, "The GPU idles after cudaStreamSynchronize");
}

/// Three gaps of 1.5 s and 18 of some milliseconds were "21 gaps of 216 ms each".
#[test]
fn gaps_of_which_a_few_have_most_of_the_time_have_no_mean() {
    let of = |lengths: &[u64]| {
        let total = lengths.iter().sum::<u64>() * MS;
        let site = Site { is_long: true, tid: Some(7), ..Site::default() };
        let part = Part { count: lengths.len() as u64, total: exactly(total) };
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        let mut lengths = lengths.to_vec();
        lengths.sort_unstable_by_key(|ms| std::cmp::Reverse(*ms));
        one.gaps.largest = lengths.iter().take(10).map(|ms| gap(ms * MS)).collect();
        text(found(
            vec![one],
            &[(Bucket::Idle(Cause::OutsideCuda), total), (Bucket::Compute, S)],
            host_stall::find,
        ))
    };
    let uneven: Vec<u64> = [1_500; 3].into_iter().chain([5; 18]).collect();
    assert!(
        of(&uneven)
            .starts_with("21 gaps, 4.59 s in all, of which the 2 longest have 3.00 s, in which thread 7")
    );
    assert!(of(&[10; 21]).starts_with("21 gaps of 10.0 ms each, 210 ms in all, in which thread 7"));
}

/// A gap of so many ns in which the host was outside CUDA.
fn gap(ns: u64) -> GapRow {
    let side = || Side {
        kind: "kernel",
        symbol: None,
        bytes: None,
        kernels: None,
        correlation: 0,
        caller: None,
        line: None,
    };
    GapRow {
        pid: None,
        rank: None,
        device: None,
        began_ns: None,
        start: 0,
        duration: Estimate::exactly(ns),
        before: side(),
        after: side(),
        causes: [Some((Cause::OutsideCuda, ns)), None, None],
        largest: None,
        may_warm_up: None,
        tid: None,
    }
}

/// What the turns of all GPUs could gain was promised of the time of one.
#[test]
fn the_default_stream_gains_what_the_turns_of_one_gpu_do() {
    let turns = Turns {
        pairs: 10,
        timed: 10,
        copies: exactly(S),
        streams: [(1, 7)].into_iter().collect(),
        ..Turns::default()
    };
    let rank = Tables { legacy_stream: turns, ..process(1) };
    let parts = [(Bucket::ExposedCopies, 5 * S), (Bucket::Compute, 5 * S)];
    let of_two = found(vec![rank; 2], &parts, default_stream::find).unwrap();
    assert_eq!(of_two.claims[&Bucket::ExposedCopies].value, S);
    assert!(text(Some(of_two)).starts_with("1.00 s of work has room"));
}

/// Every line with one gap in each step was claimed, as if a free had opened the gaps of all of them.
#[test]
fn of_four_gaps_in_each_step_one_is_behind_the_free() {
    let of = |first: Option<Wait>| {
        let line = |line| Some(Frame { file: "train.py".to_owned(), line, ..Frame::default() });
        let outside = |at| {
            let source = Source { library: None, line: line(at) };
            let after_wait = first.clone().filter(|_| at == 0);
            let site = Site { source, after_wait, tid: Some(7), is_long: true, ..Site::default() };
            ((Cause::OutsideCuda, site), Part { count: STEPS, total: exactly(100 * MS) })
        };
        let free = Site { api: Some("cuMemFree".to_owned()), tid: Some(7), ..Site::default() };
        let freeing = ((Cause::Freeing, free), Part { count: STEPS, total: exactly(10 * MS) });
        let mut one = process(1);
        let whole = Part { count: 4 * STEPS, total: exactly(400 * MS) };
        one.idle.by_cause = [(Cause::OutsideCuda, whole), (Cause::Freeing, freeing.1)].into();
        one.idle.sites = (0..4).map(outside).chain([freeing]).collect();
        let counts = Counts { allocations: STEPS, frees: STEPS, ..Counts::default() };
        one.memory.holders.churn = Some(Churn { counts, spread: 1.0, share: 1.0, ..Churn::default() });
        let waited = Waited { count: STEPS, waited: exactly(100 * MS), ..Waited::default() };
        one.implicit_syncs.by_api.insert(("cuMemFree".to_owned(), Waiting::Free), waited);
        let parts = [(Bucket::Idle(Cause::OutsideCuda), 400 * MS), (Bucket::Idle(Cause::Freeing), 10 * MS)];
        one.idle.waits = first.map(|wait| (wait, emptied(STEPS))).into_iter().collect();
        let claimed = |find: Find, bucket| {
            let claims = found(vec![one.clone()], &parts, find).unwrap().claims;
            claims.get(&bucket).map_or(0, |claim| claim.value / MS)
        };
        let churn = parts.map(|(bucket, _)| claimed(allocation_churn::find, bucket));
        (churn, claimed(host_stall::find, Bucket::Idle(Cause::OutsideCuda)))
    };
    assert_eq!(of(None), ([100, 10], 400), "it is not known which calls waited");
    // On a busy machine, the host computes for longer than the free has waited: that was promised whole to `host-stall`, and nothing to
    // the frees.
    let free = wait_in("cuMemFree");
    assert_eq!(of(Some(free)), ([100, 10], 300));
    let other = wait_in("cuStreamSynchronize");
    assert_eq!(of(Some(other)), ([75, 10], 300), "it is owed to something else");
}

/// A program that keeps each loss, and frees nothing, was advised to free it less often.
#[test]
fn memory_that_is_hardly_ever_freed_is_not_allocated_and_freed_again_and_again() {
    let is_found = |allocations, frees| {
        let mut one = process(1);
        let counts = Counts { allocations, frees, ..Counts::default() };
        one.memory.holders.churn = Some(Churn { counts, spread: 1.0, share: 1.0, ..Churn::default() });
        found(vec![one], &[], allocation_churn::find).is_some()
    };
    let of = [(87, 0), (87, 20), (0, 87), (87, 60), (87, 87)];
    assert_eq!(
        of.map(|(allocations, frees)| is_found(allocations, frees)),
        [false, false, false, true, true]
    );
}

/// A program that pins a buffer in each step was told to take memory of the device from a pool.
#[test]
fn memory_of_the_host_that_is_pinned_again_and_again_has_its_own_remedy() {
    let said = |api: &str| {
        let mut one = process(1);
        let counts = Counts { allocations: STEPS, frees: STEPS, ..Counts::default() };
        let origin = Origin { api: Some(api.to_owned()), ..Origin::default() };
        one.memory.holders.churn =
            Some(Churn { counts, spread: 1.0, share: 1.0, origin, ..Churn::default() });
        found(vec![one], &[], allocation_churn::find).unwrap().finding
    };
    let [host, device] = [said("cuMemAllocHost"), said("cuMemAlloc")];
    assert!(host.title.starts_with("Page-locked memory") && host.fix.starts_with("Page-lock a few buffers"));
    assert!(device.title.starts_with("Memory is") && device.fix.contains("cudaMallocAsync"));
}

/// A program that loads for 5 ms what its GPU works on for 2 was told to do so in another thread, which gains nothing.
#[test]
fn a_host_that_takes_longer_than_the_gpu_needs_several_threads() {
    let said = |outside: u64, framework| {
        let mut one = process(1);
        let part = Part { count: STEPS, total: exactly(3 * S) };
        let site = Site { is_long: true, tid: Some(7), ..Site::default() };
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.idle.threads = vec![ThreadUse { tid: Some(7), ..ThreadUse::default() }];
        one.idle.host.timed.outside_of(true, outside);
        let info = ProcessInfo { framework, ..ProcessInfo::default() };
        let parts = [(Bucket::Idle(Cause::OutsideCuda), 3 * S), (Bucket::Compute, 2 * S)];
        found_in(&info, vec![one], &parts, host_stall::find).unwrap().finding.fix
    };
    let more = "outside CUDA for 5.00 s, and the GPU worked for 2.00 s: at least 3 threads have to share what it does there.";
    assert!(said(5 * S, Framework::Cuda).ends_with(more), "{}", said(5 * S, Framework::Cuda));
    assert!(!said(2 * S, Framework::Cuda).contains("at least"), "one more is enough");
    assert!(!said(5 * S, Framework::PyTorch).contains("at least"), "its workers are not known");
    assert!(!said(50 * S, Framework::Cuda).contains("at least"), "the GPU needs more work");
}

/// The changes of eight processes were taken for those of one thread: 400 in a second of each seemed to be 3 200.
#[test]
fn a_thread_changes_the_gpu_as_often_as_it_does_itself() {
    let is_found = |switches| {
        let of_each = Switches { count: switches, span: S, most: (switches, None), ..Switches::default() };
        let rank = Tables { device_switches: of_each, ..process(2) };
        found(vec![rank; RANKS], &[(Bucket::Compute, S)], device_switches::find).is_some()
    };
    assert!(is_found(1_000) && !is_found(400));
}

/// 900 changes in 300 steps of three GPUs are what the advice asks for, and the text took the program's wait between two steps for their cost.
#[test]
fn a_change_for_each_gpu_in_a_step_is_no_fault() {
    let of = |count| {
        let mut outside = Quantiles::default();
        (0..count).for_each(|at| outside.add(if at % 3 == 0 { MS } else { 6_000 }));
        let (span, most, gpus) = (S / 10, (count, None), 3);
        let switches = Switches { count, outside, span, most, gpus, ..Switches::default() };
        text(found(vec![Tables { device_switches: switches, ..process(3) }], &[], device_switches::find))
    };
    assert_eq!(of(3 * STEPS), "");
    assert!(
        of(6 * STEPS).contains("between the two calls, 6.00 µs passed in the median"),
        "{}",
        of(6 * STEPS)
    );
}

/// The line of a sleep behind which only the other GPU was idle was that of the finding, with the time of this one.
#[test]
fn a_finding_is_about_the_idle_time_of_the_gpu_that_it_promises_time_of() {
    let of_line = |line: u32, ns| {
        let frame = Some(Frame { file: "app.c".to_owned(), line, ..Frame::default() });
        let site = Site { source: Source { library: None, line: frame }, is_long: true, ..Site::default() };
        let part = Part { count: STEPS, total: exactly(ns) };
        IdleReport {
            by_cause: [(Cause::OutsideCuda, part)].into(),
            sites: [((Cause::OutsideCuda, site), part)].into(),
            ..IdleReport::default()
        }
    };
    let mut one = process(2);
    (one.devices[0].idle, one.devices[1].idle) = (of_line(17, S), of_line(12, 5 * S));
    one.idle = crate::analyze::devices::idle(&one.devices);
    let parts = [(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)];
    let found = found(vec![one], &parts, host_stall::find).unwrap();
    let evidence = found.finding.evidence;
    assert_eq!((evidence.source.line.map(|line| line.line), evidence.count), (Some(17), STEPS));
    assert_eq!(found.claims[&Bucket::Idle(Cause::OutsideCuda)].value, S);
}

/// What gpuspy takes in the gaps of all GPUs was taken from the promise of one, as half of it.
#[test]
fn the_promise_of_one_gpu_is_without_what_gpuspy_takes_in_its_own_gaps() {
    let (gaps, site) = (100, Site { api: Some("cuLaunchKernel".to_owned()), ..Site::default() });
    let part = Part { count: gaps, total: exactly(10 * MS) };
    let mut rank = process(1);
    rank.devices[0].idle = IdleReport {
        by_cause: [(Cause::Launching, part)].into(),
        sites: [((Cause::Launching, site), part)].into(),
        ..IdleReport::default()
    };
    rank.kernels = vec![Kernel::of_launches("add", gaps, 2_000)];
    rank.apis.insert("cuLaunchKernel".to_owned(), calls(gaps, MS));
    rank.overhead = Some(Overhead { agent_ns: 2 * MS, calls: 200, ..Overhead::default() });
    let idle = Bucket::Idle(Cause::Launching);
    for ranks in [2, RANKS] {
        let parts = [(idle, 10 * MS), (Bucket::Compute, 10 * MS)];
        let found = found(vec![rank.clone(); ranks], &parts, tiny_kernels::find).unwrap();
        assert_eq!(found.claims[&idle].value, 9 * MS, "{ranks} GPUs");
    }
}

/// A program that read a checkpoint for seconds was said to load and compile code.
#[test]
fn what_prepares_for_longer_than_it_loads_is_told_to_find_out_why() {
    let of = |load: u64, outside: u64| {
        let mut startup = Startup { processes: 1, ..Startup::default() };
        startup.until_kernel.parts[startup::Part::Load as usize] = load;
        let one = Tables { startup: Some(startup), steps: Steps::default(), ..process(1) };
        let parts = [(Bucket::StartUp, load), (Bucket::Idle(Cause::SetUp), outside), (Bucket::Compute, S)];
        found(vec![one], &parts, cold_start::find).unwrap().finding
    };
    let prepares = of(100 * MS, 2 * S);
    assert_eq!(prepares.title, "The program prepares for long before its work");
    assert!(prepares.fix.starts_with("perf record, or py-spy") && prepares.fix.contains("CUDA_CACHE_PATH"));
    let loads = of(2 * S, 100 * MS);
    assert_eq!(loads.title, "Loading and compiling code takes much of the time");
    assert!(loads.fix.starts_with("Load only the modules"), "{}", loads.fix);
}

/// Of a job in which one rank got an error, or no memory, it was not said which one.
#[test]
fn faults_of_one_of_several_processes_say_whose_they_are() {
    let of = |which: usize, rank: Option<u32>, processes: usize, find: Find| {
        let mut reports: Vec<ProcessReport> = (0..processes)
            .map(|at| {
                let job = Job { rank: rank.map(|first| first + at as u32), ..Job::default() };
                let process = ProcessInfo { pid: Some(4_000 + at as u32), job, ..ProcessInfo::default() };
                ProcessReport { process, tables: self::process(1), together: None, findings: None }
            })
            .collect();
        let its = &mut reports[which];
        let (rank, pid) = (its.process.job.rank, its.process.pid);
        let first = Stopped { result: 700, rank, pid, ..Stopped::default() };
        its.tables.gpu_errors = GpuErrors { processes: 1, calls: 1, first: Some(first) };
        its.tables.memory.out_of_memory = 1;
        let memory = &mut its.tables.memory;
        memory.holders.failure = Some(Failure { requested: Some(GIB), ..Failure::default() });
        let origins = vec![(Origin::default(), GIB)];
        let (is_per_step, slope, first, last) = (true, GIB as f64, GIB, 2 * GIB);
        memory.holders.growth = Some(Growth { is_per_step, slope, first, last, origins });
        memory.resident.peak_bytes = 72 * GIB;
        let (all, buckets) = (Tables::of_run(&reports), Buckets::default());
        find(&Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() })
            .unwrap()
            .finding
            .title
    };
    let error = "The GPU stopped with an error: illegal address (700)";
    assert_eq!(of(1, Some(0), 3, gpu_error::find), format!("{error} in rank 1"));
    assert_eq!(of(2, None, 3, gpu_error::find), format!("{error} in process 4002"));
    assert_eq!(of(0, Some(0), 1, gpu_error::find), error);
    let memory = "1.00 GiB could not be allocated";
    assert_eq!(of(1, Some(0), 3, out_of_memory::find), format!("Memory ran out in rank 1: {memory}"));
    assert_eq!(of(2, None, 3, out_of_memory::find), format!("Memory ran out in process 4002: {memory}"));
    assert_eq!(of(0, Some(0), 1, out_of_memory::find), format!("Memory ran out: {memory}"));
    let grows = "grows by 1.00 GiB per step";
    assert_eq!(of(1, Some(0), 3, memory_grows::find), format!("Device memory in rank 1 {grows}"));
    assert_eq!(of(0, Some(0), 1, memory_grows::find), format!("Device memory {grows}"));
    let full = "Device memory is 90.0 % full at the peak";
    assert_eq!(of(2, Some(0), 3, peak_memory::find), format!("{full} in rank 2"));
    assert_eq!(of(0, Some(0), 1, peak_memory::find), full);
}

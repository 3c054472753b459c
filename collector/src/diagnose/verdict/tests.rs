//! A verdict of each kind, from tables that are filled by hand. Times are in ns; the wall is a second.

use super::*;
use crate::analyze::coverage::DAMAGED_TRACE;
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::gpu_errors::{GpuErrors, Stopped, Suspect};
use crate::analyze::graphs::GraphUse;
use crate::analyze::identity::Identity;
use crate::analyze::idle::{Cause, IdleReport, Part, Site, Wait};
use crate::analyze::memory::holders::{Failure, Origin};
use crate::analyze::pending::Pending;
use crate::analyze::ranks::Ranks;
use crate::analyze::source::Source;
use crate::analyze::steps::StepTimes;
use crate::analyze::summary::Captured;
use crate::analyze::windows::Timing;
use crate::analyze::{Damage, Line, ProcessInfo, ProcessReport, Tables};
use crate::diagnose::Diagnosis;
use crate::diagnose::buckets::Buckets;
use crate::diagnose::finding::Evidence;
use crate::model::framework::Framework;
use crate::model::outcome::Outcome;
use crate::model::stacks::Frame;
use gpuspy_wire::record::{LossCause, Untimed};

const WALL: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn exactly(value: u64) -> Sum {
    Sum { value, lo: value, hi: value }
}

/// Returns a run of a second on one GPU, which is at work for some milliseconds in each class, after a start-up. The
/// rest is idle, in `gaps` of one cause at one place.
fn run(start_up: u64, busy: [u64; 4], idle: &[(Cause, Site, u64, u64)]) -> Tables {
    let line = Line { wall_ns: WALL, period_ns: (0, WALL), looked_ns: WALL, ..Line::default() };
    let idle_ms: u64 = idle.iter().map(|(_, _, ms, _)| ms).sum();
    let span = (busy.iter().sum::<u64>() + idle_ms) * MS;
    let busy = busy.map(|ms| exactly(ms * MS));
    let identity = Identity { span, busy, idle: exactly(idle_ms * MS), ..Identity::default() };
    let began_ns = Some(start_up * MS);
    let mut device =
        DeviceReport { line, identity, began_ns, timelines: 1, timed: 9, ..DeviceReport::default() };
    let mut report = IdleReport::default();
    for (cause, site, ms, count) in idle {
        let part = Part { count: *count, total: exactly(ms * MS) };
        let sum = report.by_cause.entry(*cause).or_default();
        (sum.count, sum.total.value) = (sum.count + count, sum.total.value + ms * MS);
        report.sites.insert((*cause, site.clone()), part);
        if let Some(wait) = &site.after_wait {
            report.waits.entry(wait.clone()).or_default().count += count;
        }
    }
    device.idle.by_cause.clone_from(&report.by_cause);
    Tables { devices: vec![device], idle: report, ..Tables::default() }
}

fn after(wait: &str) -> Site {
    let wait = Wait { api: wait.to_owned(), line: None };
    Site { after_wait: Some(wait), ..Site::default() }
}

fn inside(api: &str) -> Site {
    Site { api: Some(api.to_owned()), ..Site::default() }
}

fn judged_with(all: &Tables, process: ProcessInfo, findings: &[Finding]) -> Verdict {
    let line = Line { wall_ns: WALL, looked_ns: WALL, ..Line::default() };
    let process = ProcessInfo { line, ..process };
    let reports = [ProcessReport { process, tables: all.clone(), together: None, findings: None }];
    let buckets = Buckets::of(&reports, all);
    assert_eq!(buckets.parts.values().map(|part| part.value).sum::<u64>(), buckets.wall);
    let verdict =
        Verdict::of(&Facts { reports: &reports, all, buckets: &buckets, ranks: &Ranks::default() }, findings);
    assert!(
        verdict.text.len() <= 3 && verdict.text.iter().all(|line| line.chars().count() <= 78),
        "{verdict:#?}"
    );
    assert_eq!(Diagnosis::of(&reports, all).verdict.bound, verdict.bound);
    verdict
}

fn judged(all: &Tables) -> Verdict {
    judged_with(all, ProcessInfo::default(), &[])
}

fn assert_bound(all: &Tables, bound: Bound, share: f64, saves_ms: u64, text: &[&str]) {
    let verdict = judged(all);
    assert_eq!((verdict.bound, verdict.saves), (Some(bound), Some(saves_ms * MS)), "{:?}", verdict.text);
    assert!(verdict.share.is_some_and(|of| (of - share).abs() < 1e-6), "{:?}", verdict.share);
    assert_eq!((verdict.text, verdict.is_unsafe), (text.iter().map(|line| line.to_string()).collect(), None));
}

#[test]
fn a_busy_gpu_is_the_bound() {
    let mut all = run(20, [900, 0, 0, 0], &[(Cause::Launching, inside("cudaLaunchKernel"), 60, 600)]);
    all.kernels = vec![Kernel::of_launches("sm90_gemm", 3, MS), Kernel::of_launches("softmax", 1, MS)];
    let text = [
        "GPU-bound: 67.5 % of the wall is sm90_gemm, 90.0 % all kernels.",
        "All but GPU work takes 100 ms of 1.00 s: the rest needs faster kernels.",
    ];
    assert_bound(&all, Bound::Gpu, 0.9, 675, &text);
    let graphs = run(20, [0, 900, 0, 0], &[(Cause::Launching, inside("cudaGraphLaunch"), 60, 600)]);
    let text = ["GPU-bound: kernels and graph launches run for 90.0 % of the wall.", text[1]];
    assert_bound(&graphs, Bound::Gpu, 0.9, 900, &text);
    // A graph that waited for a function of the host for most of its time needed faster kernels.
    let waiting = Tables { graphs: GraphUse { others: 300, ..GraphUse::default() }, ..graphs };
    let waits = "All but GPU work takes 100 ms of 1.00 s; nodes of its graphs may only wait.";
    assert_bound(&waiting, Bound::Gpu, 0.9, 900, &[text[0], waits]);
}

/// Of a job whose slow rank is its bound, the verdict named the kernel of the others, which that rank never ran.
#[test]
fn the_kernel_that_bounds_a_gpu_ran_on_it() {
    let of = |uuid: &str, busy, kernel: Kernel| {
        let mut one = run(20, [busy, 0, 0, 0], &[(Cause::Launching, inside("cudaLaunchKernel"), 10, 100)]);
        (one.devices[0].uuid, one.devices[0].id) = (Some(uuid.to_owned()), Some(0));
        one.kernels = vec![kernel];
        one
    };
    let fast = of("GPU-1", 300, Kernel::of_launches("light", 3_000, MS));
    let slow = of("GPU-2", 900, Kernel::of_launches("heavy", 1_000, MS));
    let mut all = fast.clone();
    all.devices.extend(slow.devices.clone());
    all.kernels.extend(slow.kernels.clone());
    let line = Line { wall_ns: WALL, looked_ns: WALL, ..Line::default() };
    let report = |tables| {
        let process = ProcessInfo { line, ..ProcessInfo::default() };
        ProcessReport { process, tables, together: None, findings: None }
    };
    let reports = [report(fast), report(slow)];
    let buckets = Buckets::of(&reports, &all);
    let verdict = Verdict::of(
        &Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() },
        &[],
    );
    assert_eq!(verdict.text[0], "GPU-bound: 90.0 % of the wall is heavy, 90.0 % all kernels.");
}

#[test]
fn waits_for_launches_are_the_bound_even_where_the_gpu_is_busy_for_longer() {
    let idle = [
        (Cause::Launching, inside("cudaLaunchKernel"), 200, 20_000),
        (Cause::OutsideCuda, Site::default(), 100, 10_000),
    ];
    let text = [
        "Launch-bound: for 30.0 % of the wall the GPU waits for launches, 10.0 µs each.",
        "Removing that saves at most 300 ms of 1.00 s (1.4x).",
    ];
    let verdict = judged_at_any_width(&run(0, [700, 0, 0, 0], &idle));
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Launches), Some(300 * MS)));
    assert_eq!(verdict.text, text);
}

/// Returns a verdict whose lines may be wrapped.
fn judged_at_any_width(all: &Tables) -> Verdict {
    let line = Line { wall_ns: WALL, looked_ns: WALL, ..Line::default() };
    let process = ProcessInfo { line, ..ProcessInfo::default() };
    let reports = [ProcessReport { process, tables: all.clone(), together: None, findings: None }];
    let buckets = Buckets::of(&reports, all);
    Verdict::of(&Facts { reports: &reports, all, buckets: &buckets, ranks: &Ranks::default() }, &[])
}

#[test]
fn long_gaps_outside_cuda_are_the_hosts() {
    let all = run(0, [300, 0, 0, 0], &[(Cause::OutsideCuda, Site::default(), 700, 100)]);
    let text = [
        "Host-bound: for 70.0 % of the wall the GPU waits for the host outside CUDA.",
        "Removing that saves at most 700 ms of 1.00 s (3.3x).",
    ];
    assert_bound(&all, Bound::Host, 0.7, 700, &text);
}

#[test]
fn steps_are_judged_without_the_time_around_them() {
    let mut all = with_steps();
    let text = [
        "Host-bound: for 37.5 % of the steps the GPU waits for the host outside CUDA.",
        "Removing that saves at most 150 ms of the steps' 400 ms (1.6x), and nothing of the 600 ms around them.",
    ];
    let verdict = judged_at_any_width(&all);
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Host), Some(150 * MS)));
    assert_eq!(verdict.text, text);
    all.steps.count = 9;
    assert_eq!(judged_at_any_width(&all).bound, Some(Bound::StartUp), "too few steps");
}

/// Ten steps of 40 ms in a second of which 600 ms are start-up and set-up.
fn with_steps() -> Tables {
    let idle = [(Cause::SetUp, Site::default(), 300, 1), (Cause::OutsideCuda, Site::default(), 150, 100)];
    let mut all = run(100, [250, 0, 0, 0], &idle);
    all.steps.count = 10;
    all.steps.time = Some(StepTimes { mean: 40.0 * MS as f64, ..StepTimes::default() });
    all
}

/// Steps of 21 ms in all were said to wait for the host for 591 ms, which was after the last of them.
#[test]
fn what_a_program_does_beside_its_steps_is_not_called_the_steps() {
    let mut all = with_steps();
    all.steps.time = Some(StepTimes { mean: 20.0 * MS as f64, ..StepTimes::default() });
    let text = [
        "Host-bound: for 37.5 % of the wall without start-up the GPU waits for the host outside CUDA.",
        "Removing that saves at most 150 ms of 400 ms (1.6x), and nothing of the 600 ms of starting up and ending.",
    ];
    assert_eq!(judged_at_any_width(&all).text, text);
}

/// A GPU that ran kernels for 2 % of "the steps" was called their bound: the first launches, which load code, were in them.
#[test]
fn first_launches_that_load_code_are_not_in_the_steps() {
    let idle = [(Cause::Loading, Site::default(), 870, 4), (Cause::Launching, Site::default(), 10, 36)];
    let mut all = run(20, [100, 0, 0, 0], &idle);
    all.steps.count = 10;
    all.steps.time = Some(StepTimes { mean: 10.0 * MS as f64, ..StepTimes::default() });
    let verdict = judged_at_any_width(&all);
    assert_eq!(verdict.text[0], "GPU-bound: kernels and graph launches run for 90.9 % of the steps.");
    all.steps.count = 9;
    assert_eq!(judged_at_any_width(&all).bound, Some(Bound::StartUp), "too few steps");
}

/// It was said that the GPU idles after a launch, and that the host was to read its results less often.
#[test]
fn streams_that_wait_for_others_are_no_waits_of_the_host() {
    let all = run(0, [600, 0, 0, 0], &[(Cause::StreamWait, inside("cuLaunchKernel"), 400, 40)]);
    let findings = [finding(Id::SyncPerStep, 50 * MS, "read less often")];
    let text = judged_with(&all, ProcessInfo::default(), &findings).text;
    assert_eq!(text[0], "Sync-bound: for 40.0 % of the wall streams wait for events or values.");
    assert_eq!(text[2], "Another gain: read less often");
}

/// One call was said to have all of what several had.
#[test]
fn a_call_that_has_a_part_of_a_bound_is_not_said_to_have_all_of_it() {
    let idle = |ms| {
        [
            (Cause::ExplicitSync, inside("cuStreamSynchronize"), ms, 10),
            (Cause::ExplicitSync, inside("cuEventSynchronize"), 400 - ms, 10),
        ]
    };
    let said = |ms| judged_at_any_width(&run(0, [600, 0, 0, 0], &idle(ms))).text[0].clone();
    let after = "Sync-bound: for 40.0 % of the wall the GPU idles after cuStreamSynchronize";
    assert_eq!(said(250), format!("{after} and others."));
    assert_eq!(said(390), format!("{after}."));
}

#[test]
fn idle_time_that_is_owed_to_waits_is_theirs_and_the_rest_the_hosts() {
    let idle = [
        (Cause::ExplicitSync, inside("cudaStreamSynchronize"), 50, 1_000),
        (Cause::OutsideCuda, after("cudaStreamSynchronize"), 250, 1_000),
        (Cause::Launching, after("cudaStreamSynchronize"), 100, 1_000),
    ];
    let mut all = run(0, [600, 0, 0, 0], &idle);
    let text = [
        "Sync-bound: for 40.0 % of the wall the GPU idles after cudaStreamSynchronize.",
        "Removing that saves at most 400 ms of 1.00 s (1.7x).",
    ];
    let verdict = judged_at_any_width(&all);
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Syncs), Some(400 * MS)));
    assert_eq!(verdict.text, text);
    // Nine waits are no habit.
    all.idle.waits.values_mut().for_each(|emptied| emptied.count = 9);
    let verdict = judged_at_any_width(&all);
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Host), Some(250 * MS)));
}

/// A program that waited for nothing was sync-bound: PyTorch's allocator asks whether memory that was used on another stream is free.
#[test]
fn nothing_is_owed_to_an_allocators_queries() {
    let of = |library: &str| {
        let mut site = after("cudaEventQuery");
        let line = Frame { library: format!("/torch/lib/{library}"), ..Frame::default() };
        site.after_wait = site.after_wait.map(|wait| Wait { line: Some(line), ..wait });
        judged_at_any_width(&run(0, [600, 0, 0, 0], &[(Cause::OutsideCuda, site, 400, 1_000)])).bound
    };
    assert_eq!((of("libtorch_python.so"), of("libc10_cuda.so")), (Some(Bound::Syncs), Some(Bound::Host)));
}

/// The verdict said that the program waits in cuMemFree, and called the remedy of that, no more frees, another gain.
#[test]
fn what_is_owed_to_waits_in_frees_is_bound_by_allocations() {
    let idle = [
        (Cause::ImplicitSync, inside("cuMemFree"), 50, 1_000),
        (Cause::OutsideCuda, after("cuMemFree"), 350, 1_000),
    ];
    let findings = [finding(Id::AllocationChurn, 380 * MS, "allocate once")];
    let all = run(0, [600, 0, 0, 0], &idle);
    let verdict = judged_with(&all, ProcessInfo::default(), &findings);
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Allocations), Some(400 * MS)));
    assert_eq!(
        [&verdict.text[0], &verdict.text[2]],
        [
            "Allocation-bound: for 40.0 % of the wall the GPU idles in and after cuMemFree.",
            "First: allocate once"
        ]
    );
}

/// A program whose streams take turns with the default stream was said to need faster kernels.
#[test]
fn kernels_that_could_run_side_by_side_are_a_gain_where_the_gpu_is_busy() {
    let findings = [finding(Id::DefaultStream, 450 * MS, "create streams that do not wait")];
    let mut all = run(20, [900, 0, 0, 0], &[(Cause::Launching, inside("cudaLaunchKernel"), 60, 600)]);
    all.kernels = vec![Kernel::of_launches("gemm", 3, MS)];
    let text = judged_with(&all, ProcessInfo::default(), &findings).text;
    let said = "All but GPU work takes 100 ms of 1.00 s; kernels could run side by side.";
    assert_eq!((text[1].as_str(), text[2].as_str()), (said, "First: create streams that do not wait"));
}

/// To page-lock the memory removes what was called a wait in a copy, and was called another gain.
#[test]
fn waits_in_copies_of_pageable_memory_are_removed_by_pinning_it() {
    let all = run(0, [600, 0, 0, 0], &[(Cause::OutsideCuda, after("cuMemcpyDtoHAsync"), 400, 1_000)]);
    let first = |api: &str| {
        let mut pin = finding(Id::PageableCopies, 400 * MS, "pin it");
        pin.evidence.api = Some(api.to_owned());
        judged_with(&all, ProcessInfo::default(), &[pin]).text[2].clone()
    };
    assert_eq!(first("cuMemcpyDtoHAsync"), "First: pin it");
    assert_eq!(first("cuMemcpyHtoDAsync"), "Another gain: pin it", "other copies made it wait");
}

/// A program that creates events in each step was said to wait for launches.
#[test]
fn a_gpu_that_is_idle_in_other_calls_is_said_to_be() {
    let idle = [
        (Cause::OtherCall, inside("cuEventDestroy"), 300, 1_000),
        (Cause::Launching, inside("cuLaunchKernel"), 100, 1_000),
    ];
    let verdict = judged_at_any_width(&run(0, [600, 0, 0, 0], &idle));
    let said = "Launch-bound: for 40.0 % of the wall the GPU is idle, 200 µs each, during cuEventDestroy and others.";
    assert_eq!((verdict.bound, verdict.text[0].as_str()), (Some(Bound::Launches), said));
}

#[test]
fn each_other_bound_has_its_sentence() {
    let malloc = run(0, [600, 0, 0, 0], &[(Cause::Allocating, inside("cudaMalloc"), 400, 400)]);
    for (all, bound, share, text) in [
        (
            malloc,
            Bound::Allocations,
            0.4,
            "Allocation-bound: for 40.0 % of the wall the GPU is idle during cudaMalloc.",
        ),
        (
            run(0, [600, 0, 0, 400], &[]),
            Bound::Copies,
            0.4,
            "Copy-bound: for 40.0 % of the wall copies keep the GPU from kernels.",
        ),
        (
            run(0, [600, 0, 0, 0], &[(Cause::Copying, inside("cudaMemcpy"), 400, 400)]),
            Bound::Copies,
            0.4,
            "Copy-bound: for 40.0 % of the wall the GPU is idle during cudaMemcpy.",
        ),
        (
            run(0, [600, 0, 400, 0], &[]),
            Bound::Communication,
            0.4,
            "Communication-bound: for 40.0 % of the wall only communication runs.",
        ),
        (
            run(600, [400, 0, 0, 0], &[]),
            Bound::StartUp,
            0.6,
            "Start-up takes 60.0 % of the wall, before the GPU is at work.",
        ),
    ] {
        let saves = (share * 1_000.0) as u64;
        let gain = format!("Removing that saves at most {saves} ms of 1.00 s ({:.1}x).", 1.0 / (1.0 - share));
        assert_bound(&all, bound, share, saves, &[text, &gain]);
    }
}

#[test]
fn a_small_rest_does_not_bound_a_program() {
    let causes = [Cause::Launching, Cause::Allocating, Cause::ExplicitSync, Cause::Copying];
    let idle: Vec<_> = causes.iter().map(|cause| (*cause, Site::default(), 60, 60)).collect();
    assert_eq!(judged(&run(0, [760, 0, 0, 0], &idle)).bound, Some(Bound::Gpu));
}

fn finding(id: Id, saves: u64, fix: &str) -> Finding {
    Finding {
        id,
        title: "a fault".to_owned(),
        evidence: Evidence::default(),
        explanation: String::new(),
        fix: fix.to_owned(),
        saves: Estimate::exactly(saves),
    }
}

#[test]
fn the_first_finding_that_saves_time_is_the_first_thing_to_change() {
    let all = run(0, [600, 0, 0, 400], &[]);
    let findings = [
        finding(Id::MemoryGrows, 0, "free it"),
        finding(Id::HostStall, 9, "pin the memory; copy it non_blocking. Then wait later."),
    ];
    assert_eq!(
        judged_with(&all, ProcessInfo::default(), &findings).text[2],
        "Another gain: pin the memory; copy it non_blocking"
    );
    assert_eq!(judged_with(&all, ProcessInfo::default(), &findings[..1]).text.len(), 2);
}

#[test]
fn the_first_thing_to_change_is_what_removes_the_bound_and_all_that_it_gains_counts() {
    let findings =
        [finding(Id::HostStall, 450 * MS, "load ahead"), finding(Id::PageableCopies, 430 * MS, "pin it")];
    let verdict = judged_with(&run(0, [600, 0, 0, 400], &[]), ProcessInfo::default(), &findings);
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::Copies), Some(430 * MS)));
    assert_eq!(verdict.text[2], "For that: pin it", "it is not what saves most");
}

/// A training loop on an H100 waited for its data for 461 ms and for launches for 188 ms; it was told to fuse kernels first.
#[test]
fn a_remedy_that_saves_twice_as_much_as_that_of_the_bound_comes_first() {
    let findings = |stall| {
        [finding(Id::HostStall, stall * MS, "load ahead"), finding(Id::PageableCopies, 188 * MS, "pin it")]
    };
    let first = |stall| {
        judged_with(&run(0, [600, 0, 0, 400], &[]), ProcessInfo::default(), &findings(stall)).text[2].clone()
    };
    assert_eq!([first(188), first(376)], ["First: pin it", "First: load ahead"]);
    // The list has the other one first.
    assert_eq!([first(189), first(375)], ["For that: pin it"; 2]);
}

/// A stream waited for functions of the program, and the copies were to be moved to another stream first.
#[test]
fn functions_on_streams_have_their_sentence_and_their_remedy_and_no_other() {
    let all = run(0, [600, 0, 0, 0], &[(Cause::HostCallback, Site::default(), 400, 40)]);
    let findings = [finding(Id::HostStall, 300 * MS, "load ahead")];
    let text = judged_with(&all, ProcessInfo::default(), &findings).text;
    assert_eq!(text[0], "Host-bound: for 40.0 % of the wall the GPU waits for host functions.");
    assert_eq!(text[2], "Another gain: load ahead");
    let findings =
        [finding(Id::HostStall, 300 * MS, "load ahead"), finding(Id::HostFunction, 290 * MS, "move it")];
    let text = judged_with(&all, ProcessInfo::default(), &findings).text;
    assert_eq!(text[2], "For that: move it");
}

/// Of one kernel, a GPU that ran other kernels in the meantime was said to be idle, and its launches to be the bound.
#[test]
fn a_part_of_what_a_gpu_did_has_no_verdict_and_no_finding_of_idle_time() {
    let all = run(0, [600, 0, 0, 0], &[(Cause::ExplicitSync, after("cudaStreamSynchronize"), 400, 400)]);
    let of = |divides_a_gpu| {
        let process = ProcessInfo { divides_a_gpu, ..ProcessInfo::default() };
        let reports = [ProcessReport { process, tables: all.clone(), together: None, findings: None }];
        Diagnosis::of(&reports, &all)
    };
    let idle = |of: &Diagnosis| of.findings.iter().any(|finding| finding.saves.value > 0);
    assert!(of(true).verdict.is_unsafe.is_some() && !idle(&of(true)), "{:#?}", of(true));
    assert_eq!(of(false).verdict.is_unsafe, None);
    assert_eq!(
        of(true).verdict.text,
        [
            "No verdict: the filter leaves out other work that may have kept the GPU busy.",
            "Leave out --stream, --thread and --kernel."
        ]
    );
}

#[test]
fn a_part_of_a_run_is_called_one() {
    let all = run(0, [600, 0, 0, 400], &[]);
    let process = ProcessInfo { filter: "since 1 s".to_owned(), ..ProcessInfo::default() };
    let text = judged_with(&all, process, &[]).text;
    assert_eq!(text[0], "Copy-bound: for 40.0 % of the selected part copies keep the GPU from kernels.");
}

#[test]
fn the_steps_of_a_part_of_a_run_are_called_that() {
    let all = with_steps();
    for (filter, part) in [("since 1 s", "the selected part"), ("", "the captured time")] {
        let line = Line { wall_ns: WALL, looked_ns: WALL, ..Line::default() };
        let process = ProcessInfo { filter: filter.to_owned(), line, ..captured(1) };
        let reports = [ProcessReport { process, tables: all.clone(), together: None, findings: None }];
        let buckets = Buckets::of(&reports, &all);
        let text = Verdict::of(
            &Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() },
            &[],
        )
        .text;
        let said =
            format!("Host-bound: for 37.5 % of the steps of {part} the GPU waits for the host outside CUDA.");
        assert_eq!(text[0], said, "it was said of {part}");
    }
}

/// The GPU waited for the host for 32 % of the steps, and not to let it wait saved up to 57 % of them: the pauses after waits were
/// in the second figure alone.
#[test]
fn the_share_is_that_of_what_is_said_to_be_saved() {
    let idle = [
        (Cause::OutsideCuda, Site::default(), 300, 30),
        (Cause::OutsideCuda, after("cudaStreamSynchronize"), 200, 20),
    ];
    let all = run(0, [500, 0, 0, 0], &idle);
    let verdict =
        judged_with(&all, ProcessInfo::default(), &[finding(Id::HostStall, 500 * MS, "load ahead")]);
    assert_eq!(
        verdict.text[0],
        "Host-bound: for 50.0 % of the wall the GPU waits for the host outside CUDA."
    );
    assert_eq!(verdict.text[1], "Removing that saves at most 500 ms of 1.00 s (2.0x).");
    assert_eq!((verdict.share, verdict.saves), (Some(0.5), Some(500 * MS)));
}

/// A program with one launch was launch-bound: its first launch loaded the kernel's code.
#[test]
fn a_first_launch_that_loads_code_is_start_up() {
    let of = |cause| (cause, inside("cuLaunchKernel"), 480, 2);
    let launching = (Cause::Launching, inside("cuLaunchKernel"), 20, 100);
    let verdict = judged_at_any_width(&run(100, [100, 0, 0, 0], &[of(Cause::Loading), launching.clone()]));
    assert_eq!((verdict.bound, verdict.saves), (Some(Bound::StartUp), Some(580 * MS)), "{verdict:?}");
    assert_eq!(verdict.text[0], "Start-up takes 58.0 % of the wall, 480 ms of it loading code and set-up.");
    let launching = [(Cause::Launching, inside("cuLaunchKernel"), 500, 100)];
    assert_eq!(judged_at_any_width(&run(100, [100, 0, 0, 0], &launching)).bound, Some(Bound::Launches));
}

fn assert_refused(verdict: &Verdict, text: [&str; 2]) {
    assert_eq!((verdict.bound, verdict.share, verdict.saves), (None, None, None));
    assert_eq!(verdict.text, text);
    let why = text[0].strip_prefix("No verdict: ").unwrap();
    assert_eq!(verdict.is_unsafe.as_deref(), Some(format!("{why} {}", text[1]).as_str()));
}

#[test]
fn without_the_data_there_is_no_verdict_but_what_to_run_again() {
    let whole = run(0, [600, 0, 0, 400], &[]);
    let mut all = whole.clone();
    all.duty.timing = Some(Timing::Off);
    let why = "No verdict: timing was off, so it is not known when the GPU was busy.";
    assert_refused(&judged(&all), [why, "Run again with --timing auto."]);

    let process = ProcessInfo { launch_blocking: true, ..ProcessInfo::default() };
    let why = "No verdict: CUDA_LAUNCH_BLOCKING was set: every launch waited for its kernel.";
    assert_refused(&judged_with(&whole, process, &[]), [why, "Unset it and run again."]);

    let mut all = whole.clone();
    (all.coverage.driver_hooked, all.coverage.launches) = (Some(false), 1);
    let why = "No verdict: launches did not pass through the agent.";
    assert_refused(&judged(&all), [why, "Run gpuspy doctor with the program to find out why."]);

    let mut all = whole.clone();
    all.coverage.dropped_by.insert(LossCause::GpuTimePending.name(), 1_000);
    assert!(judged(&all).is_unsafe.is_none(), "an end that was not read is no lost record");
    all.coverage.recorded = 98;
    all.coverage.dropped_by.insert(LossCause::RingFull.name(), 2);
    let remedy = "Run again with --capture-range, to record a part of the run.";
    assert_refused(&judged(&all), ["No verdict: 2.0 % of the records were lost.", remedy]);
    let remedy = "Run again with a shorter capture range.";
    assert_refused(
        &judged_with(&all, captured(1), &[]),
        ["No verdict: 2.0 % of the records were lost.", remedy],
    );

    let mut all = Tables::default();
    all.coverage.launches = 1;
    let nothing = [
        "No verdict: no operation has a GPU time.",
        "Run again with --timing exact, until work runs on a GPU.",
    ];
    assert_refused(&judged(&all), nothing);
}

/// A torn chunk at its end was enough to refuse the verdict on a run of days.
#[test]
fn what_can_be_read_of_a_trace_has_a_verdict_if_little_is_missing() {
    let mut all = run(0, [600, 0, 0, 400], &[]);
    all.coverage.recorded = 98;
    let mut of = |damage: Damage| {
        all.coverage.dropped_by = [(DAMAGED_TRACE, damage.records_lost)].into();
        judged_with(&all, ProcessInfo { damage, ..ProcessInfo::default() }, &[])
    };
    let torn = Damage { chunks_lost: 1, records_lost: 50, cut: true, ..Damage::default() };
    assert_eq!(of(torn).bound, Some(Bound::Copies), "it ends earlier, and that is all");
    let hole = Damage { cut: false, ..torn };
    let why = "No verdict: 33.8 % of the records cannot be read.";
    assert_refused(&of(hole), [why, "Run the program again."]);
    // It would have met the same full disk.
    let mut because = |number| of(Damage { write_error: Some(number), ..hole });
    let full = "Free some space, or choose another path, and run again.";
    assert_refused(&because(libc::ENOSPC), [why, full]);
    let limited = "Raise the limit on file sizes (ulimit -f), and run again.";
    assert_refused(&because(libc::EFBIG), [why, limited]);
    let failed = "Choose another path for the trace, and run again.";
    assert_refused(&because(libc::EIO), [why, failed]);
    assert_eq!(of(Damage { chunks_lost: 2, ..torn }).bound, None, "not only its end is missing");
    assert_eq!(of(Damage { records_lost: 0, ..hole }).bound, Some(Bound::Copies), "its chunk had no records");
}

/// A program that only asks whether there is a GPU was told to run again with exact timing.
#[test]
fn a_program_that_does_not_use_the_gpu_is_told_so() {
    let why = "No verdict: the program launched nothing on the GPU, and copied nothing to it.";
    let of = |process: ProcessInfo| judged_with(&Tables::default(), process, &[]);
    let general = "If it should have, gpuspy doctor shows which GPUs it can use.";
    assert_refused(&of(ProcessInfo::default()), [why, general]);
    let pytorch = ProcessInfo { framework: Framework::PyTorch, ..ProcessInfo::default() };
    let remedy = "Move the model and its inputs there: model.to('cuda'), tensor.to('cuda').";
    assert_refused(&of(pytorch), [why, remedy]);
}

fn captured(ranges: u64) -> ProcessInfo {
    let captured = Captured { requested: "nvtx:step".to_owned(), ranges };
    ProcessInfo { captured: Some(captured), ..ProcessInfo::default() }
}

/// Of the time before the first launch it was said that no operation has a GPU time, and that exact timing helps.
#[test]
fn a_part_in_which_nothing_ran_is_told_so() {
    // The GPU has its timeline from work that comes later.
    let mut all = run(0, [0; 4], &[]);
    let selected = || ProcessInfo { filter: "until 80 ms".to_owned(), ..ProcessInfo::default() };
    let said = |all: &Tables, process| judged_with(all, process, &[]).text;
    let nothing = |part: &str| format!("No verdict: nothing ran on a GPU in {part}.");
    assert_eq!(
        said(&all, selected()),
        [&nothing("the selected part"), "Select a part in which it has work."]
    );
    assert_eq!(said(&all, captured(2))[0], nothing("the captured time"));
    assert_eq!(said(&all, captured(0))[0], "No verdict: the capture range never started.");
    all.coverage.launches = 1;
    let untimed = "No verdict: no operation has a GPU time.";
    assert_eq!(said(&all, selected())[0], untimed);
    all.coverage.launches = 0;
    all.coverage.dropped_by.insert(LossCause::RingFull.name(), 1);
    all.coverage.recorded = 1_000;
    assert_eq!(said(&all, selected())[0], untimed, "its record may be the one that was lost");
}

/// Of a run that was ended while its program imported, it was said that start-up takes 0.2 % of the wall.
#[test]
fn the_time_after_the_last_operation_is_the_bound_if_it_is_the_largest_part() {
    let text = |tail| {
        let tail = format!("After its last operation the GPU has nothing to do for {tail} ms of 1.00 s.");
        [tail, "The program goes on without it, or was ended then.".to_owned()]
    };
    for (start_up, compute, tail) in [(30, 150, 820), (2, 8, 990)] {
        let all = run(start_up, [compute, 0, 0, 0], &[]);
        let text = text(tail);
        let text = text.each_ref().map(String::as_str);
        assert_bound(&all, Bound::Tail, tail as f64 / 1_000.0, tail, &text);
    }
    assert_eq!(judged(&run(0, [500, 0, 0, 0], &[])).bound, Some(Bound::Gpu), "of equal parts the GPU's");
}

/// Where nothing was a tenth of the wall, the GPU was the bound, however little it did.
#[test]
fn the_gpu_does_not_bound_a_program_in_which_something_else_takes_longer() {
    let idle = [Cause::Launching, Cause::OutsideCuda, Cause::Allocating, Cause::ExplicitSync];
    let idle = idle.map(|cause| (cause, Site::default(), 95, 95));
    let mut all = run(95, [50, 0, 95, 95], &idle);
    all.devices[0].identity.undecided = exactly(190 * MS);
    all.devices[0].identity.span += 190 * MS;
    assert_eq!(judged(&all).bound, Some(Bound::Launches), "and the tail takes 95 ms, too");
}

/// A training that ran out of memory was told to load its data in workers.
#[test]
fn a_run_that_a_failed_allocation_ended_begins_with_it() {
    let line = Some(Frame { file: "train.py".to_owned(), line: 42, ..Frame::default() });
    let source = Source { library: None, line };
    let origin = Origin { api: Some("cuMemAlloc".to_owned()), source, ..Origin::default() };
    let failure = Failure { requested: Some(30 << 30), origin, ..Failure::default() };
    let findings = [finding(Id::HostStall, 9, "load ahead"), finding(Id::OutOfMemory, 0, "Fewer. Or less.")];
    let text_of = |findings: &[Finding], failure: &Failure, outcome| {
        let mut all = run(0, [600, 0, 0, 400], &[]);
        all.memory.holders.failure = Some(failure.clone());
        judged_with(&all, ProcessInfo { outcome, ..ProcessInfo::default() }, findings).text
    };
    let text = |failure: &Failure, outcome| text_of(&findings, failure, outcome);
    let bound = "Copy-bound: for 40.0 % of the wall copies keep the GPU from kernels.";
    let lead = "Memory ran out: 30.0 GiB could not be allocated by cuMemAlloc at train.py:42.";
    assert_eq!(text(&failure, Some(Outcome::Exited(Some(1)))), [lead, bound, "First: Fewer"]);
    // A smaller batch only lasts longer.
    let leaks = [findings.as_slice(), &[finding(Id::MemoryGrows, 0, "Keep nothing. Or free it.")]].concat();
    assert_eq!(text_of(&leaks, &failure, Some(Outcome::Exited(Some(1))))[2], "First: Keep nothing");
    let went_on = Failure { went_on: true, ..failure.clone() };
    for (failure, outcome) in [
        (&went_on, Some(Outcome::Exited(Some(1)))),
        (&failure, Some(Outcome::Exited(Some(0)))),
        (&failure, None),
    ] {
        assert_eq!(text(failure, outcome)[0], bound, "{outcome:?}");
    }
}

/// A program whose kernel failed an assertion on an H100 was told to be run again until work runs on a GPU.
#[test]
fn a_run_that_an_error_of_the_gpu_ended_begins_with_the_error() {
    let line = |line| Some(Frame { file: "train.py".to_owned(), line, ..Frame::default() });
    let suspect =
        Suspect { symbol: Some("scatter".to_owned()), line: line(40), count: 1, ..Suspect::default() };
    let first = Some(Stopped {
        result: 710,
        api: "cudaStreamSynchronize".to_owned(),
        source: Source { library: None, line: line(42) },
        suspects: vec![suspect],
        ..Stopped::default()
    });
    let gpu_errors = GpuErrors { processes: 1, calls: 3, first };
    let all = Tables { gpu_errors: gpu_errors.clone(), ..Tables::default() };
    let findings =
        [finding(Id::GpuError, 0, "Run once with CUDA_LAUNCH_BLOCKING=1. Each launch then waits.")];
    let buckets = Buckets::of(&[], &all);
    let verdict = Verdict::of(
        &Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() },
        &findings,
    );
    let text = [
        "The GPU stopped with an error: failed assertion (710), first returned by cudaStreamSynchronize at train.py:42.",
        "Launched before it and not seen to complete: scatter (at train.py:40).",
        "First: Run once with CUDA_LAUNCH_BLOCKING=1",
    ];
    assert_eq!((verdict.bound, verdict.text), (None, text.map(str::to_owned).to_vec()));
    assert!(verdict.is_unsafe.is_some_and(|why| why.starts_with("no operation has a GPU time.")));
    // Where there is a verdict, it comes after the error.
    let safe = Tables { gpu_errors, ..run(0, [600, 0, 0, 400], &[]) };
    let buckets = Buckets::of(&[], &safe);
    let verdict = Verdict::of(
        &Facts { reports: &[], all: &safe, buckets: &buckets, ranks: &Ranks::default() },
        &findings,
    );
    let bound = "Copy-bound: for 40.0 % of the wall copies keep the GPU from kernels.";
    assert_eq!(verdict.text, [text[0], bound, text[2]]);
    assert_eq!((verdict.bound, verdict.is_unsafe), (Some(Bound::Copies), None));
}

/// A killed program, and one whose trace was read while it ran, were to be run again with exact timing.
#[test]
fn work_that_was_pending_at_the_end_is_why_the_time_is_undecided() {
    let mut all = run(0, [600, 0, 0, 100], &[]);
    all.devices[0].identity.undecided = exactly(300 * MS);
    all.devices[0].identity.span = WALL;
    let why = "No verdict: 30.0 % of the GPU's time is undecided: some work had not ended.";
    for (left, is_why) in [(290 * MS, true), (100 * MS, false)] {
        all.pending = vec![Pending { left, kinds: Vec::new() }];
        assert_eq!(judged(&all).text[0] == why, is_why);
    }
}

/// Two ranks hung in a collective until they were killed: "Run again with --capture-range".
#[test]
fn a_rank_that_was_killed_while_its_work_had_not_ended_may_have_hung() {
    let mut all = run(0, [600, 0, 0, 100], &[]);
    all.devices[0].identity.undecided = exactly(300 * MS);
    all.devices[0].identity.span = WALL;
    let of_rank = |left, outcome| {
        let mut tables = all.clone();
        tables.pending = vec![Pending { left, kinds: Vec::new() }];
        let process = ProcessInfo { outcome: Some(outcome), ..ProcessInfo::default() };
        ProcessReport { process, tables, together: None, findings: None }
    };
    let exited = of_rank(0, Outcome::Exited(Some(0)));
    // What is pending is of a process, and no table of all of them has it.
    let reports = [exited, of_rank(290 * MS, Outcome::Killed(9))];
    let buckets = Buckets::of(&[], &all);
    let text = Verdict::of(
        &Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() },
        &[],
    )
    .text;
    assert!(text[0].ends_with("is undecided: some work had not ended."), "{text:?}");
    assert!(text[1].starts_with("If it hung, run again with --hang-after 5"), "{text:?}");
}

/// A program that had ended normally was to be let end.
#[test]
fn a_program_that_ended_before_its_work_is_told_to_wait_for_that_at_its_end() {
    let mut all = run(0, [600, 0, 0, 100], &[]);
    all.devices[0].identity.undecided = exactly(300 * MS);
    all.devices[0].identity.span = WALL;
    all.pending = vec![Pending { left: 290 * MS, kinds: Vec::new() }];
    let remedy = |outcome| {
        let process = ProcessInfo { outcome, framework: Framework::PyTorch, ..ProcessInfo::default() };
        let reports = [ProcessReport { process, tables: all.clone(), together: None, findings: None }];
        let buckets = Buckets::of(&[], &all);
        let facts = Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() };
        Verdict::of(&facts, &[]).text.last().cloned().unwrap_or_default()
    };
    let ended = remedy(Some(Outcome::Exited(Some(0))));
    assert!(ended.contains("torch.cuda.synchronize() at the end of the program"), "{ended}");
    assert!(remedy(Some(Outcome::Running)).starts_with("Let the program end"));
}

#[test]
fn undecided_time_leaves_the_verdict_open() {
    let mut all = run(0, [600, 0, 0, 100], &[]);
    all.devices[0].identity.undecided = exactly(300 * MS);
    all.devices[0].identity.span = WALL;
    let why = "No verdict: 30.0 % of the GPU's time is undecided.";
    assert_refused(&judged(&all), [why, "Run again with --timing exact."]);
    all.duty.timing = Some(Timing::Exact);
    assert_refused(&judged(&all), [why, "Run again with --capture-range, to record a part of the run."]);
    // Neither helps here: the advice led from one to the other.
    for timing in [None, Some(Timing::Exact)] {
        all.duty.timing = timing;
        for (reason, remedy) in
            [(Untimed::Contended, "Give each thread"), (Untimed::DeepQueue, "Wait for the GPU")]
        {
            all.coverage.untimed = [(Untimed::Budget.name(), 10), (reason.name(), 90)].into();
            assert!(judged_at_any_width(&all).text[1].starts_with(remedy));
        }
    }

    let idle = [(Cause::Undecided, Site::default(), 300, 4), (Cause::Copying, Site::default(), 200, 4)];
    let why = "No verdict: the GPU is idle for 30.0 % of its time for causes that are open.";
    assert_refused(
        &judged_at_any_width(&run(0, [500, 0, 0, 0], &idle)),
        [why, "Run again with --timing exact."],
    );
    let mut exact = run(0, [500, 0, 0, 0], &idle);
    exact.duty.timing = Some(Timing::Exact);
    let remedy = "Run again with --timing exact on a machine with idle processors.";
    assert_refused(&judged_at_any_width(&exact), [why, remedy]);
    // gpuspy collect has no such option.
    let window = ProcessInfo { window: Some(2), ..ProcessInfo::default() };
    let remedy = "Run the program again with GPUSPY_TIMING=exact.";
    assert_refused(&judged_with(&run(0, [500, 0, 0, 0], &idle), window, &[]), [why, remedy]);
    assert_eq!(judged(&run(500, [350, 0, 0, 0], &idle[..0])).bound, Some(Bound::StartUp));
}

#[test]
fn gaps_that_are_shorter_than_the_clock_is_known_have_no_verdict() {
    let mut all = run(0, [600, 0, 0, 0], &[(Cause::Allocating, Site::default(), 400, 400_000)]);
    all.clock.add(2_000);
    let text = [
        "No verdict: the GPU's gaps are 1.00 µs long, and its clock is known to +/- 2.00 µs only.",
        "Run again with --timing exact on a machine with idle processors.",
    ];
    assert_refused(&judged_at_any_width(&all), text);
    let mut launches = run(0, [600, 0, 0, 0], &[(Cause::BetweenLaunches, Site::default(), 400, 400_000)]);
    launches.clock.add(2_000);
    assert_eq!(
        judged_at_any_width(&launches).bound,
        Some(Bound::Launches),
        "it launched wherever the gaps are"
    );
    let mut copies = run(0, [600, 0, 0, 390], &[(Cause::Launching, Site::default(), 10, 10_000)]);
    copies.clock.add(2_000);
    assert_eq!(judged(&copies).bound, Some(Bound::Copies), "the GPU's own times do not depend on that clock");
}

//! Overviews of 80 columns and 24 lines, from tables that are filled by hand. Times are in ns.

use super::super::{Run, drawn};
use super::LINES;
use crate::analyze::bins::Bins;
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::identity::{Class, Identity, Part as Of};
use crate::analyze::idle::{Cause, Emptied, IdleReport, Part, Site, Wait};
use crate::analyze::kernels::Kernel;
use crate::analyze::memory::{MemoryUse, Use};
use crate::analyze::merge::Merge;
use crate::analyze::steps::{StepTimes, Steps};
use crate::analyze::{Line, ProcessInfo, ProcessReport, Tables};
use crate::diagnose::finding::{Evidence, Finding, Id};
use crate::model::outcome::Outcome;
use crate::report::rows::{Report, findings, verdict};
use crate::report::view::{Section, Style, View};
use std::borrow::Cow;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const STEPS: u64 = 1_000;

fn exactly(value: u64) -> Sum {
    Sum { value, lo: value, hi: value }
}

/// Returns a training run of a thousand steps after a start-up of 4.1 s. Each step computes for 31 ms, copies for 2 ms,
/// and leaves the GPU idle for 17 ms after a synchronization and for 5 ms outside CUDA.
fn training() -> ProcessReport {
    let (start_up, step, tail) = (4_100 * MS, 55 * MS, 1_400 * MS);
    let wall = start_up + STEPS * step + tail;
    let line = Line { wall_ns: wall, period_ns: (0, wall), looked_ns: wall, ..Line::default() };
    let mut bins = Bins::default();
    for _ in 0..STEPS {
        bins.pass(Of::Busy(Class::Compute), 31 * MS);
        bins.pass(Of::Busy(Class::Copy), 2 * MS);
        bins.pass(Of::Idle, 22 * MS);
    }
    let busy = [31, 0, 0, 2].map(|ms| exactly(ms * MS * STEPS));
    let identity =
        Identity { span: STEPS * step, busy, idle: exactly(22 * MS * STEPS), ..Identity::default() };
    let device = DeviceReport {
        id: Some(0),
        name: Some("NVIDIA H200".to_owned()),
        memory_bytes: Some(139 << 30),
        began_ns: Some(start_up),
        timelines: 1,
        timed: 9,
        line,
        identity,
        bins,
        idle: IdleReport { by_cause: idle().by_cause, ..IdleReport::default() },
        ..DeviceReport::default()
    };
    let memory = Use {
        peak_bytes: 41 << 30,
        peak_between: (41 << 30, 41 << 30),
        live_bytes: 38 << 30,
        peak_at: 12_000 * MS,
        allocations: 12_000,
        ..Use::default()
    };
    let mut tables = Tables { devices: vec![device], idle: idle(), steps: steps(), ..Tables::default() };
    tables.kernels = ["add", "mul", "div", "sqrt"].into_iter().zip(1..).map(kernel).collect();
    tables.memory = MemoryUse { by_kind: BTreeMap::from([("device", memory)]), ..MemoryUse::default() };
    (tables.memory.device, tables.memory.resident) = (memory, memory);
    (tables.coverage.launches, tables.coverage.timed) = (1_204_331, 373_342);
    tables.clock.add(6_000);
    let process = ProcessInfo {
        pid: Some(4242),
        command: Some("python train.py".to_owned()),
        path: "gpuspy-python-4242.gspy".to_owned(),
        outcome: Some(Outcome::Exited(Some(0))),
        line,
        ..ProcessInfo::default()
    };
    ProcessReport { process, tables, together: None, findings: None }
}

fn idle() -> IdleReport {
    let after =
        |api: &str| Site { after_wait: Some(Wait { api: api.to_owned(), line: None }), ..Site::default() };
    let wait = Site { api: Some("cudaStreamSynchronize".to_owned()), ..Site::default() };
    let sites = [
        ((Cause::ExplicitSync, wait), Part { count: STEPS, total: exactly(15_000 * MS) }),
        (
            (Cause::OutsideCuda, after("cudaStreamSynchronize")),
            Part { count: STEPS, total: exactly(5_000 * MS) },
        ),
        (
            (Cause::Launching, after("cudaStreamSynchronize")),
            Part { count: STEPS, total: exactly(2_000 * MS) },
        ),
    ];
    let by_cause = sites.iter().map(|((cause, _), part)| (*cause, *part)).collect();
    let wait = Wait { api: "cudaStreamSynchronize".to_owned(), line: None };
    let waits = [(wait, Emptied { count: STEPS, steps: 0 })].into();
    IdleReport { by_cause, sites: sites.into(), waits, ..IdleReport::default() }
}

fn steps() -> Steps {
    let time = StepTimes { median: 55 * MS, p95: 58 * MS, p99: 72 * MS, ..StepTimes::default() };
    let plot = (0..60).map(|at| if at == 40 { 60 * MS } else { 55 * MS }).collect();
    Steps { count: STEPS, warm_up: 3, time: Some(time), plot, ..Steps::default() }
}

fn kernel((functor, share): (&str, u64)) -> Kernel {
    let symbol = format!(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_{functor}<float>, std::array<char*, \
         3ul> >(int, at::native::CUDAFunctor_{functor}<float>, std::array<char*, 3ul>)"
    );
    Kernel::of_launches(&symbol, STEPS, 31 * MS / 10 * (5 - share))
}

fn fault(title: &str, text: &str, fix: &str, saves: u64) -> Finding {
    Finding {
        id: Id::SyncPerStep,
        title: title.to_owned(),
        evidence: Evidence {
            text: text.to_owned(),
            count: STEPS,
            first: Some(4_200 * MS),
            ..Evidence::default()
        },
        explanation: "The GPU has nothing to do while the host waits for it.".to_owned(),
        fix: fix.to_owned(),
        saves: Estimate::exactly(saves * MS),
    }
}

fn faults() -> Vec<Finding> {
    vec![
        fault(
            "sync in every step",
            "cudaStreamSynchronize after a copy of 4 B to the host, once per step",
            "keep the loss on the GPU and read it every 100 steps. Pinned memory does not help.",
            15_200,
        ),
        fault("pageable copies", "1 000 copies of 12 MB at 5.9 GB/s", "DataLoader(pin_memory=True)", 1_800),
        fault("tiny kernels", "800 launches of 5 us per step", "torch.compile, or a CUDA graph", 900),
    ]
}

/// Returns the screen of a run with these faults.
fn screen(report: ProcessReport, faults: &[Finding], view: &View, width: usize) -> String {
    let reports = [report];
    let all = Tables::of_run(&reports);
    let mut rows = Report::of(&reports, &all, &[]);
    rows.findings = faults.iter().map(|fault| findings::Finding::of(fault, &reports)).collect();
    if let Some(first) = faults.first() {
        let buckets = crate::diagnose::buckets::Buckets::of(&reports, &all);
        let ranks = crate::analyze::ranks::Ranks::default();
        let facts = crate::diagnose::Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &ranks };
        let of = crate::diagnose::verdict::Verdict::of(&facts, std::slice::from_ref(first));
        rows.verdict = verdict::Verdict::of(&of);
    }
    let run = Run { reports: &reports, all: Cow::Borrowed(&reports[0].tables), rows };
    drawn(&run, view, &Style { width, ..Style::default() })
}

fn assert_fits(screen: &str, width: usize) {
    assert!(screen.lines().count() <= LINES, "{} lines:\n{screen}", screen.lines().count());
    assert!(screen.lines().all(|line| line.chars().count() <= width), "{screen}");
}

#[test]
fn a_program_with_faults_fits_on_one_screen() {
    let overview = screen(training(), &faults(), &View::default(), 80);
    assert_fits(&overview, 80);
    insta::assert_snapshot!(overview);
    for width in [100, 160, 300] {
        assert_fits(&screen(training(), &faults(), &View::default(), width), width);
    }
}

#[test]
fn a_program_without_findings_shows_its_kernels() {
    let overview = screen(training(), &[], &View::default(), 80);
    assert_fits(&overview, 80);
    insta::assert_snapshot!(overview);
}

#[test]
fn lost_records_stand_above_the_refused_verdict() {
    let mut report = training();
    report.tables.coverage.dropped_by.insert("ring_full", 100_000);
    let overview = screen(report, &[], &View::default(), 80);
    assert_fits(&overview, 80);
    insta::assert_snapshot!(overview);
}

#[test]
fn after_a_run_the_verdict_comes_last_too() {
    let view = View { repeats_verdict: true, ..View::default() };
    let overview = screen(training(), &faults(), &view, 80);
    let verdict: Vec<&str> = overview.lines().skip_while(|line| !line.is_empty()).skip(1).take(3).collect();
    assert!(verdict[0].contains("Sync-bound") && verdict[2].contains("First: keep the loss"), "{overview}");
    assert!(overview.ends_with(&format!("\n\n{}\n", verdict.join("\n"))), "{overview}");
    assert!(!screen(training(), &[], &View::default(), 80).trim_end().ends_with(verdict[1]));
}

#[test]
fn findings_have_their_evidence_gain_and_check() {
    let view = View { sections: vec![Section::Findings], ..View::default() };
    insta::assert_snapshot!(screen(training(), &faults(), &view, 80));
    let none = screen(training(), &[], &view, 80);
    assert!(none.contains("none of the known faults, in 60.5 s of wall time"), "{none}");
}

/// Shares of the wall time of all GPUs, added, stood beside shares of the wall time, and all were called the same.
#[test]
fn a_share_of_several_gpus_time_says_so() {
    let mut report = training();
    let kernels = |report: &ProcessReport| {
        let view = View { sections: vec![Section::Kernels], ..View::default() };
        [View::default(), view].map(|view| screen(report.clone(), &[], &view, 100))
    };
    assert!(kernels(&report).iter().all(|screen| screen.contains("% of wall") && !screen.contains("GPUs'")));
    report.tables.devices.push(DeviceReport { id: Some(1), ..report.tables.devices[0].clone() });
    assert!(
        kernels(&report)
            .iter()
            .all(|screen| screen.contains("% of GPUs' wall") && !screen.contains("% of wall"))
    );
}

/// The first screen said that the GPU was idle for as long as all GPUs together.
#[test]
fn the_idle_time_by_cause_is_that_of_the_gpu_in_the_line_above() {
    let mut report = training();
    let second = DeviceReport { id: Some(1), ..report.tables.devices[0].clone() };
    report.tables.devices.push(second);
    let both = report.tables.idle.clone();
    report.tables.idle.merge(&both);
    let overview = screen(report.clone(), &[], &View::default(), 80);
    assert!(overview.contains("idle 22.0 s"), "{overview}");
    let causes = "Idle      explicit sync 15.0 s, host outside CUDA 5.00 s, launching 2.00 s";
    assert!(overview.contains(causes), "{overview}");
    let view = View { sections: vec![Section::Idle], ..View::default() };
    let section = screen(report, &[], &view, 80);
    assert!(section.contains("44.0 s idle, added over 2 GPUs, (36.4 % of GPUs' wall)"), "{section}");
}

/// One rank's trace was to be compared with that of a whole new job.
#[test]
fn a_rank_is_to_be_compared_with_the_same_one() {
    let mut report = training();
    (report.process.job.rank, report.process.job.world_size) = (Some(1), Some(4));
    let overview = screen(report, &faults(), &View::default(), 80);
    let check = "Check     run it again, then gpuspy diff gpuspy-python-4242.gspy NEW --rank 1";
    assert!(overview.contains(check), "{overview}");
}

/// With more than half of the records lost, compute of 0 to 3.49 s was `compute 183 ms`.
#[test]
fn parts_of_the_wall_time_that_are_little_known_are_marked() {
    let mut report = training();
    let identity = &mut report.tables.devices[0].identity;
    identity.busy[Class::Compute as usize].lo = 0;
    (identity.idle.hi, identity.undecided.hi) = (40_000 * MS, 31_000 * MS);
    let overview = screen(report.clone(), &[], &View::default(), 80);
    let wall = overview.lines().skip_while(|line| !line.starts_with("Wall")).take(2).collect::<String>();
    let parts = ["start-up 4.10 s", "compute ~31.0 s", "copies 2.00 s", "idle ~22.0 s", "tail 1.40 s"];
    assert!(parts.iter().all(|part| wall.contains(part)), "{wall}");
    assert!(overview.contains("~ marks wide bounds"), "{overview}");
    let view = View { sections: vec![Section::Idle], ..View::default() };
    let section = screen(report, &[], &view, 80);
    assert!(section.contains("~22.0 s idle (~36.4 % of wall)"), "{section}");
    let known = screen(training(), &[], &view, 80);
    assert!(known.contains(" 22.0 s idle (36.4 % of wall)"), "{known}");
}

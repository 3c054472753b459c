//! `gpuspy demo`: every phase has its findings, and their figures match the simulator's truth.

use super::compare::slack;
use super::doctor::fake_driver;
use super::lifecycle::files;
use gpuspy_collector::analyze::estimate::Sum;
use gpuspy_collector::analyze::{self, Damage, Input, Tables};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::transfer::{HostMemory, TransferKind};
use gpuspy_collector::report::units;
use gpuspy_collector::trace::TraceReader;
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, agent, gpuspy};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PHASES: [&str; 6] = ["input", "small-kernels", "sync-per-step", "growing-memory", "graph", "overlap"];
const FILES: [&str; 2] = ["gpuspy-demo.gspy", "gpuspy-demo.json.gz"];

fn demo(run: Run, arguments: &[&str]) -> Done {
    let mut command = run.gpuspy_command(&["demo"]);
    command.args(arguments);
    run.finish(command)
}

/// Prepares a demo on the simulator.
fn run() -> Run {
    Run::command("true")
}

/// What the demo reports about a phase.
#[derive(Debug)]
struct PhaseReport {
    name: String,
    /// The phase's window, ns since the collection began, rounded to ms; 10 ms lie between phases.
    window: Range<u64>,
    /// The first sentence of the verdict, and that there is no finding.
    verdict: String,
    findings: Vec<Finding>,
}

/// A finding of a phase.
#[derive(Debug)]
struct Finding {
    id: String,
    found: String,
    /// ns; 0 for faults that cost no time.
    saves: f64,
}

fn phase_reports(stdout: &str) -> Vec<PhaseReport> {
    let (_, all) = stdout.split_once("\nWhat to look at\n\n").unwrap_or_else(|| panic!("{stdout}"));
    let paragraphs = all.split("\n\n").map(|paragraph| paragraph.lines().collect::<Vec<_>>());
    paragraphs.filter(|lines| lines.len() > 2).map(|lines| phase_report(&lines)).collect()
}

fn phase_report(lines: &[&str]) -> PhaseReport {
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    let ms = |text: &str| (text.parse::<f64>().unwrap() * 1e3).round() as u64 * 1_000_000;
    let body: String = lines[1..].iter().map(|line| line.trim().to_owned() + " ").collect();
    let mut parts = body.split(" - ");
    let verdict = parts.next().unwrap().to_owned();
    PhaseReport {
        name: words[0].to_owned(),
        // Widened by what rounding can have removed.
        window: ms(words[1]) - 500_000..ms(words[3]) + 500_000,
        verdict,
        findings: parts.map(finding).collect(),
    }
}

fn finding(text: &str) -> Finding {
    let between = |from: &str, to: &str| {
        let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {text}")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in {text}")).0.to_owned()
    };
    let (_, gain) = text.rsplit_once(" gain ").unwrap_or_else(|| panic!("{text}"));
    let words = gain.split_whitespace().skip_while(|word| ["saves", "at", "most"].contains(word)).take(2);
    // A fault for which no time is promised has no number.
    let words: Vec<&str> =
        if gain.trim_start().starts_with("saves") { words.collect() } else { vec!["0", "ns"] };
    let unit = match words[1] {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        _ => 1e9,
    };
    Finding {
        id: between("(", ")"),
        found: between(" found ", " fix "),
        saves: words[0].parse::<f64>().unwrap() * unit,
    }
}

/// What really happened in a window.
struct Happened<'t> {
    lines: Vec<&'t Value>,
}

impl<'t> Happened<'t> {
    fn of(truth: &'t Truth, began: u64, window: &Range<u64>) -> Happened<'t> {
        let kinds = ["kernel", "copy", "graph", "alloc", "free"];
        let all = kinds.into_iter().flat_map(|kind| truth.of(kind));
        let begin = |l: &Value| l["call_begin"].as_u64().or(l["begin"].as_u64()).unwrap();
        let ran = |l: &&Value| l["captured"] != true;
        let is_in = |l: &&Value| ran(l) && window.contains(&(begin(l).saturating_sub(began)));
        Happened { lines: all.filter(is_in).collect() }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &'t Value> {
        self.lines.iter().copied().filter(move |l| l["kind"] == kind)
    }

    fn count(&self, kind: &str) -> u64 {
        self.of_kind(kind).count() as u64
    }

    fn copies(&self, direction: &str, memory: &str) -> Vec<&'t Value> {
        let is_meant = |l: &&Value| l["direction"] == direction && l["host_memory"] == memory;
        self.of_kind("copy").filter(is_meant).collect()
    }

    fn bytes(&self, kind: &str) -> u64 {
        self.of_kind(kind).filter(|l| l["memory"] == "device").map(|l| number(l, "bytes")).sum()
    }

    /// Whether memory grows in each quarter of the time, as the report asks for it, with a margin: after the first eighth, the least that
    /// is held rises from quarter to quarter by much more than half of what an even growth would give. Where the host waits for a
    /// processor in one of them, it does not.
    fn grows_evenly(&self) -> bool {
        let changes = ["alloc", "free"].into_iter().flat_map(|kind| self.of_kind(kind));
        let changes = changes.filter(|l| l["memory"] == "device");
        let signed = |l: &Value| number(l, "bytes") as i64 * if l["kind"] == "alloc" { 1 } else { -1 };
        let mut changes: Vec<(u64, i64)> = changes.map(|l| (number(l, "begin"), signed(l))).collect();
        changes.sort_unstable();
        let ([(first, _), .., (last, _)], mut held) = (&changes[..], 0) else { return false };
        let (steady, mut least) = (first + (last - first) / 8, [i64::MAX; 4]);
        for (at, change) in &changes {
            held += change;
            if let Some(since) = at.checked_sub(steady) {
                let quarter = (4 * since / (last - steady + 1)) as usize;
                least[quarter] = least[quarter].min(held);
            }
        }
        let even = (least[3] - least[0]) / 3;
        least.windows(2).all(|pair| pair[1].saturating_sub(pair[0]) > even * 7 / 10)
    }

    /// Returns the ns in which something ran.
    fn busy(&self) -> u64 {
        let ran = self.lines.iter().filter(|l| l["end"].is_u64() && l["head"].is_u64() && l["in_graph"] == 0);
        let mut spans: Vec<(u64, u64)> = ran.map(|l| interval(l)).collect();
        spans.sort_unstable();
        let mut until = 0;
        let mut busy = 0;
        for (start, end) in spans {
            busy += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
        busy
    }
}

fn number(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("no {key} in {line}"))
}

fn interval(line: &Value) -> (u64, u64) {
    (number(line, "head"), number(line, "end"))
}

/// Fails the test unless the sum's interval contains the time that `lines` really took.
#[track_caller]
fn holds(sum: Sum, lines: &[&Value]) {
    let times = lines.iter().map(|l| interval(l)).map(|(start, end)| end - start);
    let (truth, slack) = times.fold((0, 0), |(sum, all), time| (sum + time, all + slack(time)));
    assert!(sum.lo <= truth + slack && truth <= sum.hi + slack, "{truth} is not in {sum:?}");
}

/// Returns the report's tables for a window.
fn tables(trace: &Path, window: &Range<u64>) -> Tables {
    let mut reader = TraceReader::open(trace).unwrap();
    let clocks = Survey::of(reader.records());
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let filter = Filter { since: Some(window.start), until: Some(window.end), ..Filter::default() };
    analyze::process(Input {
        path: String::new(),
        names: &names,
        status: status.as_ref(),
        damage: Damage::default(),
        clocks: &clocks,
        filter: &filter,
        records: reader.records(),
    })
    .tables
}

#[test]
fn each_phase_is_reported_with_true_figures() {
    let done = demo(run(), &[]).succeeded();
    assert_eq!(files(&done), FILES);
    assert_eq!(done.stderr, "");
    assert_eq!(done.stdout.lines().next(), Some("On a simulated GPU: all figures are simulated."));
    assert!(done.stdout.contains("\nCoverage  ") && done.stdout.contains("\nKernels  "), "{}", done.stdout);
    let phases = phase_reports(&done.stdout);
    assert_eq!(phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), PHASES);

    let (truth, trace) = (done.truth(), done.trace());
    let began = TraceReader::open(&trace).unwrap().status().unwrap().began;
    let happened = phases.iter().map(|phase| Happened::of(&truth, began, &phase.window)).collect::<Vec<_>>();
    for (phase, happened) in phases.iter().zip(&happened) {
        println!("{phase:?}");
        let tables = tables(&trace, &phase.window);
        let kernels: Vec<&Value> = happened.of_kind("kernel").collect();
        let of_phase = |l: &&Value| l["name"].as_str().unwrap().starts_with(&phase.name.replace('-', "_"));
        assert!(
            kernels.iter().all(of_phase) && !kernels.is_empty(),
            "in the phase's window, other kernels ran or none"
        );
        expect(phase, happened, &tables);

        let identity = tables.devices[0].identity;
        let (least, most) = (identity.span - identity.idle.hi, identity.span - identity.idle.lo);
        let (busy, slack) = (happened.busy(), slack(identity.span) + 2 * happened.lines.len() as u64);
        assert!(least <= busy + slack && busy <= most + slack, "{busy} is not in {least} .. {most}");
        let saves: f64 = phase.findings.iter().map(|found| found.saves).sum();
        assert!(saves <= 1.01 * (phase.window.end - phase.window.start) as f64, "{phase:?}");
    }

    // Where the host waits for a processor most of the time, the GPU waits for the host whatever work it is given.
    if done.pressure > 0.5 {
        return;
    }
    for fixed in [4, 5] {
        assert!(phases[fixed].findings.is_empty(), "{phases:#?}");
        assert!(phases[fixed].verdict.contains("nothing to gain above 1.0 %"), "{phases:#?}");
    }
}

/// Checks what a phase must say.
fn expect(phase: &PhaseReport, happened: &Happened<'_>, tables: &Tables) {
    let found = |id: &str| {
        let found = phase.findings.iter().find(|found| found.id == id);
        &found.unwrap_or_else(|| panic!("no {id} in {phase:#?}")).found
    };
    let says = |id: &str, text: &str| assert!(found(id).contains(text), "no {text:?} in: {}", found(id));
    let copies = |memory: HostMemory, name: &str| {
        let copies = happened.copies("HtoD", name);
        let bytes: u64 = copies.iter().map(|l| number(l, "bytes")).sum();
        let seen = &tables.transfers[&(TransferKind::HtoD, memory)];
        assert_eq!((seen.count, seen.bytes), (copies.len() as u64, bytes));
        holds(seen.time, &copies);
        (copies.len(), units::bytes(bytes))
    };
    match phase.name.as_str() {
        "input" => {
            let (count, bytes) = copies(HostMemory::Pageable, "pageable");
            assert_eq!(phase.findings[0].id, "pageable-copies", "{phase:#?}");
            says("pageable-copies", &format!("{count} copies of {bytes} in all from or to pageable memory"));
        }
        "small-kernels" => {
            let median = tables.kernels[0].durations.median().unwrap();
            // Each really takes 2 µs.
            assert!(median.lo <= 2_000 && 2_000 <= median.hi, "{median:?}");
            let kernels = units::count(happened.count("kernel"));
            assert_eq!(phase.findings[0].id, "tiny-kernels", "{phase:#?}");
            says("tiny-kernels", &format!("{kernels} of {kernels} launches (100.0 %)"));
            says("tiny-kernels", &format!("the commonest runs for {}", units::duration(median.value)));
        }
        "sync-per-step" => {
            let reads = happened.copies("DtoH", "pageable");
            holds(tables.transfers[&(TransferKind::DtoH, HostMemory::Pageable)].time, &reads);
            // After each read the host logs for 1 ms.
            let first = &phase.findings[0];
            assert!(["host-stall", "sync-per-step"].contains(&first.id.as_str()), "{phase:#?}");
            let logged = reads.len() as f64 * 1e6;
            assert!(first.saves > 0.9 * logged, "{} of at least {logged}: {phase:#?}", first.saves);
        }
        "growing-memory" => {
            if happened.grows_evenly() {
                says("memory-grows", "never freed");
            }
            says("allocation-churn", "frees waited for the GPU");
            assert!(happened.bytes("alloc") > happened.bytes("free"));
        }
        "graph" => {
            let (launches, kernels) = (happened.count("graph"), happened.count("kernel"));
            assert_eq!((tables.graphs.launches, tables.graphs.kernels), (launches, kernels));
        }
        "overlap" => {
            copies(HostMemory::Pinned, "pinned");
        }
        _ => panic!("{phase:?}"),
    }
}

#[test]
fn the_chrome_trace_is_whole() {
    let done = demo(run(), &["--no-report", "-o", "there/and/here"]).succeeded();
    assert_eq!(files(&done), ["there"]);
    assert!(!done.stdout.contains("\nCoverage  "), "{}", done.stdout);
    let folder = done.folder().join("there/and/here");
    let unpacked = Command::new("gzip").arg("-dc").arg(folder.join(FILES[1])).output().unwrap();
    assert!(unpacked.status.success());
    let trace: Value = serde_json::from_slice(&unpacked.stdout).unwrap();
    let kernels = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel");
    let names: Vec<&str> = kernels.map(|event| event["name"].as_str().unwrap()).collect();
    for name in ["input_forward_600us", "small_kernels_2us", "overlap_backward_1200us", "Graph (200 kernels)"]
    {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn without_a_gpu_the_demo_uses_the_simulator_and_says_why() {
    let done = demo(run().without_gpu(), &["--no-report"]).succeeded();
    let first = done.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("On a simulated GPU, because no real one can be used (libcuda.so.1: "),
        "{first}"
    );
    assert!(first.ends_with("): all figures are simulated."), "{first}");
    assert_eq!(files(&done), FILES);
    // Run it again: files that a demo left are replaced, and nothing else is.
    let again = |folder: &Path| {
        let mut command = Command::new(gpuspy());
        command.args(["demo", "--no-report"]).current_dir(folder).env_remove("LD_LIBRARY_PATH");
        command.output().unwrap()
    };
    assert!(again(done.folder()).status.success());
    std::fs::write(done.folder().join(FILES[1]), "thesis").unwrap();
    let refused = again(done.folder());
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    assert_eq!(std::fs::read(done.folder().join(FILES[1])).unwrap(), b"thesis");
}

#[test]
fn a_driver_without_a_gpu_is_skipped_and_its_error_is_named() {
    let driver =
        "int cuInit(unsigned f) { return 100; } int cuDriverGetVersion(int *v) { *v = 12090; return 0; }";
    let place = fake_driver(driver);
    let done = demo(run().without_gpu().env("LD_LIBRARY_PATH", place.path()), &["--no-report"]).succeeded();
    let first = done.stdout.lines().next().unwrap();
    assert!(first.contains("(cuInit fails: error 100 (100)): all figures are simulated"), "{first}");
    assert_eq!(phase_reports(&done.stdout).len(), PHASES.len());
}

#[test]
fn a_gpu_that_turns_out_unusable_ends_the_demo_with_a_sentence() {
    let done = demo(run().env("SIMCUDA_FAIL", "cuDevicePrimaryCtxRetain:46:*"), &[]);
    assert_eq!(done.status.code(), Some(2));
    assert!(done.stderr.contains("cuDevicePrimaryCtxRetain returned 46"), "{}", done.stderr);
    assert!(
        done.stderr.ends_with("run gpuspy doctor to find out what is wrong with the GPU\n"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_missing_simulator_is_reported_with_how_to_get_it() {
    let run = run().without_gpu();
    let alone = run.folder().join("gpuspy");
    std::fs::copy(gpuspy(), &alone).unwrap();
    for (sim, sentence) in
        [("", "there is no simulator: put libsimcuda.so beside gpuspy"), ("/nowhere", "GPUSPY_SIM=/nowhere")]
    {
        let mut command = Command::new(&alone);
        command.arg("demo").current_dir(run.folder()).env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
        let output = command.env("GPUSPY_SIM", sim).env("GPUSPY_AGENT", agent()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains(sentence) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(std::fs::read_dir(run.folder()).unwrap().count(), 1, "the demo left files behind");
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let run = run();
    let mut command = run.gpuspy_command(&["demo"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("On a simulated GPU"), "{first}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(FILES.iter().all(|file| run.folder().join(file).exists()));
}

#[test]
fn ctrl_c_ends_the_demo_and_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let run = run().env("TMPDIR", temporary.path()).env("XDG_RUNTIME_DIR", temporary.path());
    let mut command = run.gpuspy_command(&["demo"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !run.folder().join(FILES[0]).exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: signals a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("ended by signal 2"), "{said}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "the demo left files behind");
}

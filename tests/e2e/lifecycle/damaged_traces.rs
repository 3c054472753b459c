//! A real trace, truncated and corrupted at every byte: there is a report, or a clear error.

use gpuspy_collector::analyze::{self, Input, ProcessReport};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::report::{self, Style, View};
use gpuspy_collector::trace::TraceReader;
use gpuspy_tests::{Run, gpuspy};
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

/// Returns a small trace of a real run.
fn trace() -> Vec<u8> {
    let done = Run::of("plain_work").observed_with(&["--no-report"]).succeeded();
    let bytes = std::fs::read(done.trace()).unwrap();
    assert!((1000..20_000).contains(&bytes.len()), "the trace has {} bytes", bytes.len());
    bytes
}

/// Does what `gpuspy report` does with a trace's bytes; `None` if it cannot be read.
fn report(bytes: &[u8]) -> Option<ProcessReport> {
    let mut reader = TraceReader::new(Cursor::new(bytes)).ok()?;
    let clocks = Survey::of(reader.records());
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let damage = reader.damage().into();
    let report = analyze::process(Input {
        path: "cut.gspy".to_owned(),
        names: &names,
        status: status.as_ref(),
        damage,
        clocks: &clocks,
        filter: &Filter::default(),
        records: reader.records(),
    });
    let reports = [report];
    assert!(!report::terminal(&reports, &View::default(), &Style::default()).is_empty());
    assert!(report::json(&reports)["coverage"].is_object());
    let [report] = reports;
    Some(report)
}

fn launches(report: &ProcessReport) -> u64 {
    report.tables.coverage.launches
}

#[test]
fn a_trace_cut_at_any_byte_is_reported_or_refused() {
    let whole = trace();
    assert_eq!(report(&whole).map(|r| launches(&r)), Some(200));
    let mut last = 0;
    let mut reported = 0;
    for length in 0..whole.len() {
        let Some(report) = report(&whole[..length]) else {
            assert_eq!(reported, 0, "{length} bytes cannot be read, although fewer can");
            continue;
        };
        reported += 1;
        assert!(launches(&report) >= last, "{length} bytes contain fewer launches than a shorter trace");
        last = launches(&report);
    }
    assert!(reported > whole.len() / 2, "only {reported} of {} lengths are reported", whole.len());
}

#[test]
fn a_trace_with_any_byte_flipped_is_reported_or_refused() {
    let whole = trace();
    let is_reported = |at: usize| {
        let mut bytes = whole.clone();
        // Flips all bits of a byte or one of them, alternately.
        bytes[at] ^= if at.is_multiple_of(2) { 0xff } else { 1 << (at / 2 % 8) };
        let report = report(&bytes);
        if let Some(report) = &report {
            assert!(launches(report) <= 200, "byte {at}: {} launches", launches(report));
        }
        report.is_some()
    };
    // Nothing else runs meanwhile, so every processor takes a share.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = |first: usize| (first..whole.len()).step_by(processors).filter(|at| is_reported(*at)).count();
    let reported: usize = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..processors).map(|first| scope.spawn(move || share(first))).collect();
        shares.into_iter().map(|share| share.join().unwrap()).sum()
    });
    assert!(reported > whole.len() / 2, "only {reported} of {} damaged traces are reported", whole.len());
}

/// Runs `gpuspy report` on these bytes and returns its exit code, after checking that 0 comes with a screen and 3 with
/// one line.
fn by_executable(folder: &Path, bytes: &[u8]) -> i32 {
    let path = folder.join("damaged.gspy");
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new(gpuspy()).arg("report").arg(&path).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    let code = output.status.code().unwrap_or_else(|| panic!("gpuspy ended with {}", output.status));
    match code {
        0 => assert!(!output.stdout.is_empty()),
        3 => assert!(output.stdout.is_empty() && error.lines().count() == 1, "{error}"),
        _ => panic!("exit code {code}: {error}"),
    }
    code
}

#[test]
fn the_report_command_exits_with_0_or_3_on_damaged_traces() {
    let whole = trace();
    let folder = tempfile::tempdir().unwrap();
    let mut codes = std::collections::BTreeMap::<i32, u32>::new();
    let places = (0..30).map(|n| 1 + n * (whole.len() - 1) / 30);
    for at in places {
        let mut flipped = whole.clone();
        flipped[at] ^= 0xff;
        for bytes in [&whole[..at], &flipped] {
            *codes.entry(by_executable(folder.path(), bytes)).or_default() += 1;
        }
    }
    assert_eq!(by_executable(folder.path(), &whole), 0);
    assert!(codes[&0] >= 30 && codes.contains_key(&3), "{codes:?}");
}

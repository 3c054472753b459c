//! The report of a job of many ranks on many machines, which are read one machine after another, is the report of all of them
//! read at once.

use gpuspy_collector::analyze::{self, Input, Member, ProcessReport};
use gpuspy_collector::model::clocks::Clocks;
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::run::{self, Surveyed};
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::report::{Section, Style, View, json, terminal};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::generator::{Kind, Ranks, Truth, write_ranks};
use gpuspy_collector::trace::record::{Names, Status};
use serde_json::{Value, json as value};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

const JOB: Ranks = Ranks { ranks: 64, hosts: 8, late: Some(62), seed: 11, start: 0 };

/// Runs `gpuspy report` with so few open files that not all traces can be open at once.
fn report(folder: &Path, options: &[&str]) -> Output {
    let gpuspy = env!("CARGO_BIN_EXE_gpuspy");
    let done = Command::new("sh")
        .args(["-c", "ulimit -n 48; exec \"$0\" report \"$@\"", gpuspy])
        .arg(folder)
        .args(options)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done
}

fn report_json(folder: &Path, options: &[&str]) -> Value {
    serde_json::from_slice(&report(folder, &[&["--json"], options].concat()).stdout).unwrap()
}

struct Trace {
    path: PathBuf,
    reader: TraceReader,
    names: Names,
    status: Option<Status>,
    clocks: Clocks,
}

impl Trace {
    fn surveyed(&self) -> Surveyed<'_> {
        Surveyed { names: &self.names, status: self.status.as_ref(), clocks: &self.clocks }
    }
}

fn open(path: &Path) -> Trace {
    let mut reader = TraceReader::open(path).unwrap();
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let mut survey = Survey::of_steps(&names);
    reader.records().for_each(|record| survey.observe(&record));
    Trace { path: path.to_owned(), reader, names, status, clocks: survey.finish() }
}

/// Returns the reports of traces that are all open at once, none of which is reduced.
fn reports_at_once(paths: &[PathBuf]) -> Vec<ProcessReport> {
    let mut traces: Vec<Trace> = paths.iter().map(|path| open(path)).collect();
    let filters = run::filters(&traces.iter().map(Trace::surveyed).collect::<Vec<_>>(), &Filter::default());
    let analyzed = traces.iter_mut().zip(&filters).map(|(one, filter)| {
        analyze::process(Input {
            path: one.path.display().to_string(),
            names: &one.names,
            status: one.status.as_ref(),
            damage: one.reader.damage().into(),
            clocks: &one.clocks,
            filter,
            records: one.clocks.callers.on_stacks(one.reader.records()),
        })
    });
    let mut reports: Vec<ProcessReport> = analyzed.collect();
    let members = traces.iter_mut().zip(&filters).map(|(one, filter)| Member {
        names: &one.names,
        status: one.status.as_ref(),
        clocks: &one.clocks,
        filter,
        not_before: one.reader.not_before(),
        records: one.clocks.callers.on_stacks(one.reader.records()),
    });
    analyze::together(&mut reports, members.collect());
    analyze::sort(&mut reports);
    reports
}

fn sum(truths: &[&Truth], of: impl Fn(&Truth) -> u64) -> u64 {
    truths.iter().map(|truth| of(truth)).sum()
}

#[test]
fn ranks_that_are_read_machine_after_machine_give_the_report_of_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_ranks(folder.path(), JOB, 240).unwrap();
    let paths: Vec<PathBuf> = written.iter().map(|(path, _)| path.clone()).collect();
    let reports = reports_at_once(&paths);
    let (ours, at_once) = (report_json(folder.path(), &[]), json(&reports));
    for (key, theirs) in at_once.as_object().unwrap() {
        assert_eq!(ours[key], *theirs, "{key}");
    }
    let screen = String::from_utf8(report(folder.path(), &["--section", "all", "--width", "100"]).stdout);
    let style = Style { width: 100, color: false, ascii: false, full_names: false };
    let sections = View { sections: vec![Section::All], ..View::default() };
    assert_eq!(without_sizes(&screen.unwrap()), without_sizes(&terminal(&reports, &sections, &style)));

    // What was generated is in it.
    let truths: Vec<&Truth> = written.iter().map(|(_, truth)| truth).collect();
    assert_eq!(ours["coverage"]["launches"], value!(sum(&truths, |truth| truth.launches)));
    assert_eq!(ours["ranks"].as_array().map(Vec::len), Some(64));
    for (rank, truth) in ours["ranks"].as_array().unwrap().iter().zip(&truths) {
        assert_eq!((&rank["launches"], &rank["timed"]), (&value!(truth.launches), &value!(truth.launches)));
        assert_eq!(rank["host"], value!(format!("host{:03}", rank["rank"].as_u64().unwrap() / 8)));
    }
    let bytes = sum(&truths, |truth| truth.transfers.get(&Kind::HtoD).map_or(0, |moved| moved.bytes));
    let copies = ours["transfers"].as_array().unwrap().iter().find(|row| row["kind"] == "HtoD").unwrap();
    assert_eq!(copies["bytes"], value!(bytes));
    let titles: Vec<&Value> = ours["findings"].as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert!(titles.contains(&&value!("Rank 62 (host007) keeps the others waiting")), "{titles:?}");
}

/// Only the command knows the size of the traces.
fn without_sizes(screen: &str) -> String {
    screen.lines().filter(|line| !line.contains("trace")).collect::<Vec<_>>().join("\n")
}

/// Above a soft limit of 1024, an export of many traces failed, and a report was of those that could be opened.
#[test]
fn traces_of_one_machine_may_be_more_than_the_soft_limit_on_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    write_ranks(&folder.path().join("traces"), Ranks { hosts: 1, ..JOB }, 24).unwrap();
    let gpuspy = |words: &[&str]| {
        let done = Command::new("sh")
            .args(["-c", "ulimit -S -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_gpuspy")])
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && !said.contains("cannot read"), "{words:?}: {said}");
        done.stdout
    };
    let report: Value = serde_json::from_slice(&gpuspy(&["report", "traces", "--json"])).unwrap();
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(64));
    gpuspy(&["export", "traces", "-o", "all.json"]);
    gpuspy(&["diff", "traces", "traces"]);
}

/// An export of a running job waited 5 s for each trace.
#[test]
fn traces_that_are_being_written_are_waited_for_together() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_ranks(folder.path(), Ranks { ranks: 16, hosts: 1, ..JOB }, 24).unwrap();
    let traces: Vec<File> = written.iter().map(|(path, _)| File::open(path).unwrap()).collect();
    traces.iter().for_each(|trace| trace.lock().unwrap());
    let (exported, is_exported) = mpsc::channel::<()>();
    // They are complete long after one wait, and before sixteen.
    let writers = std::thread::spawn(move || {
        let _ = is_exported.recv_timeout(Duration::from_secs(45));
        drop(traces);
    });
    let done = Command::new(env!("CARGO_BIN_EXE_gpuspy"))
        .args(["export".as_ref(), folder.path().as_os_str(), "-o".as_ref(), "/dev/null".as_ref()])
        .output()
        .unwrap();
    drop(exported);
    writers.join().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), said.matches("is still being written").count()), (Some(0), 16), "{said}");
}

#[test]
fn a_selected_rank_is_reported_as_from_its_own_trace() {
    let folder = tempfile::tempdir().unwrap();
    let job = Ranks { ranks: 6, hosts: 3, ..JOB };
    let written = write_ranks(folder.path(), job, 240).unwrap();
    let (of_all, alone) = (report_json(folder.path(), &["--rank", "3"]), report_json(&written[3].0, &[]));
    for key in ["kernels", "transfers", "apis", "steps", "memory", "coverage"] {
        assert_eq!(of_all[key], alone[key], "{key}");
    }
    let missing = Command::new(env!("CARGO_BIN_EXE_gpuspy"))
        .args(["report".as_ref(), folder.path().as_os_str(), "--rank".as_ref(), "6".as_ref()])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("--rank 6 is not in"));
}

/// A copy of a trace was another process with the same id, and its rank was there twice.
#[test]
fn a_copy_of_a_trace_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let job = Ranks { ranks: 3, hosts: 1, late: None, seed: 3, start: 0 };
    write_ranks(folder.path(), job, 600).unwrap();
    let at = |name: &str| folder.path().join(name);
    let once = report_json(folder.path(), &[]);
    std::fs::copy(at("rank0001.gspy"), at("z.gspy")).unwrap();
    // One that was made while the program ran.
    let bytes = std::fs::read(at("rank0002.gspy")).unwrap();
    std::fs::write(at("aborted.gspy"), &bytes[..bytes.len() * 3 / 4]).unwrap();
    let done = report(folder.path(), &["--json"]);
    let (twice, said): (Value, _) =
        (serde_json::from_slice(&done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    for table in ["ranks", "kernels", "coverage"] {
        assert_eq!(once[table], twice[table], "{table}: {said}");
    }
    assert_eq!(twice["processes"].as_array().unwrap().len(), 3, "{said}");
    for (left_out, kept) in [("z", "rank0001"), ("aborted", "rank0002")] {
        let [left_out, kept] = [left_out, kept].map(|name| at(&format!("{name}.gspy")));
        let sentence = format!("{} is left out: it is a copy of {}\n", left_out.display(), kept.display());
        assert_eq!(said.matches(&sentence).count(), 1, "{said}");
    }
}

#[test]
fn steps_are_those_of_the_process_with_most_of_them_whichever_machine_it_is_on() {
    let folder = tempfile::tempdir().unwrap();
    write_ranks(folder.path(), Ranks { ranks: 2, hosts: 2, late: None, seed: 3, start: 0 }, 600).unwrap();
    let whole = report_json(folder.path(), &[]);
    let part = report_json(folder.path(), &["--step", "5..14"]);
    let launches = |report: &Value| report["coverage"]["launches"].as_u64().unwrap();
    assert!(whole["steps"]["count"].as_u64().unwrap() > 15, "{}", whole["steps"]);
    assert!((200..=280).contains(&launches(&part)), "{} of {}", launches(&part), launches(&whole));
}

/// What is kept of a rank once it is added to the run does not depend on how long it ran. Its text has all that is kept.
#[test]
fn what_is_kept_of_a_rank_does_not_grow_with_its_length() {
    let kept = |launches: u64| {
        let folder = tempfile::tempdir().unwrap();
        let job = Ranks { ranks: 1, hosts: 1, ..JOB };
        let written = write_ranks(folder.path(), job, launches).unwrap();
        let mut report = reports_at_once(&[written[0].0.clone()]).remove(0);
        let whole = format!("{report:?}").len();
        report.reduce(0, 64);
        (whole, format!("{report:?}").len())
    };
    let (short, long) = (kept(4_000), kept(16_000));
    assert!(long.0 > short.0 * 2, "{long:?} {short:?}");
    assert!(long.1 < short.1 + short.1 / 4 && long.1 * 20 < long.0, "{long:?} {short:?}");
}

//! Measures the cost of reading a generated trace, by its number of launches.
//!
//! This takes two processes: one generates the trace and finally checks the answers; the other, which measures, has to
//! be small, because the memory that wait4 reports for a child starts with what its parent had when it was spawned
//! (`exec` keeps the larger of both).

use crate::{generated, gpuspy};
use gpuspy_collector::trace::generator::{Ranks, write_ranks, write_trace};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// The first argument of the generating process.
pub const ANSWER: &str = "--answer";

/// The first argument of a process that only generates a trace.
pub const GENERATE: &str = "--generate";

/// The first argument of a process that only generates the traces of a job.
pub const RANKS: &str = "--ranks";

/// The measurements of one trace.
pub struct Measured {
    /// The number of launches in the trace.
    pub launches: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The cost of each `gpuspy report --json`.
    pub report: Vec<Cost>,
    /// The cost of each `gpuspy export --to chrome`.
    pub export: Vec<Cost>,
    /// The cost of each `gpuspy export --to parquet`.
    pub tables: Vec<Cost>,
    /// Answers of the report that differ from what the generator knows.
    pub wrong: Vec<String>,
}

/// The cost of a process.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Processor time of the process, in user and kernel mode; other processes on the machine do not count.
    pub cpu_seconds: f64,
    /// From its start to its end; other processes on the machine make it longer.
    pub wall_seconds: f64,
    /// The peak of resident memory (ru_maxrss), KiB.
    pub peak_kib: u64,
}

impl Measured {
    /// Returns the measurements in the form in which the program prints them.
    pub fn json(&self) -> Value {
        let costs = |costs: &[Cost]| -> Value {
            costs
                .iter()
                .map(|cost| {
                    let Cost { cpu_seconds, wall_seconds, peak_kib } = cost;
                    json!({ "cpu_seconds": cpu_seconds, "wall_seconds": wall_seconds, "peak_kib": peak_kib })
                })
                .collect()
        };
        json!({
            "launches": self.launches,
            "bytes": self.bytes,
            "report": costs(&self.report),
            "export": costs(&self.export),
            "tables": costs(&self.tables),
            "wrong": self.wrong,
        })
    }
}

/// Generates a trace of this many launches in another process, and reads it this many times.
pub fn measure(launches: u64, rounds: u64) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("generated.gspy");
    let mut knowing = Command::new(std::env::current_exe().unwrap())
        .args([OsStr::new(ANSWER), OsStr::new(&launches.to_string()), trace.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(knowing.stdout.take().unwrap());
    let mut bytes = String::new();
    said.read_line(&mut bytes).unwrap();
    let bytes = bytes.trim().parse().expect("the generating process did not print the size of its trace");
    let (mut report, mut export, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        report.push(cost("report", &trace, &["--json"], &trace.with_extension("json")));
        export.push(cost("export", &trace, &["--to", "chrome"], Path::new("/dev/null")));
        let out = folder.path().join(format!("tables-{round}"));
        let options = ["--to", "parquet", "-o", out.to_str().unwrap()];
        tables.push(cost("export", &trace, &options, Path::new("/dev/null")));
        std::fs::remove_dir_all(&out).unwrap();
    }
    drop(knowing.stdin.take());
    let mut wrong = String::new();
    said.read_to_string(&mut wrong).unwrap();
    let status = knowing.wait().unwrap();
    assert!(status.success(), "the generating process ended with {status}");
    Measured { launches, bytes, report, export, tables, wrong: wrong.lines().map(str::to_owned).collect() }
}

/// Writes a trace of this many launches, the same as [`measure`] reads.
pub fn generate(launches: u64, trace: &Path) {
    write_trace(trace, &mut generated::generator(), launches).unwrap();
}

/// Writes the traces of a job of so many ranks on so many machines into a folder, with so many launches each. The last rank but
/// one is slower than the others. The job is started so often.
pub fn generate_ranks(ranks: u32, hosts: u32, launches: u64, folder: &Path, starts: u32) {
    for start in 0..starts {
        let job = Ranks { ranks, hosts, late: ranks.checked_sub(2), seed: 11 + u64::from(start), start };
        write_ranks(folder, job, launches).unwrap();
    }
}

/// Runs as the generating process: writes the trace and prints its size. When stdin ends, prints which answers of the
/// report beside the trace are wrong.
pub fn answer(launches: u64, trace: &Path) {
    let mut generator = generated::generator();
    println!("{}", write_trace(trace, &mut generator, launches).unwrap());
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let report = File::open(trace.with_extension("json")).unwrap();
    let report: Value = serde_json::from_reader(BufReader::new(report)).unwrap();
    generated::differences(&report, &generator).iter().for_each(|line| println!("{line}"));
}

/// Runs `gpuspy COMMAND TRACE OPTIONS… > OUTPUT`.
fn cost(command: &str, trace: &Path, options: &[&str], output: &Path) -> Cost {
    let output = File::options().write(true).create(true).truncate(true).open(output).unwrap();
    let began = Instant::now();
    #[allow(clippy::zombie_processes)] // wait4 waits for it and reports its cost
    let child = Command::new(gpuspy())
        .args([OsStr::new(command), trace.as_os_str()])
        .args(options)
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()
        .unwrap();
    let (status, usage) = wait(&child);
    let wall_seconds = began.elapsed().as_secs_f64();
    assert!(status.success(), "gpuspy {command} ended with {status}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Cost { cpu_seconds, wall_seconds, peak_kib: usage.ru_maxrss as u64 }
}

/// Waits for a child, and returns its exit status and cost.
fn wait(child: &Child) -> (ExitStatus, libc::rusage) {
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both are ours to write, and an rusage consists of integers, for which zero is valid.
    let (waited, usage) = unsafe {
        let waited = libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr());
        (waited, usage.assume_init())
    };
    assert_eq!(waited, child.id() as i32, "{}", io::Error::last_os_error());
    (ExitStatus::from_raw(status), usage)
}

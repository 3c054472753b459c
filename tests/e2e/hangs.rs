//! Work that does not end is reported while the program hangs, and at the top of the report after it was killed.
//!
//! The programs' own waits are far longer or shorter than the limit of one second, so that load does not matter.

use gpuspy_tests::{Run, gpuspy, report};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;

/// A program under `gpuspy run --hang-after 1` that hangs.
struct Hanging {
    run: Run,
    gpuspy: Child,
    lines: Receiver<String>,
}

impl Hanging {
    fn start(mode: &str, options: &[&str]) -> Hanging {
        let run = Run::of("hang");
        let program = gpuspy_tests::program("hang");
        let mut arguments = vec!["run", "--hang-after", "1", "--no-report", "-o", "trace.gspy"];
        arguments.extend(options);
        arguments.extend(["--", program.to_str().unwrap(), mode]);
        let mut command = run.gpuspy_command(&arguments);
        let mut gpuspy = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(gpuspy.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Hanging { run, gpuspy, lines }
    }

    /// Returns the first line about a hang, and the process that it names.
    fn reported(&self) -> (String, i32) {
        let line =
            self.lines.recv_timeout(Duration::from_secs(50)).expect("gpuspy reports the hang while it lasts");
        let pid = line.strip_prefix("gpuspy: hang (").and_then(|rest| rest.split(')').next()?.parse().ok());
        let pid = pid.unwrap_or_else(|| panic!("the first line is not about a hang: {line}"));
        (line, pid)
    }

    /// Kills the program, and returns the report of it and the top of its screen.
    fn kill(mut self, pid: i32) -> (Value, String) {
        // SAFETY: the program runs until it is killed here.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        self.gpuspy.wait().unwrap();
        let trace = self.run.folder().join("trace.gspy");
        (report(&trace), screen(&trace))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // If the test failed, the program ends by itself.
        let _ = self.gpuspy.kill();
        let _ = self.gpuspy.wait();
    }
}

/// Returns the report as it is printed, without line breaks.
fn screen(trace: &Path) -> String {
    let output = Command::new(gpuspy()).arg("report").arg(trace).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn the_hang(report: &Value) -> &Value {
    let hangs = report["hangs"].as_array().unwrap();
    assert_eq!(hangs.len(), 1, "{hangs:#?}");
    &hangs[0]
}

/// Checks the only hang of a program that was killed: its operation was pending for longer than the limit, and blocked a call.
fn assert_hung(report: &Value, kernel: &str, api: &str) {
    let hang = the_hang(report);
    assert_eq!(hang["operation"]["kernel"], kernel, "{hang:#}");
    assert_eq!((&hang["over"], &hang["pending"]), (&json!(false), &json!(true)), "{hang:#}");
    assert!(hang["age_ns"].as_u64().unwrap() >= SECOND, "{hang:#}");
    assert_eq!(hang["device"], 0, "{hang:#}");
    assert_eq!(hang["api"], api, "{hang:#}");
    assert_eq!(hang["pid"], hang["tid"], "the main thread is blocked: {hang:#}");
    assert!(hang["library"].as_str().unwrap().ends_with("/hang"), "{hang:#}");
    assert_eq!(hang["pid"], report["processes"][0]["pid"]);
}

#[test]
fn a_stream_that_waits_for_a_value_that_nobody_writes_is_reported_live_and_after_the_process_was_killed() {
    let hanging = Hanging::start("gate", &[]);
    let (line, pid) = hanging.reported();
    for part in [
        "stalled_3us has been pending for",
        "cuStreamWaitValue32 made the stream wait",
        "the last operation that completed on the stream was ahead_20us",
        "has been in cuStreamSynchronize for",
        "called by hang",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let (report, screen) = hanging.kill(pid);
    assert_hung(&report, "stalled_3us", "cuStreamSynchronize");
    let hang = the_hang(&report);
    assert_eq!(hang["behind"], "cuStreamWaitValue32");
    assert_eq!(hang["last_completed"]["operation"]["kernel"], "ahead_20us");
    assert_eq!(report["processes"][0]["ending"], "killed");
    let top = "hung to the end: GPU 0, stream ";
    assert!(screen.starts_with(top) && screen.contains("stalled_3us has been pending for"), "{screen}");
}

#[test]
fn a_kernel_that_does_not_end_is_reported() {
    let hanging = Hanging::start("kernel", &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("spins_3600000ms has been pending for"), "{line}");
    assert!(!line.contains("made the stream wait"), "{line}");
    let (report, _) = hanging.kill(pid);
    assert_hung(&report, "spins_3600000ms", "cuStreamSynchronize");
}

#[test]
fn a_synchronous_copy_that_waits_for_a_kernel_that_does_not_end_is_the_blocked_call() {
    let hanging = Hanging::start("copy", &[]);
    let (_, pid) = hanging.reported();
    let (report, _) = hanging.kill(pid);
    assert_hung(&report, "spins_3600000ms", "cuMemcpyDtoH");
    assert_eq!(the_hang(&report)["last_completed"], Value::Null, "nothing completed on the default stream");
}

#[test]
fn without_gpu_times_the_blocked_call_is_reported_and_nothing_is_claimed_about_the_gpu() {
    let hanging = Hanging::start("launches", &["--timing", "off"]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("has been in cuStreamSynchronize for"), "{line}");
    assert!(line.contains("whether the GPU goes on is not known"), "{line}");
    let (report, _) = hanging.kill(pid);
    let hang = the_hang(&report);
    assert_eq!((&hang["pending"], &hang["over"]), (&json!(false), &json!(false)));
    assert_eq!(hang["operation"]["kernel"], "stalled_3us");
    assert_eq!(hang["api"], "cuStreamSynchronize");
    assert!(hang["age_ns"].as_u64().unwrap() >= SECOND, "{hang:#}");
}

#[test]
fn a_stalled_stream_is_reported_although_another_one_goes_on_and_no_thread_is_blocked() {
    let hanging = Hanging::start("two", &[]);
    let (line, pid) = hanging.reported();
    assert!(line.contains("other streams of the GPU go on; no thread is blocked in a CUDA call"), "{line}");
    let (report, _) = hanging.kill(pid);
    let hang = the_hang(&report);
    assert_eq!(hang["operation"]["kernel"], "stalled_3us");
    assert_eq!((&hang["others_complete"], &hang["api"]), (&json!(true), &Value::Null), "{hang:#}");
}

#[test]
fn a_kernel_longer_than_the_limit_is_reported_and_then_its_completion() {
    let done = Run::of("hang").arg("slow").observed_with(&["--hang-after", "1"]).succeeded();
    let lines: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("gpuspy: hang (")).collect();
    let [begins, ends] = lines[..] else { panic!("not two lines about hangs: {}", done.stderr) };
    assert!(begins.contains("slow_3000ms has been pending for"), "{begins}");
    assert!(ends.contains("slow_3000ms completed after"), "{ends}");
    let report = done.report();
    let hang = the_hang(&report);
    assert_eq!(hang["over"], true);
    assert!(hang["age_ns"].as_u64().unwrap() >= 2 * SECOND, "{hang:#}");
    assert!(screen(&done.trace()).starts_with("hung for a while: GPU 0"), "{}", screen(&done.trace()));
}

#[test]
fn work_that_goes_on_is_no_hang_however_long_its_queue_is() {
    // On a machine that is so busy that 100 ms become more than ten seconds, it would be right to report a hang.
    for mode in ["progress", "healthy"] {
        let done = Run::of("hang").arg(mode).observed_with(&["--hang-after", "10"]).succeeded();
        assert_eq!(done.report()["hangs"], json!([]), "{mode}");
        assert!(!done.stderr.contains("pending for"), "{mode}: {}", done.stderr);
    }
    gpuspy_tests::until_one_is_good(|| {
        let done = Run::of("hang").arg("progress").observed_with(&["--hang-after", "1"]).succeeded();
        let hangs = &done.report()["hangs"];
        if *hangs == json!([]) { Ok(()) } else { Err(hangs.to_string()) }
    });
}

#[test]
fn with_a_limit_of_0_nothing_is_reported() {
    let done = Run::of("hang").arg("slow").env("GPUSPY_HANG_AFTER", "0").observed().succeeded();
    assert_eq!(done.report()["hangs"], json!([]));
    assert!(!done.stderr.contains("slow_3000ms has been pending"), "{}", done.stderr);
}

#[test]
fn under_the_bare_preload_a_report_shows_the_hang_while_it_lasts() {
    let run = Run::of("hang").arg("gate").env("GPUSPY_HANG_AFTER", "1");
    let mut program = run.preloaded_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let trace = run.folder().join(format!("gpuspy-hang-{}.gspy", program.id()));
    let until = Instant::now() + Duration::from_secs(50);
    let is_reported = || trace.exists() && screen(&trace).starts_with("hangs: GPU 0, stream ");
    while !is_reported() {
        assert!(Instant::now() < until, "the report does not show the hang: {}", screen(&trace));
        std::thread::sleep(Duration::from_millis(300));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    // The collector writes the rest; `report` waits for it.
    assert_hung(&report(&trace), "stalled_3us", "cuStreamSynchronize");
}
